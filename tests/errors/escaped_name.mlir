func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y {"\61" = 1} : () -> ()
  return %x : tensor<2xf32>
}
//> 2:8 error: escapes in a name that needs none | expected a plain word

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y {a = #x.y<[} : () -> ()
  return %x : tensor<2xf32>
}
//> 2:12 error: attribute without an end | its brackets do not match

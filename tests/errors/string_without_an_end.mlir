func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y {a = "abc} : () -> ()
  return %x : tensor<2xf32>
}
//> 2:12 error: string without an end | starts here

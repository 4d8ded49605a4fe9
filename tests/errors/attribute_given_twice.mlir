func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y {a = 1, b, a = 2} : () -> ()
  return %x : tensor<2xf32>
}
//> 2:22 error: attribute `a` is given twice | given again

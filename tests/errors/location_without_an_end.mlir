func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y : () -> () loc(fused<abc
  return %x : tensor<2xf32>
}
//> 2:27 error: location without an end | this `<` has no `>`

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %y : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:23 error: use of undefined value `%y` | not defined here

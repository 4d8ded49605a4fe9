func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 3:3 error: value `%0` is defined twice | defined again

func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
  %1 = stablehlo.multiply %0, %arg0 : tensor<3xf32>
  return %1 : tensor<2xf32>
}

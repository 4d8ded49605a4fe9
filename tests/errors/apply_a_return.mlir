func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.return across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
  return %x : tensor<2xf32>
}
//> 3:8 error: `stablehlo.return` is not an operation to apply | applied here

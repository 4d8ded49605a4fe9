func.func @main(%w: tensor<4xf32> loc("w"), %x: tensor<3xf32> loc("x"), %rate: tensor<f32> loc("rate")) -> (tensor<4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %loss = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %product = stablehlo.multiply %rate, %loss : tensor<f32>
  %change = stablehlo.broadcast_in_dim %product, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %next = stablehlo.subtract %w, %change : tensor<4xf32>
  return %next, %loss : tensor<4xf32>, tensor<f32>
}
//> w: State -> result 0
//> x: Input
//> rate: Input
//> stablehlo.constant Forward
//> stablehlo.reduce Forward
//> stablehlo.multiply Update
//> stablehlo.broadcast_in_dim Update
//> stablehlo.subtract Update

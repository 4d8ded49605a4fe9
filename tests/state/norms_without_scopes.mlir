// The same where no scope tells what is backward: the norm needs all products that the next state needs.
func.func @main(%w: tensor<4x4xf32> loc("w"), %x: tensor<8x4xf32> loc("x")) -> (tensor<4x4xf32> {jax.result_info = "w"}, tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %square = stablehlo.multiply %y, %y : tensor<8x4xf32>
  %loss = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %gradient = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %own = stablehlo.multiply %gradient, %gradient : tensor<4x4xf32>
  %norm = stablehlo.reduce(%own init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  %next = stablehlo.subtract %w, %gradient : tensor<4x4xf32>
  return %next, %norm, %loss : tensor<4x4xf32>, tensor<f32>, tensor<f32>
}
//> w: Parameter -> result 0
//> x: Input
//> stablehlo.constant Forward
//> stablehlo.dot_general Forward
//> stablehlo.multiply Forward
//> stablehlo.reduce Forward
//> stablehlo.dot_general Backward
//> stablehlo.multiply Update
//> stablehlo.reduce Update
//> stablehlo.subtract Update

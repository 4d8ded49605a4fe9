// Between the gradient and the update stands nothing but a product.
func.func @main(%w: tensor<4x6xf32> loc("params.w"), %x: tensor<8x4xf32> loc("x")) -> (tensor<f32> {jax.result_info = "loss"}, tensor<4x6xf32> {jax.result_info = "grads.w"}, tensor<4x6xf32> {jax.result_info = "params.w"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %square = stablehlo.multiply %y, %y : tensor<8x6xf32>
  %loss = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<f32>
  %gradient = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %own = stablehlo.dot_general %gradient, %gradient, contracting_dims = [0] x [0] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
  %mixed = stablehlo.dot_general %w, %own, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %next = stablehlo.subtract %w, %mixed : tensor<4x6xf32>
  return %loss, %gradient, %next : tensor<f32>, tensor<4x6xf32>, tensor<4x6xf32>
}
//> params.w: Parameter -> result 2
//> x: Input
//> stablehlo.constant Forward
//> stablehlo.dot_general Forward
//> stablehlo.multiply Forward
//> stablehlo.reduce Forward
//> stablehlo.dot_general Backward
//> stablehlo.dot_general Update
//> stablehlo.dot_general Update
//> stablehlo.subtract Update

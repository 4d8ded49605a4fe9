// An optimizer that looks at tall matrices as wide ones, as those that make directions orthogonal do.
func.func @main(%w: tensor<4x6xf32> loc("w"), %m: tensor<4x6xf32> loc("m"), %x: tensor<8x4xf32> loc("x")) -> (tensor<4x6xf32> {jax.result_info = "w"}, tensor<4x6xf32> {jax.result_info = "m"}, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %square = stablehlo.multiply %y, %y : tensor<8x6xf32>
  %loss = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<f32>
  %gradient = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %momentum = stablehlo.add %m, %gradient : tensor<4x6xf32>
  %turned = stablehlo.transpose %momentum, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %own = stablehlo.dot_general %turned, %turned, contracting_dims = [1] x [1] : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x6xf32>
  %mixed = stablehlo.dot_general %own, %turned, contracting_dims = [1] x [0] : (tensor<6x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %sum = stablehlo.add %turned, %mixed : tensor<6x4xf32>
  %back = stablehlo.transpose %sum, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %next = stablehlo.subtract %w, %back : tensor<4x6xf32>
  return %next, %momentum, %loss : tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>
}
//> w: Parameter -> result 0
//> m: State -> result 1
//> x: Input
//> stablehlo.constant Forward
//> stablehlo.dot_general Forward
//> stablehlo.multiply Forward
//> stablehlo.reduce Forward
//> stablehlo.dot_general Backward
//> stablehlo.add Update
//> stablehlo.transpose Update
//> stablehlo.dot_general Update
//> stablehlo.dot_general Update
//> stablehlo.add Update
//> stablehlo.transpose Update
//> stablehlo.subtract Update

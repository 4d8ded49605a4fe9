func.func @main(%cache: tensor<8x4xf32> loc("cache.k"), %row: tensor<1x4xf32> loc("row"), %at: tensor<i32> loc("at")) -> (tensor<8x4xf32> {jax.result_info = "result[1]['k']"}, tensor<4xf32> {jax.result_info = "result[0]"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %next = stablehlo.dynamic_update_slice %cache, %row, %at, %zero : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%next init: %none) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %next, %sum : tensor<8x4xf32>, tensor<4xf32>
}
//> cache.k: State -> result 0
//> row: Input
//> at: Input
//> stablehlo.constant Forward
//> stablehlo.dynamic_update_slice Forward
//> stablehlo.constant Forward
//> stablehlo.reduce Forward

func.func @main(%w: tensor<4x4xf32> loc("params.w"), %m: tensor<4x4xf32> loc("opt.m.w"), %v: tensor<4x4xf32> loc("opt.v.w"), %n: tensor<i32> loc("opt.count"), %x: tensor<4x4xf32> loc("batch.x")) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<4x4xf32> {jax.result_info = "result[2].v['w']"}, tensor<4x4xf32> {jax.result_info = "result[2].m['w']"}, tensor<i32> {jax.result_info = "result[2].count"}, tensor<4x4xf32> {jax.result_info = "result[1]['w']"}) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %loss = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  %g = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m1 = stablehlo.add %m, %g : tensor<4x4xf32>
  %gg = stablehlo.multiply %g, %g : tensor<4x4xf32>
  %v1 = stablehlo.add %v, %gg : tensor<4x4xf32>
  %d = stablehlo.divide %m1, %v1 : tensor<4x4xf32>
  %w1 = stablehlo.subtract %w, %d : tensor<4x4xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n1 = stablehlo.add %n, %one : tensor<i32>
  return %loss, %v1, %m1, %n1, %w1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>, tensor<4x4xf32>
}
//> params.w: Parameter -> result 4
//> opt.m.w: State -> result 2
//> opt.v.w: State -> result 1
//> opt.count: State -> result 3
//> batch.x: Input
//> stablehlo.dot_general Forward
//> stablehlo.constant Forward
//> stablehlo.reduce Forward
//> stablehlo.transpose Backward
//> stablehlo.add Update
//> stablehlo.multiply Update
//> stablehlo.add Update
//> stablehlo.divide Update
//> stablehlo.subtract Update
//> stablehlo.constant Update
//> stablehlo.add Update

aten 1 "M"
location 0 "_convolution#0" "model.py" 1
location 1 "_detach#0" "model.py" 1
%0 = argument "params.w.0" : f32[4,3,3,3]
%1 = argument "batch.0" : f32[1,4,5,5]
%2 = aten.convolution.default(%1, %0, none, [2, 2], [1, 1], [1, 1], true, [1, 1], 2) : f32[1,6,10,10] @0
%3 = aten.detach.default(%2) : f32[1,6,10,10] @1
result "outputs" %3
//> module @M attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x3x3x3xf32> loc("params.w.0"), %1: tensor<1x4x5x5xf32> loc("batch.0")) -> (tensor<1x6x10x10xf32> {jax.result_info = "outputs"}) {
//>     %2 = stablehlo.reshape %0 : (tensor<4x3x3x3xf32>) -> tensor<2x2x3x3x3xf32>
//>     %3 = stablehlo.transpose %2, dims = [1, 0, 2, 3, 4] : (tensor<2x2x3x3x3xf32>) -> tensor<2x2x3x3x3xf32>
//>     %4 = stablehlo.reshape %3 : (tensor<2x2x3x3x3xf32>) -> tensor<2x6x3x3xf32>
//>     %5 = stablehlo.convolution(%1, %4) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [true, true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x4x5x5xf32>, tensor<2x6x3x3xf32>) -> tensor<1x6x10x10xf32>
//>     return %5 : tensor<1x6x10x10xf32>
//>   }
//> }

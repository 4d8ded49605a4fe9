aten 1 "M"
location 0 "_convolution#0" "model.py" 1
location 1 "_sum#0" "model.py" 1
location 2 "_ones_like#0" "model.py" 1
location 3 "_SumBackward0#0/_expand#0" "model.py" 1
location 4 "_ConvolutionBackward0#1/_convolution_backward#0" "model.py" 1
location 5 "_detach#0" "model.py" 1
%0 = argument "params.w.0" : f32[4,1,3,3]
%1 = argument "batch.0" : f32[1,2,5,5]
%2 = aten.convolution.default(%1, %0, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2) : f32[1,4,3,3] @0
%3 = aten.sum.default(%2, none) : f32[] @1
%4 = aten.ones_like.default(%3, none, none, none, false, "preserve") : f32[] @2
%5 = aten.expand.default(%4, [1, 4, 3, 3], false) : f32[1,4,3,3] @3
_ %6 _ = aten.convolution_backward.default(%5, %1, %0, [0], [1, 1], [0, 0], [1, 1], false, [0, 0], 2, [false, true, false]) : _ f32[4,1,3,3] _ @4
%7 = aten.detach.default(%3) : f32[] @5
result "loss" %7
result "grads.w.0" %6
//> module @M attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x1x3x3xf32> loc("params.w.0"), %1: tensor<1x2x5x5xf32> loc("batch.0")) -> (tensor<f32> {jax.result_info = "loss"}, tensor<4x1x3x3xf32> {jax.result_info = "grads.w.0"}) {
//>     %2 = stablehlo.convolution(%1, %0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x5x5xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x3x3xf32>
//>     %3 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %4 = stablehlo.reduce(%2 init: %3) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<1x4x3x3xf32>, tensor<f32>) -> tensor<f32>
//>     %8 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<1x4x3x3xf32>
//>     %10 = stablehlo.convolution(%1, %9) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<1x2x5x5xf32>, tensor<1x4x3x3xf32>) -> tensor<4x1x3x3xf32>
//>     return %4, %10 : tensor<f32>, tensor<4x1x3x3xf32>
//>   }
//> }

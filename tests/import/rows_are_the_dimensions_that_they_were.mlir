aten 1 "M"
location 0 "_addmm#0" "model.py" 1
location 1 "_view#0" "model.py" 1
%0 = argument "weight" : f32[4,5]
%1 = argument "bias" : f32[5]
%2 = argument "batch" : f32[6,2,4]
%3 = aten.view.default(%2, [12, 4]) : f32[12,4] @1
%4 = aten.addmm.default(%1, %3, %0, 1, 1) : f32[12,5] @0
%5 = aten.view.default(%4, [6, 2, 5]) : f32[6,2,5] @1
%6 = aten.tanh.default(%5) : f32[6,2,5] @1
%7 = aten.view.default(%6, [12, 5]) : f32[12,5] @1
%8 = aten.t.default(%3) : f32[4,12] @1
%9 = aten.mm.default(%8, %7) : f32[4,5] @0
%10 = aten.sum.dim_IntList(%7, [0], true) : f32[1,5] @0
%11 = aten.as_strided.default(%6, [6, 2, 1, 5], [10, 5, 5, 1], 0) : f32[6,2,1,5] @1
result "weight" %9
result "bias" %10
result "seen" %11
//> module @M attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x5xf32> loc("weight"), %1: tensor<5xf32> loc("bias"), %2: tensor<6x2x4xf32> loc("batch")) -> (tensor<4x5xf32> {jax.result_info = "weight"}, tensor<1x5xf32> {jax.result_info = "bias"}, tensor<6x2x1x5xf32> {jax.result_info = "seen"}) {
//>     %3 = stablehlo.dot_general %2, %0, contracting_dims = [2] x [0] : (tensor<6x2x4xf32>, tensor<4x5xf32>) -> tensor<6x2x5xf32>
//>     %4 = stablehlo.broadcast_in_dim %1, dims = [2] : (tensor<5xf32>) -> tensor<6x2x5xf32>
//>     %5 = stablehlo.add %4, %3 : tensor<6x2x5xf32>
//>     %6 = stablehlo.tanh %5 : tensor<6x2x5xf32>
//>     %7 = stablehlo.dot_general %2, %6, contracting_dims = [0, 1] x [0, 1] : (tensor<6x2x4xf32>, tensor<6x2x5xf32>) -> tensor<4x5xf32>
//>     %8 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %9 = stablehlo.reduce(%6 init: %8) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x2x5xf32>, tensor<f32>) -> tensor<5xf32>
//>     %13 = stablehlo.reshape %9 : (tensor<5xf32>) -> tensor<1x5xf32>
//>     %14 = stablehlo.reshape %6 : (tensor<6x2x5xf32>) -> tensor<6x2x1x5xf32>
//>     return %7, %13, %14 : tensor<4x5xf32>, tensor<1x5xf32>, tensor<6x2x1x5xf32>
//>   }
//> }

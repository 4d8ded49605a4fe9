aten 1 "M"
location 0 "_add#0" "model.py" 1
location 1 "_select#0" "model.py" 1
location 2 "_mul#0" "model.py" 1
location 3 "_select_scatter#0" "model.py" 1
location 4 "_select#1" "model.py" 1
location 5 "_select#2" "model.py" 1
location 6 "_select#3" "model.py" 1
location 7 "_fill#0" "model.py" 1
location 8 "_select_scatter#1" "model.py" 1
location 9 "_select#4" "model.py" 1
location 10 "_empty_like#0" "model.py" 1
location 11 "_add#1" "model.py" 1
location 12 "_mul#1" "model.py" 1
location 13 "_detach#0" "model.py" 1
%0 = argument "params.w.0" : f32[3]
%1 = argument "batch.0" : f32[2,3]
%2 = aten.add.Tensor(%1, 1, 1) : f32[2,3] @0
%3 = aten.select.int(%2, 0, 0) : f32[3] @1
%4 = aten.mul.Tensor(%3, 2) : f32[3] @2
%5 = aten.select_scatter.default(%2, %4, 0, 0) : f32[2,3] @3
%6 = aten.select.int(%5, 0, 0) : f32[3] @4
%7 = aten.select.int(%2, 1, 1) : f32[2] @5
%8 = aten.select.int(%5, 1, 1) : f32[2] @6
%9 = aten.fill.Scalar(%8, 3.0) : f32[2] @7
%10 = aten.select_scatter.default(%5, %9, 1, 1) : f32[2,3] @8
%11 = aten.select.int(%10, 1, 1) : f32[2] @9
%12 = aten.empty_like.default(%10, none, none, none, false, none) : f32[2,3] @10
%13 = aten.add.Tensor(%10, %1, 1) : f32[2,3] @11
%14 = aten.mul.Tensor(%13, %0) : f32[2,3] @12
%15 = aten.detach.default(%14) : f32[2,3] @13
result "outputs" %15
//> module @M attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<3xf32> loc("params.w.0"), %1: tensor<2x3xf32> loc("batch.0")) -> (tensor<2x3xf32> {jax.result_info = "outputs"}) {
//>     %2 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
//>     %4 = stablehlo.add %1, %3 : tensor<2x3xf32>
//>     %5 = stablehlo.slice %4 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
//>     %6 = stablehlo.reshape %5 : (tensor<1x3xf32>) -> tensor<3xf32>
//>     %7 = stablehlo.constant dense<2.0> : tensor<f32>
//>     %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<3xf32>
//>     %9 = stablehlo.multiply %6, %8 : tensor<3xf32>
//>     %10 = stablehlo.reshape %9 : (tensor<3xf32>) -> tensor<1x3xf32>
//>     %11 = stablehlo.slice %4 [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
//>     %12 = stablehlo.concatenate %10, %11, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
//>     %13 = stablehlo.constant dense<3.0> : tensor<f32>
//>     %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<f32>) -> tensor<2xf32>
//>     %15 = stablehlo.reshape %14 : (tensor<2xf32>) -> tensor<2x1xf32>
//>     %16 = stablehlo.slice %12 [0:2, 0:1] : (tensor<2x3xf32>) -> tensor<2x1xf32>
//>     %17 = stablehlo.slice %12 [0:2, 2:3] : (tensor<2x3xf32>) -> tensor<2x1xf32>
//>     %18 = stablehlo.concatenate %16, %15, %17, dim = 1 : (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
//>     %19 = stablehlo.add %18, %1 : tensor<2x3xf32>
//>     %20 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
//>     %21 = stablehlo.multiply %19, %20 : tensor<2x3xf32>
//>     return %21 : tensor<2x3xf32>
//>   }
//> }

aten 1 "M"
location 0 "_max_pool2d_with_indices#0" "model.py" 1
location 1 "_detach#0" "model.py" 1
location 2 "_detach#1" "model.py" 1
%0 = argument "batch.0" : f32[1,2,5,5]
%1 %2 = aten.max_pool2d_with_indices.default(%0, [3, 3], [2, 2], [1, 1], [1, 1], false) : f32[1,2,3,3] i64[1,2,3,3] @0
%3 = aten.detach.default(%1) : f32[1,2,3,3] @1
result "outputs.0" %3
%4 = aten.detach.default(%2) : i64[1,2,3,3] @2
result "outputs.1" %4
//> module @M attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<1x2x5x5xf32> loc("batch.0")) -> (tensor<1x2x3x3xf32> {jax.result_info = "outputs.0"}, tensor<1x2x3x3xi64> {jax.result_info = "outputs.1"}) {
//>     %1 = stablehlo.constant dense<0> : tensor<i64>
//>     %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<i64>) -> tensor<1x2x5x5xi64>
//>     %3 = stablehlo.iota dim = 2 : tensor<1x2x5x5xi64>
//>     %4 = stablehlo.constant dense<5> : tensor<i64>
//>     %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i64>) -> tensor<1x2x5x5xi64>
//>     %6 = stablehlo.multiply %2, %5 : tensor<1x2x5x5xi64>
//>     %7 = stablehlo.add %6, %3 : tensor<1x2x5x5xi64>
//>     %8 = stablehlo.iota dim = 3 : tensor<1x2x5x5xi64>
//>     %9 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i64>) -> tensor<1x2x5x5xi64>
//>     %10 = stablehlo.multiply %7, %9 : tensor<1x2x5x5xi64>
//>     %11 = stablehlo.add %10, %8 : tensor<1x2x5x5xi64>
//>     %12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
//>     %13 = stablehlo.constant dense<9007199254740992> : tensor<i64>
//>     %14, %15 = "stablehlo.reduce_window"(%0, %11, %12, %13) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>}> ({
//>     ^bb0(%16: tensor<f32>, %17: tensor<i64>, %18: tensor<f32>, %19: tensor<i64>):
//>       %20 = stablehlo.compare GT, %16, %18 : (tensor<f32>, tensor<f32>) -> tensor<i1>
//>       %21 = stablehlo.compare NE, %16, %16 : (tensor<f32>, tensor<f32>) -> tensor<i1>
//>       %22 = stablehlo.or %20, %21 : tensor<i1>
//>       %23 = stablehlo.compare EQ, %16, %18 : (tensor<f32>, tensor<f32>) -> tensor<i1>
//>       %24 = stablehlo.compare LT, %17, %19 : (tensor<i64>, tensor<i64>) -> tensor<i1>
//>       %25 = stablehlo.and %23, %24 : tensor<i1>
//>       %26 = stablehlo.or %22, %25 : tensor<i1>
//>       %27 = stablehlo.select %26, %16, %18 : tensor<i1>, tensor<f32>
//>       %28 = stablehlo.select %26, %17, %19 : tensor<i1>, tensor<i64>
//>       stablehlo.return %27, %28 : tensor<f32>, tensor<i64>
//>     }) : (tensor<1x2x5x5xf32>, tensor<1x2x5x5xi64>, tensor<f32>, tensor<i64>) -> (tensor<1x2x3x3xf32>, tensor<1x2x3x3xi64>)
//>     return %14, %15 : tensor<1x2x3x3xf32>, tensor<1x2x3x3xi64>
//>   }
//> }

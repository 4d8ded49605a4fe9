// mesh: a=2
// tile: a %0 = dim 0
func.func @main(%x: tensor<4x3xf32>, %f: tensor<3xf32>) -> tensor<4x3xf32> {
  %trained, %mean, %variance = "stablehlo.batch_norm_training"(%x, %f, %f) <{epsilon = 0.1 : f32, feature_index = 1 : i64}>
    : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %trained : tensor<4x3xf32>
}
//> ([{a}, {}], [{}]) -> ([{a}, {}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x3xf32>, %1: tensor<3xf32>) -> (tensor<2x3xf32>) {
//>     %2 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
//>     %7 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%8: tensor<f32>, %9: tensor<f32>):
//>       %10 = stablehlo.add %8, %9 : tensor<f32>
//>       stablehlo.return %10 : tensor<f32>
//>     }) : (tensor<3xf32>) -> tensor<3xf32>
//>     %11 = stablehlo.constant dense<4.0> : tensor<f32>
//>     %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<3xf32>
//>     %13 = stablehlo.divide %7, %12 : tensor<3xf32>
//>     %14 = stablehlo.broadcast_in_dim %13, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
//>     %15 = stablehlo.subtract %0, %14 : tensor<2x3xf32>
//>     %16 = stablehlo.multiply %15, %15 : tensor<2x3xf32>
//>     %17 = stablehlo.reduce(%16 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
//>     %21 = "stablehlo.all_reduce"(%17) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%22: tensor<f32>, %23: tensor<f32>):
//>       %24 = stablehlo.add %22, %23 : tensor<f32>
//>       stablehlo.return %24 : tensor<f32>
//>     }) : (tensor<3xf32>) -> tensor<3xf32>
//>     %25 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<3xf32>
//>     %26 = stablehlo.constant dense<0.1> : tensor<f32>
//>     %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<f32>) -> tensor<3xf32>
//>     %28 = stablehlo.divide %21, %25 : tensor<3xf32>
//>     %29 = stablehlo.add %28, %27 : tensor<3xf32>
//>     %30 = stablehlo.rsqrt %29 : tensor<3xf32>
//>     %31 = stablehlo.multiply %30, %1 : tensor<3xf32>
//>     %32 = stablehlo.broadcast_in_dim %31, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
//>     %33 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
//>     %34 = stablehlo.multiply %15, %32 : tensor<2x3xf32>
//>     %35 = stablehlo.add %34, %33 : tensor<2x3xf32>
//>     return %35 : tensor<2x3xf32>
//>   }
//> }

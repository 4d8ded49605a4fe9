// mesh: a=2
// tile: a %0 = dim 0
func.func @main(%x: tensor<5x3xf32>, %s: tensor<f32>) -> tensor<3xf32> {
  %m = stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [0] : (tensor<5x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %m : tensor<3xf32>
}
//> ([{}, {}], []) -> ([{}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<5x3xf32>, %1: tensor<f32>) -> (tensor<3xf32>) {
//>     %2 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %3 = stablehlo.pad %0, %2, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<5x3xf32>, tensor<f32>) -> tensor<6x3xf32>
//>     %4 = stablehlo.partition_id : tensor<ui32>
//>     %5 = stablehlo.convert %4 : (tensor<ui32>) -> tensor<i32>
//>     %6 = stablehlo.constant dense<3> : tensor<i32>
//>     %7 = stablehlo.multiply %5, %6 : tensor<i32>
//>     %8 = stablehlo.constant dense<0> : tensor<i32>
//>     %9 = stablehlo.dynamic_slice %3, %7, %8, sizes = [3, 3] : (tensor<6x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
//>     %10 = stablehlo.iota dim = 0 : tensor<3xi32>
//>     %11 = stablehlo.constant dense<3> : tensor<i32>
//>     %12 = stablehlo.multiply %5, %11 : tensor<i32>
//>     %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %14 = stablehlo.add %10, %13 : tensor<3xi32>
//>     %15 = stablehlo.constant dense<5> : tensor<i32>
//>     %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %17 = stablehlo.compare LT, %14, %16, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
//>     %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<3xi1>) -> tensor<3x3xi1>
//>     %19 = stablehlo.constant dense<0xFF800000> : tensor<f32>
//>     %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
//>     %21 = stablehlo.select %18, %9, %20 : tensor<3x3xi1>, tensor<3x3xf32>
//>     %22 = stablehlo.constant dense<0> : tensor<i32>
//>     %23 = stablehlo.compare EQ, %5, %22, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
//>     %24 = stablehlo.constant dense<0xFF800000> : tensor<f32>
//>     %25 = stablehlo.select %23, %1, %24 : tensor<i1>, tensor<f32>
//>     %26 = stablehlo.reduce(%21 init: %25) applies stablehlo.maximum across dimensions = [0] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
//>     %30 = "stablehlo.all_reduce"(%26) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%31: tensor<f32>, %32: tensor<f32>):
//>       %33 = stablehlo.maximum %31, %32 : tensor<f32>
//>       stablehlo.return %33 : tensor<f32>
//>     }) : (tensor<3xf32>) -> tensor<3xf32>
//>     return %30 : tensor<3xf32>
//>   }
//> }

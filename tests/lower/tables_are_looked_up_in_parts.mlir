// mesh: a=2
// tile: a %0 = dim 0
func.func @main(%table: tensor<10x4xf32>, %tokens: tensor<3xi32>) -> tensor<3x4xf32> {
  %lookup = "stablehlo.gather"(%table, %tokens) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<10x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  return %lookup : tensor<3x4xf32>
}
//> ([{a}, {}], [{}]) -> ([{}, {}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<5x4xf32>, %1: tensor<3xi32>) -> (tensor<3x4xf32>) {
//>     %2 = stablehlo.constant dense<9> : tensor<i32>
//>     %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %4 = stablehlo.constant dense<0> : tensor<i32>
//>     %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %6 = stablehlo.clamp %5, %1, %3 : tensor<3xi32>
//>     %7 = stablehlo.partition_id : tensor<ui32>
//>     %8 = stablehlo.convert %7 : (tensor<ui32>) -> tensor<i32>
//>     %9 = stablehlo.constant dense<5> : tensor<i32>
//>     %10 = stablehlo.multiply %8, %9 : tensor<i32>
//>     %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %12 = stablehlo.subtract %6, %11 : tensor<3xi32>
//>     %13 = stablehlo.constant dense<0> : tensor<i32>
//>     %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %15 = stablehlo.compare GE, %12, %14, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
//>     %16 = stablehlo.constant dense<5> : tensor<i32>
//>     %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<i32>) -> tensor<3xi32>
//>     %18 = stablehlo.compare LT, %12, %17, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
//>     %19 = stablehlo.and %15, %18 : tensor<3xi1>
//>     %20 = "stablehlo.gather"(%0, %12) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
//>     %21 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<3xi1>) -> tensor<3x4xi1>
//>     %22 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
//>     %24 = stablehlo.select %21, %20, %23 : tensor<3x4xi1>, tensor<3x4xf32>
//>     %25 = "stablehlo.all_reduce"(%24) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%26: tensor<f32>, %27: tensor<f32>):
//>       %28 = stablehlo.add %26, %27 : tensor<f32>
//>       stablehlo.return %28 : tensor<f32>
//>     }) : (tensor<3x4xf32>) -> tensor<3x4xf32>
//>     return %25 : tensor<3x4xf32>
//>   }
//> }

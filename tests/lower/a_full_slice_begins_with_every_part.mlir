// mesh: a=2,b=2
// tile: a %0 = dim 0
// tile: b %0 = dim 1
func.func @main(%table: tensor<10x4xf32>, %places: tensor<3x2xi32>) -> tensor<3x4xf32> {
  %lookup = "stablehlo.gather"(%table, %places) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<10x4xf32>, tensor<3x2xi32>) -> tensor<3x4xf32>
  return %lookup : tensor<3x4xf32>
}
//> ([{a}, {b}], [{}, {}]) -> ([{}, {b}])
//> module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<5x2xf32>, %1: tensor<3x2xi32>) -> (tensor<3x2xf32>) {
//>     %2 = stablehlo.constant dense<9> : tensor<i32>
//>     %3 = stablehlo.constant dense<0> : tensor<i32>
//>     %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<1xi32>
//>     %5 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i32>) -> tensor<1xi32>
//>     %6 = stablehlo.concatenate %4, %5, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
//>     %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
//>     %8 = stablehlo.constant dense<0> : tensor<i32>
//>     %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
//>     %10 = stablehlo.clamp %9, %1, %7 : tensor<3x2xi32>
//>     %11 = stablehlo.partition_id : tensor<ui32>
//>     %12 = stablehlo.convert %11 : (tensor<ui32>) -> tensor<i32>
//>     %13 = stablehlo.constant dense<2> : tensor<i32>
//>     %14 = stablehlo.divide %12, %13 : tensor<i32>
//>     %15 = stablehlo.constant dense<5> : tensor<i32>
//>     %16 = stablehlo.multiply %14, %15 : tensor<i32>
//>     %17 = stablehlo.constant dense<0> : tensor<i32>
//>     %18 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<i32>) -> tensor<1xi32>
//>     %19 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<i32>) -> tensor<1xi32>
//>     %20 = stablehlo.concatenate %18, %19, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
//>     %21 = stablehlo.broadcast_in_dim %20, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
//>     %22 = stablehlo.subtract %10, %21 : tensor<3x2xi32>
//>     %23 = stablehlo.constant dense<0> : tensor<i32>
//>     %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
//>     %25 = stablehlo.compare GE, %22, %24, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
//>     %26 = stablehlo.constant dense<5> : tensor<i32>
//>     %27 = stablehlo.constant dense<2> : tensor<i32>
//>     %28 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<i32>) -> tensor<1xi32>
//>     %29 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<i32>) -> tensor<1xi32>
//>     %30 = stablehlo.concatenate %28, %29, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
//>     %31 = stablehlo.broadcast_in_dim %30, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
//>     %32 = stablehlo.compare LT, %22, %31, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
//>     %33 = stablehlo.and %25, %32 : tensor<3x2xi1>
//>     %34 = stablehlo.constant dense<true> : tensor<i1>
//>     %35 = stablehlo.reduce(%33 init: %34) applies stablehlo.and across dimensions = [1] : (tensor<3x2xi1>, tensor<i1>) -> tensor<3xi1>
//>     %39 = "stablehlo.gather"(%0, %22) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>}> : (tensor<5x2xf32>, tensor<3x2xi32>) -> tensor<3x2xf32>
//>     %40 = stablehlo.broadcast_in_dim %35, dims = [0] : (tensor<3xi1>) -> tensor<3x2xi1>
//>     %41 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %42 = stablehlo.broadcast_in_dim %41, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
//>     %43 = stablehlo.select %40, %39, %42 : tensor<3x2xi1>, tensor<3x2xf32>
//>     %44 = "stablehlo.all_reduce"(%43) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%45: tensor<f32>, %46: tensor<f32>):
//>       %47 = stablehlo.add %45, %46 : tensor<f32>
//>       stablehlo.return %47 : tensor<f32>
//>     }) : (tensor<3x2xf32>) -> tensor<3x2xf32>
//>     return %44 : tensor<3x2xf32>
//>   }
//> }

func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %i: tensor<2xi32>) -> (tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<2x3xf32>) {
  %0 = "stablehlo.dot"(%x, %y) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "stablehlo.broadcast"(%x) {broadcast_sizes = dense<5> : tensor<1xi64>} : (tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %2 = "stablehlo.torch_index_select"(%x, %i) {dim = 0 : i64, batch_dims = 0 : i64} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  %3 = chlo.broadcast_add %2, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %3 : tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<2x3xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x3xf32>, %1: tensor<3x4xf32>, %2: tensor<2xi32>) -> (tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<2x3xf32>) {
//>     %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
//>     %4 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<5x2x3xf32>
//>     %5 = "stablehlo.gather"(%0, %2) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
//>     %6 = stablehlo.add %5, %0 : tensor<2x3xf32>
//>     return %3, %4, %6 : tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<2x3xf32>
//>   }
//> }

func.func @main(%table: tensor<100x8xf32>, %tokens: tensor<4x5xi32>, %batched: tensor<4x100x8xf32>, %places: tensor<4x5x1xi32>,
                %updates: tensor<4x5x8xf32>, %rows: tensor<4x1xi32>, %row: tensor<4x8xf32>)
    -> (tensor<4x5x8xf32>, tensor<4x5x8xf32>, tensor<4x3x8xf32>, tensor<100x8xf32>, tensor<4x100x8xf32>, tensor<100x8xf32>,
        tensor<4x5x8xf32>, tensor<4x5x3xf32>) {
  %lookup = "stablehlo.gather"(%table, %tokens) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}> : (tensor<100x8xf32>, tensor<4x5xi32>) -> tensor<4x5x8xf32>
  %batched_lookup = "stablehlo.gather"(%batched, %places) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
    collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1, 8>}> : (tensor<4x100x8xf32>, tensor<4x5x1xi32>) -> tensor<4x5x8xf32>
  %windows = "stablehlo.gather"(%table, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 3, 8>}> : (tensor<100x8xf32>, tensor<4x1xi32>) -> tensor<4x3x8xf32>
  %added = "stablehlo.scatter"(%table, %places, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<100x8xf32>, tensor<4x5x1xi32>, tensor<4x5x8xf32>) -> tensor<100x8xf32>
  %batched_added = "stablehlo.scatter"(%batched, %places, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2],
    inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1],
    index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x100x8xf32>, tensor<4x5x1xi32>, tensor<4x5x8xf32>) -> tensor<4x100x8xf32>
  %replaced = "stablehlo.scatter"(%table, %rows, %row) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<100x8xf32>, tensor<4x1xi32>, tensor<4x8xf32>) -> tensor<100x8xf32>
  %sorted = "stablehlo.sort"(%updates) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x5x8xf32>) -> tensor<4x5x8xf32>
  %best, %positions = chlo.top_k(%updates, k = 3) : tensor<4x5x8xf32> -> (tensor<4x5x3xf32>, tensor<4x5x3xi32>)
  return %lookup, %batched_lookup, %windows, %added, %batched_added, %replaced, %sorted, %best
    : tensor<4x5x8xf32>, tensor<4x5x8xf32>, tensor<4x3x8xf32>, tensor<100x8xf32>, tensor<4x100x8xf32>, tensor<100x8xf32>,
      tensor<4x5x8xf32>, tensor<4x5x3xf32>
}
//> stablehlo.gather ([k, l], [i, j]) -> ([i, j, l]) {i=4, j=5, k=100, l=8} sum={k}
//>   carries any {0}
//> stablehlo.gather ([i, k, l], [i, j, _]) -> ([i, j, l]) {i=4, j=5, k=100, l=8} sum={k}
//>   carries any {0}
//> stablehlo.gather ([_, j], [i, _]) -> ([i, _, j]) {i=4, j=8}
//>   carries any {0}
//> stablehlo.scatter ([k, l], [i, j, _], [i, j, l]) -> ([k, l]) {i=4, j=5, k=100, l=8} sum={i, j}
//>   carries sum {0, 2}
//> stablehlo.scatter ([i, k, l], [i, j, _], [i, j, l]) -> ([i, k, l]) {i=4, j=5, k=100, l=8} sum={j}
//>   carries sum {0, 2}
//> stablehlo.scatter ([j, k], [i, _], [i, k]) -> ([j, k]) {i=4, j=100, k=8} whole={i}
//> stablehlo.sort ([i, _, j]) -> ([i, _, j]) {i=4, j=8}
//> chlo.top_k ([i, j, _]) -> ([i, j, _], [i, j, _]) {i=4, j=5}

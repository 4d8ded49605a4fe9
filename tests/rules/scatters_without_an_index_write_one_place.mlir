func.func @main(%table: tensor<4x6xf32>, %rows: tensor<3x1xi32>, %updates: tensor<3xf32>) -> tensor<4x6xf32> {
  %added = "stablehlo.scatter"(%table, %rows, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4x6xf32>
  return %added : tensor<4x6xf32>
}
//> stablehlo.scatter ([j, k], [i, _], [i]) -> ([j, k]) {i=3, j=4, k=6} sum={i} whole={k}
//>   carries sum {0, 2}

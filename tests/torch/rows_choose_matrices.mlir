func.func @main(%x: tensor<5x1x3xf32>, %w: tensor<4x3x2xf32>, %i: tensor<5xi64>, %g: tensor<5x1x2xf32>) -> (tensor<5x1x2xf32>, tensor<4x3x2xf32>, tensor<5x3x2xf32>) {
  %chosen = "stablehlo.gather"(%w, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3, 2>}> : (tensor<4x3x2xf32>, tensor<5xi64>) -> tensor<5x3x2xf32>
  %made = stablehlo.dot_general %x, %chosen, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<5x1x3xf32>, tensor<5x3x2xf32>) -> tensor<5x1x2xf32>
  %each = stablehlo.dot_general %x, %g, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<5x1x3xf32>, tensor<5x1x2xf32>) -> tensor<5x3x2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x3x2xf32>
  %sums = "stablehlo.scatter"(%zeros, %i, %each) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x3x2xf32>, tensor<5xi64>, tensor<5x3x2xf32>) -> tensor<4x3x2xf32>
  %seen = "stablehlo.gather"(%w, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 3, 2>}> : (tensor<4x3x2xf32>, tensor<5xi64>) -> tensor<5x3x2xf32>
  return %made, %sums, %seen : tensor<5x1x2xf32>, tensor<4x3x2xf32>, tensor<5x3x2xf32>
}
//> # Written by Meshwright: what each device runs. Names that are not defined here are those of
//> # `meshwright.torch.ops`, and `rank`, `device`, `groups`, `constants` and `chance`.
//> 
//> GROUPS = [
//> ]
//> CONSTANTS = [
//> ]
//> 
//> 
//> # Numbers of the results that it gives.
//> RUN = [0, 1, 2]
//> 
//> def run(arguments):
//>     v0 = arguments[0]
//>     v1 = arguments[1]
//>     v2 = arguments[2]
//>     v3 = arguments[3]
//>     v5 = chosen_products(v0, v1, v2)
//>     v8 = summed_products(v0.mT, v3, v2, 4)
//>     v12 = take(v1, v2, 0)
//>     return [v5, v8, v12]

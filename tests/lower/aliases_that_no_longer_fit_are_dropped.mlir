// mesh: a=2
// tile: a %0 = dim 0
func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32} loc("params.a"), %b: tensor<4xf32> {tf.aliasing_output = 0 : i32} loc("params.b"))
    -> (tensor<4xf32> {jax.result_info = "params.a"}, tensor<4xf32> {jax.result_info = "params.b"}) {
  %next_a = stablehlo.negate %a : tensor<4xf32>
  %next_b = stablehlo.negate %b : tensor<4xf32>
  return %next_a, %next_b : tensor<4xf32>, tensor<4xf32>
}
//> ([{a}], [{}]) -> ([{a}], [{}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2xf32> {jax.buffer_donor = true} loc("params.a"), %1: tensor<4xf32> {jax.buffer_donor = true} loc("params.b")) -> (tensor<2xf32> {jax.result_info = "params.a"}, tensor<4xf32> {jax.result_info = "params.b"}) {
//>     %2 = stablehlo.negate %0 : tensor<2xf32>
//>     %3 = stablehlo.negate %1 : tensor<4xf32>
//>     return %2, %3 : tensor<2xf32>, tensor<4xf32>
//>   }
//> }

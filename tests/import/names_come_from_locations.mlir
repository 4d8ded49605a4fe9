#loc1 = loc("params['layers'][0]['w']")
module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32} loc("params['layers'][0]['w']"), %arg1: tensor<4xf32> {jax.buffer_donor = true} loc("batch.x")) -> (tensor<4xf32> {jax.result_info = "result[0]['layers'][0]['w']"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32> loc(#loc2)
    return %0 : tensor<4xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("jit(step)/jvp(layer0)/add"(#loc3))
#loc3 = loc("step.py":3:4)
//> module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4xf32> {tf.aliasing_output = 0 : i32} loc("params.layers.0.w"), %1: tensor<4xf32> {jax.buffer_donor = true} loc("batch.x")) -> (tensor<4xf32> {jax.result_info = "result.0.layers.0.w"}) {
//>     %2 = stablehlo.add %0, %1 : tensor<4xf32>
//>     return %2 : tensor<4xf32>
//>   }
//> }

func.func @main(%w: tensor<512x512xf32> loc("params.w"), %x: tensor<4096x512xf32> loc("batch.x")) -> (tensor<512x512xf32> {jax.result_info = "params.w"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x512xf32>, tensor<512x512xf32>) -> tensor<4096x512xf32> loc("step.py":12:7)
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0] : (tensor<4096x512xf32>, tensor<4096x512xf32>) -> tensor<512x512xf32> loc("step.py":13:7)
  %2 = stablehlo.add %w, %1 : tensor<512x512xf32> loc("step.py":14:7)
  return %2 : tensor<512x512xf32>
}

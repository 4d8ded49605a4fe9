#loc = loc("x")
func.func @main(%arg0: tensor<8x16xf32> loc("x"), %arg1: tensor<16x16xf32> loc("params.w")) -> (tensor<8x16xf32> {jax.result_info = "y"}) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("jit(f)/block_0/bij,bjk->bik/dot_general")
  %1 = stablehlo.tanh %0 : tensor<8x16xf32> loc("jit(f)/block_0/tanh")
  %2 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("jit(f)/block_1/_inner/dot_general")
  %3 = stablehlo.tanh %2 : tensor<8x16xf32> loc("jit(f)/block_1/tanh")
  return %3 : tensor<8x16xf32> loc("jit(f)")
} loc(#loc)

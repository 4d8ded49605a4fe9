func.func @main(%a: tensor<5x2x3x4xf32>, %b: tensor<5x4x3x6xf32>, %image: tensor<8x10x10x4xf32>, %kernel: tensor<3x3x4x6xf32>,
                %grouped: tensor<3x3x2x6xf32>, %batched: tensor<3x3x4x6xf32>, %query: tensor<2x8x5x16xf32>, %key: tensor<2x4x7x16xf32>,
                %value: tensor<2x4x7x12xf32>, %bias: tensor<1x8x1x7xf32>, %gradient: tensor<2x8x5x12xf32>)
    -> (tensor<5x2x6xf32>, tensor<8x8x8x6xf32>, tensor<8x8x8x6xf32>, tensor<4x8x8x6xf32>, tensor<2x8x5x12xf32>,
        tensor<2x8x5x16xf32>, tensor<2x4x7x16xf32>, tensor<2x4x7x12xf32>, tensor<1x8x1x7xf32>) {
  %dot = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2, 3] x [2, 1]
    : (tensor<5x2x3x4xf32>, tensor<5x4x3x6xf32>) -> tensor<5x2x6xf32>
  %conv = stablehlo.convolution(%image, %kernel) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x10x10x4xf32>, tensor<3x3x4x6xf32>) -> tensor<8x8x8x6xf32>
  %groups = stablehlo.convolution(%image, %grouped) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<8x10x10x4xf32>, tensor<3x3x2x6xf32>) -> tensor<8x8x8x6xf32>
  %batches = stablehlo.convolution(%image, %batched) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<8x10x10x4xf32>, tensor<3x3x4x6xf32>) -> tensor<4x8x8x6xf32>
  %output, %statistics = stablehlo.custom_call @meshwright.attention(%query, %key, %value, %bias)
    {meshwright.causal = false, meshwright.scale = 0.25 : f64, meshwright.statistics = true}
    : (tensor<2x8x5x16xf32>, tensor<2x4x7x16xf32>, tensor<2x4x7x12xf32>, tensor<1x8x1x7xf32>) -> (tensor<2x8x5x12xf32>, tensor<2x8x5xf32>)
  %query_gradient, %key_gradient, %value_gradient, %bias_gradient = stablehlo.custom_call
    @meshwright.attention_grad(%query, %key, %value, %bias, %output, %statistics, %gradient)
    {meshwright.bias_gradient = true, meshwright.causal = false, meshwright.scale = 0.25 : f64}
    : (tensor<2x8x5x16xf32>, tensor<2x4x7x16xf32>, tensor<2x4x7x12xf32>, tensor<1x8x1x7xf32>, tensor<2x8x5x12xf32>, tensor<2x8x5xf32>, tensor<2x8x5x12xf32>)
    -> (tensor<2x8x5x16xf32>, tensor<2x4x7x16xf32>, tensor<2x4x7x12xf32>, tensor<1x8x1x7xf32>)
  return %dot, %conv, %groups, %batches, %output, %query_gradient, %key_gradient, %value_gradient, %bias_gradient
    : tensor<5x2x6xf32>, tensor<8x8x8x6xf32>, tensor<8x8x8x6xf32>, tensor<4x8x8x6xf32>, tensor<2x8x5x12xf32>,
      tensor<2x8x5x16xf32>, tensor<2x4x7x16xf32>, tensor<2x4x7x12xf32>, tensor<1x8x1x7xf32>
}
//> stablehlo.dot_general ([i, j, l, m], [i, m, l, k]) -> ([i, j, k]) {i=5, j=2, k=6, l=3, m=4} sum={l, m}
//>   carries sum {0}
//>   carries sum {1}
//> stablehlo.convolution ([i, _, _, j], [_, _, j, k]) -> ([i, _, _, k]) {i=8, j=4, k=6} sum={j}
//>   carries sum {0}
//>   carries sum {1}
//> stablehlo.convolution ([i, _, _, jk], [_, _, k, jl]) -> ([i, _, _, jl]) {i=8, j=2, k=2, l=3} sum={k}
//>   carries sum {0}
//>   carries sum {1}
//> stablehlo.convolution ([ij, _, _, k], [_, _, k, il]) -> ([j, _, _, il]) {i=2, j=4, k=4, l=3} sum={k}
//>   carries sum {0}
//>   carries sum {1}
//> meshwright.attention ([i, jk, l, n], [i, j, m, n], [i, j, m, o], [_, jk, _, m]) -> ([i, jk, l, o], [i, jk, l]) {i=2, j=4, k=2, l=5, m=7, n=16, o=12} whole={m, n, o}
//> meshwright.attention_grad ([i, jk, l, n], [i, j, m, n], [i, j, m, o], [_, jk, _, m], [i, jk, l, o], [i, jk, l], [i, jk, l, o]) -> ([i, jk, l, n], [i, j, m, n], [i, j, m, o], [_, jk, _, m]) {i=2, j=4, k=2, l=5, m=7, n=16, o=12} sum={i, k, l} whole={m, n, o} even={i, k, l}

func.func @main(%query: tensor<2x8x5x16xf32>, %key: tensor<2x8x7x16xf32>, %bias: tensor<1x1x1x7xf32>, %output: tensor<2x8x5x16xf32>,
                %statistics: tensor<2x8x5xf32>) -> (tensor<2x8x5x16xf32>, tensor<1x1x1x7xf32>) {
  %gradients:4 = stablehlo.custom_call @meshwright.attention_grad(%query, %key, %key, %bias, %output, %statistics, %output)
    {meshwright.bias_gradient = true, meshwright.causal = true, meshwright.scale = 0.25 : f64}
    : (tensor<2x8x5x16xf32>, tensor<2x8x7x16xf32>, tensor<2x8x7x16xf32>, tensor<1x1x1x7xf32>, tensor<2x8x5x16xf32>, tensor<2x8x5xf32>, tensor<2x8x5x16xf32>)
    -> (tensor<2x8x5x16xf32>, tensor<2x8x7x16xf32>, tensor<2x8x7x16xf32>, tensor<1x1x1x7xf32>)
  return %gradients#0, %gradients#3 : tensor<2x8x5x16xf32>, tensor<1x1x1x7xf32>
}
//> meshwright.attention_grad ([i, j, k, m], [i, j, l, m], [i, j, l, n], [_, _, _, l], [i, j, k, n], [i, j, k], [i, j, k, n]) -> ([i, j, k, m], [i, j, l, m], [i, j, l, n], [_, _, _, l]) {i=2, j=8, k=5, l=7, m=16, n=16} sum={i, j} whole={k, l, m, n} even={i, j}

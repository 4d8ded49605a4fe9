func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a, %b = stablehlo.tanh %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:12 error: `stablehlo.tanh` needs one name per result | 2 names and 1 result

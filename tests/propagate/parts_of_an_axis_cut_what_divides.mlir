// mesh: a=6
// tile: a %0 = dim 0
func.func @main(%x: tensor<12xf32>) -> (tensor<2x6xf32>, tensor<4x3xf32>) {
  %two = stablehlo.reshape %x : (tensor<12xf32>) -> tensor<2x6xf32>
  %four = stablehlo.reshape %x : (tensor<12xf32>) -> tensor<4x3xf32>
  return %two, %four : tensor<2x6xf32>, tensor<4x3xf32>
}
//> %0: [{a}]
//> %1: [{a:(1)2}, {a:(2)3}] = stablehlo.reshape ([{a}]) -> ([{a:(1)2}, {a:(2)3}])
//> %2: [{a:(1)2}, {}] = stablehlo.reshape ([{a:(1)2}]) -> ([{a:(1)2}, {}])

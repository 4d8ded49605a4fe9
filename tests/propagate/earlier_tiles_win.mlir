// mesh: a=2
// tile: a %0 = dim 0
// tile: a %1 = dim 1
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %h : tensor<8x8xf32>
}
//> %0: [{a}, {}]
//> %1: [{}, {a}]
//> %2: [{a}, {}] = stablehlo.dot_general ([{a}, {}], [{}, {}]) -> ([{a}, {}])

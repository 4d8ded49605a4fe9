// mesh: data=2
// tile: data %0 = dim 0
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %y: tensor<8x6xf32>) -> (tensor<f32>, tensor<4x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %e = stablehlo.subtract %p, %y : tensor<8x6xf32>
  %s = stablehlo.multiply %e, %e : tensor<8x6xf32>
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<f32>
  %g = stablehlo.dot_general %x, %e, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %u = stablehlo.subtract %w, %g : tensor<4x6xf32>
  return %loss, %u : tensor<f32>, tensor<4x6xf32>
}
//> %0: [{data}, {}]
//> %1: [{}, {}]
//> %2: [{data}, {}]
//> %3: free = stablehlo.constant
//> %4: [{data}, {}] = stablehlo.dot_general ([{data}, {}], [{}, {}]) -> ([{data}, {}])
//> %5: [{data}, {}] = stablehlo.subtract ([{data}, {}], [{data}, {}]) -> ([{data}, {}])
//> %6: [{data}, {}] = stablehlo.multiply ([{data}, {}], [{data}, {}]) -> ([{data}, {}])
//> %7: [] = stablehlo.reduce ([{data}, {}], []) -> ([] sum over {data})
//> %11: [{}, {}] = stablehlo.dot_general ([{data}, {}], [{data}, {}]) -> ([{}, {}] sum over {data})
//> %12: [{}, {}] = stablehlo.subtract

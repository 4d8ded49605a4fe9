// mesh: data=2,model=4
// tile: data %0 = dim 0
// tile: model %1 = dim 1
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %v: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %t = stablehlo.tanh %h : tensor<8x8xf32>
  %o = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %o : tensor<8x4xf32>
}
//> %0: [{data}, {}]
//> %1: [{}, {model}]
//> %2: [{model}, {}]
//> %3: [{data}, {model}] = stablehlo.dot_general ([{data}, {}], [{}, {model}]) -> ([{data}, {model}])
//> %4: [{data}, {model}] = stablehlo.tanh ([{data}, {model}]) -> ([{data}, {model}])
//> %5: [{data}, {}] = stablehlo.dot_general ([{data}, {model}], [{model}, {}]) -> ([{data}, {}] sum over {model})

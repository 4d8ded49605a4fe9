// mesh: a=2,b=2
// tile: a %0 = dim 0
// tile: b %1 = dim 0
func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<4x6xf32>
  %p = stablehlo.multiply %x, %half : tensor<4x6xf32>
  %q = stablehlo.multiply %y, %half : tensor<4x6xf32>
  return %p, %q : tensor<4x6xf32>, tensor<4x6xf32>
}
//> %0: [{a}, {}]
//> %1: [{b}, {}]
//> %2: free = stablehlo.constant
//> %3: [{a}, {}] = stablehlo.multiply ([{a}, {}], [{a}, {}]) -> ([{a}, {}])
//> %4: [{b}, {}] = stablehlo.multiply ([{b}, {}], [{b}, {}]) -> ([{b}, {}])

// mesh: a=2
// tile: a %0 = dim 0
func.func @main(%x: tensor<4x3xf32>, %w: tensor<3x3xf32>) -> tensor<4x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<4x3xf32>
  cond {
    %limit = stablehlo.constant dense<5> : tensor<i32>
    %more = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %n : tensor<i32>, tensor<4x3xf32>
  }
  return %0#1 : tensor<4x3xf32>
}
//> %0: [{a}, {}]
//> %1: [{}, {}]
//> %2: free = stablehlo.constant
//> %3: [], %4: [{a}, {}] = stablehlo.while
//> %7: free = stablehlo.constant
//> %8: [] = stablehlo.compare
//> %11: [{a}, {}] = stablehlo.dot_general ([{a}, {}], [{}, {}]) -> ([{a}, {}])
//> %12: free = stablehlo.constant
//> %13: [] = stablehlo.add

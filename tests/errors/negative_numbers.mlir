func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.iota dim = -1 : tensor<2xi32>
  %1 = stablehlo.transpose %x, dims = [-1] : (tensor<2xf32>) -> tensor<2xf32>
  %2 = stablehlo.dot_general %x, %x, contracting_dims = [-1] x [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return %x : tensor<2xf32>
}
//> 2:29 error: `dim` of `stablehlo.iota` is negative | found -1
//> 3:39 error: `dims` of `stablehlo.transpose` is negative | found -1
//> 4:57 error: `contracting_dims` of `stablehlo.dot_general` is negative | found -1

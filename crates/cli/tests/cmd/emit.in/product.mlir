func.func @main(%arg0: tensor<4x8xf32> loc("x"), %arg1: tensor<8x2xf32> loc("w")) -> tensor<4x2xf32> {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

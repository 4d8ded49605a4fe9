func.func @main(%arg0: tensor<16xf32>) -> tensor<16xf32> {
  return %arg0 : tensor<16xf32>
}

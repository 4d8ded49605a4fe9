func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.tanh %x : tensor<f32>
}
//> 1:1 error: the function has no `return` | its last operation is missing

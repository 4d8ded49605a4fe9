func.func private @first(%x: tensor<2xq>, %y: tensor<f32>) -> tensor<f32> {
  return %y : tensor<f32>
}
func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %z = stablehlo.add %x, %y : tensor<f32>
  return %z : tensor<f32>
}
//> 1:39 error: unknown element type `q` | expected a type such as `f32`, `bf16` or `i32`

func.func @main() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.add %0, %0 : tensor<2xi32>
  check.expect_eq_const %1, dense<[2, 4]> : tensor<2xi32>
  return
}
// -----
func.func @main() -> tensor<f32> {
  %0 = stablehlo.constant dense<2.0> : tensor<f32>
  %1 = stablehlo.multiply %0, %0 : tensor<f32>
  check.expect_almost_eq_const %1, dense<4.0> : tensor<f32>
  return %1 : tensor<f32>
}

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.constant"() {value = dense<1.0
  return %x : tensor<2xf32>
}
//> 2:45 error: constant without an end | this `<` has no `>`

#loc = loc("w")
module @m {
  func.func public @main(%arg0: tensor<2x3xf32> loc(#loc)) -> (tensor<2xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

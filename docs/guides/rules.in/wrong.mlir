module @step {
  func.func public @main(
      %weights: tensor<64x32xf32> loc("params.weights"),
      %batch: tensor<16x64xf32> loc("batch.0")) -> tensor<16x32xf32> {
    %0 = stablehlo.custom_call @my_matmul(%batch, %weights) {meshwright.rule = "(i k, k) -> (i j)"} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %1 = stablehlo.tanh %0 : tensor<16x32xf32>
    return %1 : tensor<16x32xf32>
  }
}

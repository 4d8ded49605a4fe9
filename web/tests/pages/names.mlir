#where = loc("<img src=x onerror=alert(1)>.py":12:3)
#both = loc("layer</style>/dense<script>window.broken = true</script>/dot_general"(#where))
module @names {
  func.func public @main(
      %arg0: tensor<64x32xf32> loc("params.<script>window.broken = true</script>"),
      %arg1: tensor<16x64xf32> loc("batch.</style>&amp;\u2028")) -> (tensor<16x32xf32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc(#both)
    %1 = stablehlo.tanh %0 : tensor<16x32xf32> loc(#both)
    return %1 : tensor<16x32xf32>
  }
}

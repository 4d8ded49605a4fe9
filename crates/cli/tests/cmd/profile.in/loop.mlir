module @count {
  func.func @main(%arg0: tensor<1024x1024xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<1024x1024xbf16>) -> (tensor<1024x1024xf32>, tensor<i32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %c) : tensor<1024x1024xf32>, tensor<i32>
    cond {
      %c_1 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg_0, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.convert %arg1 : (tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
      %2 = func.call @body(%iterArg, %1) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %3 = stablehlo.add %iterArg_0, %c_1 : tensor<i32>
      stablehlo.return %2, %3 : tensor<1024x1024xf32>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<1024x1024xf32>, tensor<i32>
  }
  func.func private @body(%arg0: tensor<1024x1024xf32>, %arg1: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<1024x1024xf32>
    return %0 : tensor<1024x1024xf32>
  }
}

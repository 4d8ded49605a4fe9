module @jit_step {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0:2 = call @both(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %1 = call @square(%0#1) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = stablehlo.add %0#0, %1 : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
  func.func private @both(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = call @square(%x) : (tensor<2xf32>) -> tensor<2xf32>
    return %x, %0 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @square(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
//> module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {
//>     %1 = stablehlo.multiply %0, %0 : tensor<2xf32>
//>     %2 = stablehlo.multiply %1, %1 : tensor<2xf32>
//>     %3 = stablehlo.add %0, %2 : tensor<2xf32>
//>     return %3 : tensor<2xf32>
//>   }
//> }

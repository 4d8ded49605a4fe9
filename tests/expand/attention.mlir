func.func @main(%query: tensor<2x4x8x16xf32>, %key: tensor<2x4x6x16xf32>, %value: tensor<2x4x6x5xf32>) -> tensor<2x4x8x5xf32> {
  %0 = stablehlo.custom_call @meshwright.attention(%query, %key, %value) {meshwright.causal = false, meshwright.scale = 0.125 : f64} : (tensor<2x4x8x16xf32>, tensor<2x4x6x16xf32>, tensor<2x4x6x5xf32>) -> tensor<2x4x8x5xf32>
  return %0 : tensor<2x4x8x5xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4x8x16xf32>, %1: tensor<2x4x6x16xf32>, %2: tensor<2x4x6x5xf32>) -> (tensor<2x4x8x5xf32>) {
//>     %3 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x8x16xf32>, tensor<2x4x6x16xf32>) -> tensor<2x4x8x6xf32>
//>     %4 = stablehlo.constant dense<0.125> : tensor<f32>
//>     %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<2x4x8x6xf32>
//>     %6 = stablehlo.multiply %3, %5 : tensor<2x4x8x6xf32>
//>     %7 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
//>     %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x8xf32>
//>     %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x6xf32>
//>     %13 = stablehlo.subtract %6, %12 : tensor<2x4x8x6xf32>
//>     %14 = stablehlo.exponential %13 : tensor<2x4x8x6xf32>
//>     %15 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %16 = stablehlo.reduce(%14 init: %15) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x8xf32>
//>     %20 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %21 = stablehlo.broadcast_in_dim %20, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
//>     %22 = stablehlo.maximum %16, %21 : tensor<2x4x8xf32>
//>     %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x6xf32>
//>     %24 = stablehlo.divide %14, %23 : tensor<2x4x8x6xf32>
//>     %25 = stablehlo.dot_general %24, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x8x6xf32>, tensor<2x4x6x5xf32>) -> tensor<2x4x8x5xf32>
//>     return %25 : tensor<2x4x8x5xf32>
//>   }
//> }

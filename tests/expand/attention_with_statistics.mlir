func.func @main(%query: tensor<1x1x2x4xf32>, %key: tensor<1x1x3x4xf32>, %value: tensor<1x1x3x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x2xf32>) {
  %0:2 = stablehlo.custom_call @meshwright.attention(%query, %key, %value) {meshwright.causal = false, meshwright.scale = 1.0 : f64, meshwright.statistics = true} : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x2xf32>)
  return %0#0, %0#1 : tensor<1x1x2x4xf32>, tensor<1x1x2xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<1x1x2x4xf32>, %1: tensor<1x1x3x4xf32>, %2: tensor<1x1x3x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x2xf32>) {
//>     %3 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x3xf32>
//>     %4 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<1x1x2x3xf32>
//>     %6 = stablehlo.multiply %3, %5 : tensor<1x1x2x3xf32>
//>     %7 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
//>     %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x2x3xf32>, tensor<f32>) -> tensor<1x1x2xf32>
//>     %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
//>     %13 = stablehlo.subtract %6, %12 : tensor<1x1x2x3xf32>
//>     %14 = stablehlo.exponential %13 : tensor<1x1x2x3xf32>
//>     %15 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %16 = stablehlo.reduce(%14 init: %15) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x3xf32>, tensor<f32>) -> tensor<1x1x2xf32>
//>     %20 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %21 = stablehlo.broadcast_in_dim %20, dims = [] : (tensor<f32>) -> tensor<1x1x2xf32>
//>     %22 = stablehlo.maximum %16, %21 : tensor<1x1x2xf32>
//>     %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
//>     %24 = stablehlo.divide %14, %23 : tensor<1x1x2x3xf32>
//>     %25 = stablehlo.dot_general %24, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x4xf32>
//>     %26 = stablehlo.log %16 : tensor<1x1x2xf32>
//>     %27 = stablehlo.add %8, %26 : tensor<1x1x2xf32>
//>     return %25, %27 : tensor<1x1x2x4xf32>, tensor<1x1x2xf32>
//>   }
//> }

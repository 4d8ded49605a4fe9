func.func @main(%query: tensor<1x1x2x4xf32>, %key: tensor<1x1x3x4xf32>, %value: tensor<1x1x3x5xf32>, %output: tensor<1x1x2x5xf32>, %statistics: tensor<1x1x2xf32>, %output_gradient: tensor<1x1x2x5xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x5xf32>) {
  %0:3 = stablehlo.custom_call @meshwright.attention_grad(%query, %key, %value, %output, %statistics, %output_gradient) {meshwright.causal = false, meshwright.scale = 0.5 : f64} : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x5xf32>, tensor<1x1x2x5xf32>, tensor<1x1x2xf32>, tensor<1x1x2x5xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x5xf32>)
  return %0#0, %0#1, %0#2 : tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x5xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<1x1x2x4xf32>, %1: tensor<1x1x3x4xf32>, %2: tensor<1x1x3x5xf32>, %3: tensor<1x1x2x5xf32>, %4: tensor<1x1x2xf32>, %5: tensor<1x1x2x5xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x5xf32>) {
//>     %6 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x3xf32>
//>     %7 = stablehlo.constant dense<0.5> : tensor<f32>
//>     %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<1x1x2x3xf32>
//>     %9 = stablehlo.multiply %6, %8 : tensor<1x1x2x3xf32>
//>     %10 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
//>     %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<1x1x2xf32>
//>     %12 = stablehlo.maximum %4, %11 : tensor<1x1x2xf32>
//>     %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
//>     %14 = stablehlo.subtract %9, %13 : tensor<1x1x2x3xf32>
//>     %15 = stablehlo.exponential %14 : tensor<1x1x2x3xf32>
//>     %16 = stablehlo.dot_general %15, %5, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x2x5xf32>) -> tensor<1x1x3x5xf32>
//>     %17 = stablehlo.dot_general %5, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x5xf32>, tensor<1x1x3x5xf32>) -> tensor<1x1x2x3xf32>
//>     %18 = stablehlo.multiply %3, %5 : tensor<1x1x2x5xf32>
//>     %19 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %20 = stablehlo.reduce(%18 init: %19) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x5xf32>, tensor<f32>) -> tensor<1x1x2xf32>
//>     %24 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
//>     %25 = stablehlo.subtract %17, %24 : tensor<1x1x2x3xf32>
//>     %26 = stablehlo.multiply %15, %25 : tensor<1x1x2x3xf32>
//>     %27 = stablehlo.constant dense<0.5> : tensor<f32>
//>     %28 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<f32>) -> tensor<1x1x2x3xf32>
//>     %29 = stablehlo.multiply %26, %28 : tensor<1x1x2x3xf32>
//>     %30 = stablehlo.dot_general %29, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x4xf32>
//>     %31 = stablehlo.dot_general %29, %0, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x3x4xf32>
//>     return %30, %31, %16 : tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x5xf32>
//>   }
//> }

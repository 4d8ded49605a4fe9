func.func @main(%query: tensor<2x4x3x8xbf16>, %key: tensor<2x2x6x8xbf16>, %value: tensor<2x2x6x5xbf16>, %bias: tensor<1x4x1x6xbf16>, %output: tensor<2x4x3x5xbf16>, %statistics: tensor<2x4x3xf32>, %output_gradient: tensor<2x4x3x5xbf16>) -> (tensor<2x4x3x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>) {
  %0:4 = stablehlo.custom_call @meshwright.attention_grad(%query, %key, %value, %bias, %output, %statistics, %output_gradient) {meshwright.bias_gradient = true, meshwright.causal = false, meshwright.scale = 0.5 : f64} : (tensor<2x4x3x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>, tensor<2x4x3x5xbf16>, tensor<2x4x3xf32>, tensor<2x4x3x5xbf16>) -> (tensor<2x4x3x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<2x4x3x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4x3x8xbf16>, %1: tensor<2x2x6x8xbf16>, %2: tensor<2x2x6x5xbf16>, %3: tensor<1x4x1x6xbf16>, %4: tensor<2x4x3x5xbf16>, %5: tensor<2x4x3xf32>, %6: tensor<2x4x3x5xbf16>) -> (tensor<2x4x3x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>) {
//>     %7 = stablehlo.reshape %0 : (tensor<2x4x3x8xbf16>) -> tensor<2x2x6x8xbf16>
//>     %8 = stablehlo.dot_general %7, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> tensor<2x2x6x6xf32>
//>     %9 = stablehlo.reshape %8 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
//>     %10 = stablehlo.constant dense<0.5> : tensor<f32>
//>     %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
//>     %12 = stablehlo.multiply %9, %11 : tensor<2x4x3x6xf32>
//>     %13 = stablehlo.convert %3 : (tensor<1x4x1x6xbf16>) -> tensor<1x4x1x6xf32>
//>     %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x4x1x6xf32>) -> tensor<2x4x3x6xf32>
//>     %15 = stablehlo.add %12, %14 : tensor<2x4x3x6xf32>
//>     %16 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
//>     %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<f32>) -> tensor<2x4x3xf32>
//>     %18 = stablehlo.maximum %5, %17 : tensor<2x4x3xf32>
//>     %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
//>     %20 = stablehlo.subtract %15, %19 : tensor<2x4x3x6xf32>
//>     %21 = stablehlo.exponential %20 : tensor<2x4x3x6xf32>
//>     %22 = stablehlo.convert %21 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
//>     %23 = stablehlo.reshape %22 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
//>     %24 = stablehlo.reshape %6 : (tensor<2x4x3x5xbf16>) -> tensor<2x2x6x5xbf16>
//>     %25 = stablehlo.dot_general %23, %24, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x5xbf16>
//>     %26 = stablehlo.reshape %6 : (tensor<2x4x3x5xbf16>) -> tensor<2x2x6x5xbf16>
//>     %27 = stablehlo.dot_general %26, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x5xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x6xf32>
//>     %28 = stablehlo.reshape %27 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
//>     %29 = stablehlo.convert %4 : (tensor<2x4x3x5xbf16>) -> tensor<2x4x3x5xf32>
//>     %30 = stablehlo.convert %6 : (tensor<2x4x3x5xbf16>) -> tensor<2x4x3x5xf32>
//>     %31 = stablehlo.multiply %29, %30 : tensor<2x4x3x5xf32>
//>     %32 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %33 = stablehlo.reduce(%31 init: %32) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<2x4x3xf32>
//>     %37 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
//>     %38 = stablehlo.subtract %28, %37 : tensor<2x4x3x6xf32>
//>     %39 = stablehlo.multiply %21, %38 : tensor<2x4x3x6xf32>
//>     %40 = stablehlo.constant dense<0.5> : tensor<f32>
//>     %41 = stablehlo.broadcast_in_dim %40, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
//>     %42 = stablehlo.multiply %39, %41 : tensor<2x4x3x6xf32>
//>     %43 = stablehlo.convert %42 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
//>     %44 = stablehlo.reshape %43 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
//>     %45 = stablehlo.dot_general %44, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x8xbf16>) -> tensor<2x2x6x8xbf16>
//>     %46 = stablehlo.reshape %45 : (tensor<2x2x6x8xbf16>) -> tensor<2x4x3x8xbf16>
//>     %47 = stablehlo.reshape %0 : (tensor<2x4x3x8xbf16>) -> tensor<2x2x6x8xbf16>
//>     %48 = stablehlo.dot_general %44, %47, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x8xbf16>) -> tensor<2x2x6x8xbf16>
//>     %49 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %50 = stablehlo.reduce(%39 init: %49) applies stablehlo.add across dimensions = [0, 2] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<4x6xf32>
//>     %54 = stablehlo.convert %50 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
//>     %55 = stablehlo.reshape %54 : (tensor<4x6xbf16>) -> tensor<1x4x1x6xbf16>
//>     return %46, %48, %25, %55 : tensor<2x4x3x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>
//>   }
//> }

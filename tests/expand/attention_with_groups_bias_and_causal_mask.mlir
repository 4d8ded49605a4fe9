func.func @main(%query: tensor<2x4x3x16xbf16>, %key: tensor<2x2x6x16xbf16>, %value: tensor<2x2x6x5xbf16>, %bias: tensor<1x4x1x6xbf16>) -> tensor<2x4x3x5xbf16> {
  %0 = stablehlo.custom_call @meshwright.attention(%query, %key, %value, %bias) {meshwright.causal = true, meshwright.scale = 1.0 : f64} : (tensor<2x4x3x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x5xbf16>, tensor<1x4x1x6xbf16>) -> tensor<2x4x3x5xbf16>
  return %0 : tensor<2x4x3x5xbf16>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4x3x16xbf16>, %1: tensor<2x2x6x16xbf16>, %2: tensor<2x2x6x5xbf16>, %3: tensor<1x4x1x6xbf16>) -> (tensor<2x4x3x5xbf16>) {
//>     %4 = stablehlo.reshape %0 : (tensor<2x4x3x16xbf16>) -> tensor<2x2x6x16xbf16>
//>     %5 = stablehlo.dot_general %4, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x16xbf16>, tensor<2x2x6x16xbf16>) -> tensor<2x2x6x6xf32>
//>     %6 = stablehlo.reshape %5 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
//>     %7 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
//>     %9 = stablehlo.multiply %6, %8 : tensor<2x4x3x6xf32>
//>     %10 = stablehlo.convert %3 : (tensor<1x4x1x6xbf16>) -> tensor<1x4x1x6xf32>
//>     %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x4x1x6xf32>) -> tensor<2x4x3x6xf32>
//>     %12 = stablehlo.add %9, %11 : tensor<2x4x3x6xf32>
//>     %13 = stablehlo.iota dim = 0 : tensor<3x6xi32>
//>     %14 = stablehlo.iota dim = 1 : tensor<3x6xi32>
//>     %15 = stablehlo.constant dense<3> : tensor<3x6xi32>
//>     %16 = stablehlo.add %13, %15 : tensor<3x6xi32>
//>     %17 = stablehlo.compare LE, %14, %16, SIGNED : (tensor<3x6xi32>, tensor<3x6xi32>) -> tensor<3x6xi1>
//>     %18 = stablehlo.broadcast_in_dim %17, dims = [2, 3] : (tensor<3x6xi1>) -> tensor<2x4x3x6xi1>
//>     %19 = stablehlo.constant dense<0xFF800000> : tensor<f32>
//>     %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
//>     %21 = stablehlo.select %18, %12, %20 : tensor<2x4x3x6xi1>, tensor<2x4x3x6xf32>
//>     %22 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
//>     %23 = stablehlo.reduce(%21 init: %22) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<2x4x3xf32>
//>     %27 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
//>     %28 = stablehlo.subtract %21, %27 : tensor<2x4x3x6xf32>
//>     %29 = stablehlo.exponential %28 : tensor<2x4x3x6xf32>
//>     %30 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %31 = stablehlo.reduce(%29 init: %30) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<2x4x3xf32>
//>     %35 = stablehlo.constant dense<1.0> : tensor<f32>
//>     %36 = stablehlo.broadcast_in_dim %35, dims = [] : (tensor<f32>) -> tensor<2x4x3xf32>
//>     %37 = stablehlo.maximum %31, %36 : tensor<2x4x3xf32>
//>     %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
//>     %39 = stablehlo.divide %29, %38 : tensor<2x4x3x6xf32>
//>     %40 = stablehlo.convert %39 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
//>     %41 = stablehlo.reshape %40 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
//>     %42 = stablehlo.dot_general %41, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x5xbf16>
//>     %43 = stablehlo.reshape %42 : (tensor<2x2x6x5xbf16>) -> tensor<2x4x3x5xbf16>
//>     return %43 : tensor<2x4x3x5xbf16>
//>   }
//> }

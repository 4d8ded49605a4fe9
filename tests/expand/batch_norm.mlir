func.func @main(%x: tensor<8x4xbf16>, %scale: tensor<4xbf16>, %offset: tensor<4xbf16>, %gradient: tensor<8x4xbf16>) -> (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %scale, %offset) {epsilon = 1.0e-3 : f32, feature_index = 1 : i64} : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>)
  %1:3 = "stablehlo.batch_norm_grad"(%x, %scale, %0#1, %0#2, %gradient) {epsilon = 1.0e-3 : f32, feature_index = 1 : i64} : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<8x4xbf16>) -> (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>)
  return %0#0, %1#0, %1#1, %1#2 : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<8x4xbf16>, %1: tensor<4xbf16>, %2: tensor<4xbf16>, %3: tensor<8x4xbf16>) -> (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) {
//>     %4 = stablehlo.convert %0 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
//>     %5 = stablehlo.convert %1 : (tensor<4xbf16>) -> tensor<4xf32>
//>     %6 = stablehlo.convert %2 : (tensor<4xbf16>) -> tensor<4xf32>
//>     %7 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %8 = stablehlo.reduce(%4 init: %7) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
//>     %12 = stablehlo.constant dense<8.0> : tensor<f32>
//>     %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<4xf32>
//>     %14 = stablehlo.divide %8, %13 : tensor<4xf32>
//>     %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %16 = stablehlo.subtract %4, %15 : tensor<8x4xf32>
//>     %17 = stablehlo.multiply %16, %16 : tensor<8x4xf32>
//>     %18 = stablehlo.reduce(%17 init: %7) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
//>     %22 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<4xf32>
//>     %23 = stablehlo.divide %18, %22 : tensor<4xf32>
//>     %24 = stablehlo.constant dense<0.001> : tensor<f32>
//>     %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<f32>) -> tensor<4xf32>
//>     %26 = stablehlo.add %23, %25 : tensor<4xf32>
//>     %27 = stablehlo.rsqrt %26 : tensor<4xf32>
//>     %28 = stablehlo.multiply %27, %5 : tensor<4xf32>
//>     %29 = stablehlo.broadcast_in_dim %28, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %30 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %31 = stablehlo.multiply %16, %29 : tensor<8x4xf32>
//>     %32 = stablehlo.add %31, %30 : tensor<8x4xf32>
//>     %33 = stablehlo.convert %32 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
//>     %34 = stablehlo.convert %14 : (tensor<4xf32>) -> tensor<4xbf16>
//>     %35 = stablehlo.convert %23 : (tensor<4xf32>) -> tensor<4xbf16>
//>     %36 = stablehlo.convert %0 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
//>     %37 = stablehlo.convert %1 : (tensor<4xbf16>) -> tensor<4xf32>
//>     %38 = stablehlo.convert %34 : (tensor<4xbf16>) -> tensor<4xf32>
//>     %39 = stablehlo.convert %35 : (tensor<4xbf16>) -> tensor<4xf32>
//>     %40 = stablehlo.convert %3 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
//>     %41 = stablehlo.broadcast_in_dim %38, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %42 = stablehlo.subtract %36, %41 : tensor<8x4xf32>
//>     %43 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %44 = stablehlo.reduce(%40 init: %43) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
//>     %48 = stablehlo.multiply %40, %42 : tensor<8x4xf32>
//>     %49 = stablehlo.reduce(%48 init: %43) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
//>     %53 = stablehlo.constant dense<0.001> : tensor<f32>
//>     %54 = stablehlo.broadcast_in_dim %53, dims = [] : (tensor<f32>) -> tensor<4xf32>
//>     %55 = stablehlo.add %39, %54 : tensor<4xf32>
//>     %56 = stablehlo.rsqrt %55 : tensor<4xf32>
//>     %57 = stablehlo.multiply %49, %56 : tensor<4xf32>
//>     %58 = stablehlo.constant dense<8.0> : tensor<f32>
//>     %59 = stablehlo.broadcast_in_dim %58, dims = [] : (tensor<f32>) -> tensor<4xf32>
//>     %60 = stablehlo.divide %44, %59 : tensor<4xf32>
//>     %61 = stablehlo.multiply %57, %56 : tensor<4xf32>
//>     %62 = stablehlo.broadcast_in_dim %58, dims = [] : (tensor<f32>) -> tensor<4xf32>
//>     %63 = stablehlo.divide %61, %62 : tensor<4xf32>
//>     %64 = stablehlo.broadcast_in_dim %60, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %65 = stablehlo.broadcast_in_dim %63, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %66 = stablehlo.multiply %42, %65 : tensor<8x4xf32>
//>     %67 = stablehlo.subtract %40, %64 : tensor<8x4xf32>
//>     %68 = stablehlo.subtract %67, %66 : tensor<8x4xf32>
//>     %69 = stablehlo.multiply %37, %56 : tensor<4xf32>
//>     %70 = stablehlo.broadcast_in_dim %69, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
//>     %71 = stablehlo.multiply %68, %70 : tensor<8x4xf32>
//>     %72 = stablehlo.convert %71 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
//>     %73 = stablehlo.convert %57 : (tensor<4xf32>) -> tensor<4xbf16>
//>     %74 = stablehlo.convert %44 : (tensor<4xf32>) -> tensor<4xbf16>
//>     return %33, %72, %73, %74 : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>
//>   }
//> }

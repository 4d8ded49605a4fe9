func.func @main(%query: tensor<1x1x2x4xf64>, %key: tensor<1x1x2x4xf64>, %value: tensor<1x1x2x4xf64>, %bias: tensor<1x1x2x2xi1>) -> tensor<1x1x2x4xf64> {
  %0 = stablehlo.custom_call @meshwright.attention(%query, %key, %value, %bias) {meshwright.causal = false, meshwright.scale = 1.0 : f64} : (tensor<1x1x2x4xf64>, tensor<1x1x2x4xf64>, tensor<1x1x2x4xf64>, tensor<1x1x2x2xi1>) -> tensor<1x1x2x4xf64>
  return %0 : tensor<1x1x2x4xf64>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<1x1x2x4xf64>, %1: tensor<1x1x2x4xf64>, %2: tensor<1x1x2x4xf64>, %3: tensor<1x1x2x2xi1>) -> (tensor<1x1x2x4xf64>) {
//>     %4 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf64>, tensor<1x1x2x4xf64>) -> tensor<1x1x2x2xf64>
//>     %5 = stablehlo.constant dense<1.0> : tensor<f64>
//>     %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f64>) -> tensor<1x1x2x2xf64>
//>     %7 = stablehlo.multiply %4, %6 : tensor<1x1x2x2xf64>
//>     %8 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
//>     %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f64>) -> tensor<1x1x2x2xf64>
//>     %10 = stablehlo.select %3, %7, %9 : tensor<1x1x2x2xi1>, tensor<1x1x2x2xf64>
//>     %11 = stablehlo.constant dense<-1.7976931348623157e+308> : tensor<f64>
//>     %12 = stablehlo.reduce(%10 init: %11) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x2xf64>
//>     %16 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x2xf64>) -> tensor<1x1x2x2xf64>
//>     %17 = stablehlo.subtract %10, %16 : tensor<1x1x2x2xf64>
//>     %18 = stablehlo.exponential %17 : tensor<1x1x2x2xf64>
//>     %19 = stablehlo.constant dense<0.0> : tensor<f64>
//>     %20 = stablehlo.reduce(%18 init: %19) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x2xf64>
//>     %24 = stablehlo.constant dense<1.0> : tensor<f64>
//>     %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<f64>) -> tensor<1x1x2xf64>
//>     %26 = stablehlo.maximum %20, %25 : tensor<1x1x2xf64>
//>     %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<1x1x2xf64>) -> tensor<1x1x2x2xf64>
//>     %28 = stablehlo.divide %18, %27 : tensor<1x1x2x2xf64>
//>     %29 = stablehlo.dot_general %28, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x2xf64>, tensor<1x1x2x4xf64>) -> tensor<1x1x2x4xf64>
//>     return %29 : tensor<1x1x2x4xf64>
//>   }
//> }

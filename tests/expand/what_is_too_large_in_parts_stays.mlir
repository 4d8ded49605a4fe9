// The scores of the first attention would have 2^63 bits, one more than can be counted.
func.func @main(%query: tensor<1x1x536870912x1xf64>, %key: tensor<1x1x268435456x1xf64>, %x: tensor<1x1x1x1xf64>) -> (tensor<1x1x536870912x1xf64>, tensor<1x1x1x1xf64>) {
  %0 = stablehlo.custom_call @meshwright.attention(%query, %key, %key) {meshwright.causal = false, meshwright.scale = 1.0 : f64} : (tensor<1x1x536870912x1xf64>, tensor<1x1x268435456x1xf64>, tensor<1x1x268435456x1xf64>) -> tensor<1x1x536870912x1xf64>
  %1 = stablehlo.custom_call @meshwright.attention(%x, %x, %x) {meshwright.causal = false, meshwright.scale = 1.0 : f64} : (tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>) -> tensor<1x1x1x1xf64>
  return %0, %1 : tensor<1x1x536870912x1xf64>, tensor<1x1x1x1xf64>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<1x1x536870912x1xf64>, %1: tensor<1x1x268435456x1xf64>, %2: tensor<1x1x1x1xf64>) -> (tensor<1x1x536870912x1xf64>, tensor<1x1x1x1xf64>) {
//>     %3 = stablehlo.custom_call @meshwright.attention(%0, %1, %1) {meshwright.causal = false, meshwright.scale = 1.0 : f64} : (tensor<1x1x536870912x1xf64>, tensor<1x1x268435456x1xf64>, tensor<1x1x268435456x1xf64>) -> tensor<1x1x536870912x1xf64>
//>     %4 = stablehlo.dot_general %2, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>) -> tensor<1x1x1x1xf64>
//>     %5 = stablehlo.constant dense<1.0> : tensor<f64>
//>     %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f64>) -> tensor<1x1x1x1xf64>
//>     %7 = stablehlo.multiply %4, %6 : tensor<1x1x1x1xf64>
//>     %8 = stablehlo.constant dense<-1.7976931348623157e+308> : tensor<f64>
//>     %9 = stablehlo.reduce(%7 init: %8) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x1x1xf64>, tensor<f64>) -> tensor<1x1x1xf64>
//>     %13 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x1x1xf64>) -> tensor<1x1x1x1xf64>
//>     %14 = stablehlo.subtract %7, %13 : tensor<1x1x1x1xf64>
//>     %15 = stablehlo.exponential %14 : tensor<1x1x1x1xf64>
//>     %16 = stablehlo.constant dense<0.0> : tensor<f64>
//>     %17 = stablehlo.reduce(%15 init: %16) applies stablehlo.add across dimensions = [3] : (tensor<1x1x1x1xf64>, tensor<f64>) -> tensor<1x1x1xf64>
//>     %21 = stablehlo.constant dense<1.0> : tensor<f64>
//>     %22 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<f64>) -> tensor<1x1x1xf64>
//>     %23 = stablehlo.maximum %17, %22 : tensor<1x1x1xf64>
//>     %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x1xf64>) -> tensor<1x1x1x1xf64>
//>     %25 = stablehlo.divide %15, %24 : tensor<1x1x1x1xf64>
//>     %26 = stablehlo.dot_general %25, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>) -> tensor<1x1x1x1xf64>
//>     return %3, %26 : tensor<1x1x536870912x1xf64>, tensor<1x1x1x1xf64>
//>   }
//> }

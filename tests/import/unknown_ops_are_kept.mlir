func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "other.op"(%x) {kind = "strange", count = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.custom_call @mine(%0) {meshwright.rule = "(i) -> (i)", backend_config = "{}"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {
//>     %1 = "other.op"(%0) {kind = "strange", count = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
//>     %2 = stablehlo.custom_call @mine(%1) {backend_config = "{}", meshwright.rule = "(i) -> (i)"} : (tensor<2xf32>) -> tensor<2xf32>
//>     return %2 : tensor<2xf32>
//>   }
//> }

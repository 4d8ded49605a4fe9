func.func @main(%x: tensor<2xf32>, %unused: tensor<3xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %unused : tensor<3xf32>
  %1 = stablehlo.exponential %0 : tensor<3xf32>
  %2 = stablehlo.sine %x : tensor<2xf32>
  stablehlo.custom_call @check.expect_eq(%x, %x) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  stablehlo.custom_call @logger(%0) {has_side_effect = true} : (tensor<3xf32>) -> ()
  %3 = stablehlo.custom_call @pure(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<2xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2xf32>, %1: tensor<3xf32>) -> (tensor<2xf32>) {
//>     %2 = stablehlo.tanh %1 : tensor<3xf32>
//>     %3 = stablehlo.sine %0 : tensor<2xf32>
//>     stablehlo.custom_call @check.expect_eq(%0, %0) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
//>     stablehlo.custom_call @logger(%2) {has_side_effect = true} : (tensor<3xf32>) -> ()
//>     return %3 : tensor<2xf32>
//>   }
//> }

// mesh: a=2,b=2
// tile: a %0 = dim 1
// tile: a %2 = dim 0
// tile: b %2 = dim 1
func.func @main(%x: tensor<2x8xf32>, %w: tensor<8x64xf32>) -> tensor<1xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x64xf32>) -> tensor<2x64xf32>
  %r = stablehlo.reshape %y : (tensor<2x64xf32>) -> tensor<128xf32>
  %s = stablehlo.slice %r [0:1] : (tensor<128xf32>) -> tensor<1xf32>
  return %s : tensor<1xf32>
}
//> ([{}, {a}], [{a}, {b}]) -> ([{}])
//> module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4xf32>, %1: tensor<4x32xf32>) -> (tensor<1xf32>) {
//>     %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x32xf32>) -> tensor<2x32xf32>
//>     %3 = "stablehlo.all_gather"(%2) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<2x32xf32>) -> tensor<2x64xf32>
//>     %4 = stablehlo.reshape %3 : (tensor<2x64xf32>) -> tensor<128xf32>
//>     %5 = stablehlo.slice %4 [0:1] : (tensor<128xf32>) -> tensor<1xf32>
//>     %6 = "stablehlo.all_reduce"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%7: tensor<f32>, %8: tensor<f32>):
//>       %9 = stablehlo.add %7, %8 : tensor<f32>
//>       stablehlo.return %9 : tensor<f32>
//>     }) : (tensor<1xf32>) -> tensor<1xf32>
//>     return %6 : tensor<1xf32>
//>   }
//> }

// mesh: model=4
// tile: model %0 = dim 1
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>, %v: tensor<2x8xf32>) -> tensor<4x8xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %g = stablehlo.dot_general %x, %h, contracting_dims = [0] x [0] : (tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %o = stablehlo.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return %o : tensor<4x8xf32>
}
//> ([{}, {model}], [{model}, {}], [{}, {}]) -> ([{model}, {}])
//> module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<3x1xf32>, %1: tensor<1x2xf32>, %2: tensor<2x8xf32>) -> (tensor<1x8xf32>) {
//>     %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<3x1xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
//>     %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
//>     ^bb0(%5: tensor<f32>, %6: tensor<f32>):
//>       %7 = stablehlo.add %5, %6 : tensor<f32>
//>       stablehlo.return %7 : tensor<f32>
//>     }) : (tensor<3x2xf32>) -> tensor<3x2xf32>
//>     %8 = stablehlo.dot_general %0, %4, contracting_dims = [0] x [0] : (tensor<3x1xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>
//>     %9 = stablehlo.dot_general %8, %2, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x8xf32>) -> tensor<1x8xf32>
//>     return %9 : tensor<1x8xf32>
//>   }
//> }

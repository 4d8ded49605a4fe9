// mesh: model=2
// tile: model %1 = dim 1
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<6x4xf32>) -> tensor<8x4xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %t = stablehlo.tanh %h : tensor<8x6xf32>
  %o = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  return %o : tensor<8x4xf32>
}
//> ([{}, {}], [{}, {model}], [{model}, {}]) -> ([{}, {}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<8x4xf32>, %1: tensor<4x3xf32>, %2: tensor<3x4xf32>) -> (tensor<8x4xf32>) {
//>     %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
//>     %4 = stablehlo.tanh %3 : tensor<8x3xf32>
//>     %5 = stablehlo.dot_general %4, %2, contracting_dims = [1] x [0] : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
//>     %6 = "stablehlo.all_reduce"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%7: tensor<f32>, %8: tensor<f32>):
//>       %9 = stablehlo.add %7, %8 : tensor<f32>
//>       stablehlo.return %9 : tensor<f32>
//>     }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
//>     return %6 : tensor<8x4xf32>
//>   }
//> }

// mesh: a=2
// tile: a %0 = dim 1
// tile: a %2 = dim 1
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %y: tensor<8x2xf32>, %v: tensor<2x6xf32>) -> tensor<8x6xf32> {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %q = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<8x2xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
  %s = stablehlo.add %p, %q : tensor<8x6xf32>
  return %s : tensor<8x6xf32>
}
//> ([{}, {a}], [{a}, {}], [{}, {a}], [{a}, {}]) -> ([{}, {}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<8x2xf32>, %1: tensor<2x6xf32>, %2: tensor<8x1xf32>, %3: tensor<1x6xf32>) -> (tensor<8x6xf32>) {
//>     %4 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<8x2xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
//>     %5 = stablehlo.dot_general %2, %3, contracting_dims = [1] x [0] : (tensor<8x1xf32>, tensor<1x6xf32>) -> tensor<8x6xf32>
//>     %6 = stablehlo.add %4, %5 : tensor<8x6xf32>
//>     %7 = "stablehlo.all_reduce"(%6) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%8: tensor<f32>, %9: tensor<f32>):
//>       %10 = stablehlo.add %8, %9 : tensor<f32>
//>       stablehlo.return %10 : tensor<f32>
//>     }) : (tensor<8x6xf32>) -> tensor<8x6xf32>
//>     return %7 : tensor<8x6xf32>
//>   }
//> }

// mesh: data=2
// tile: data %0 = dim 0
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %y: tensor<8x6xf32>) -> (tensor<f32>, tensor<4x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %e = stablehlo.subtract %p, %y : tensor<8x6xf32>
  %s = stablehlo.multiply %e, %e : tensor<8x6xf32>
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<f32>
  %g = stablehlo.dot_general %x, %e, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %u = stablehlo.subtract %w, %g : tensor<4x6xf32>
  return %loss, %u : tensor<f32>, tensor<4x6xf32>
}
//> ([{data}, {}], [{}, {}], [{data}, {}]) -> ([], [{}, {}])
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x6xf32>, %2: tensor<4x6xf32>) -> (tensor<f32>, tensor<4x6xf32>) {
//>     %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
//>     %4 = stablehlo.subtract %3, %2 : tensor<4x6xf32>
//>     %5 = stablehlo.multiply %4, %4 : tensor<4x6xf32>
//>     %6 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %7 = stablehlo.reduce(%5 init: %6) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
//>     %11 = "stablehlo.all_reduce"(%7) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%12: tensor<f32>, %13: tensor<f32>):
//>       %14 = stablehlo.add %12, %13 : tensor<f32>
//>       stablehlo.return %14 : tensor<f32>
//>     }) : (tensor<f32>) -> tensor<f32>
//>     %15 = stablehlo.dot_general %0, %4, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
//>     %16 = "stablehlo.all_reduce"(%15) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%17: tensor<f32>, %18: tensor<f32>):
//>       %19 = stablehlo.add %17, %18 : tensor<f32>
//>       stablehlo.return %19 : tensor<f32>
//>     }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
//>     %20 = stablehlo.subtract %1, %16 : tensor<4x6xf32>
//>     return %11, %20 : tensor<f32>, tensor<4x6xf32>
//>   }
//> }

module @step attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%w: tensor<4x4xf32> loc("params.w"), %m: tensor<2x4xf32> loc("state.w"), %x: tensor<3x4xf32> loc("x")) -> (tensor<4x4xf32> {jax.result_info = "params.w"}, tensor<2x4xf32> {jax.result_info = "state.w"}, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %square = stablehlo.multiply %y, %y : tensor<3x4xf32>
    %loss = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
    %twice = stablehlo.add %y, %y : tensor<3x4xf32>
    %gradient = stablehlo.dot_general %x, %twice, contracting_dims = [0] x [0] : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
    %part = "stablehlo.reduce_scatter"(%gradient) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %place = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %row = stablehlo.multiply %place, %two : tensor<i32>
    %column = stablehlo.constant dense<0> : tensor<i32>
    %own = stablehlo.dynamic_slice %w, %row, %column, sizes = [2, 4] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    %momentum = stablehlo.add %m, %part : tensor<2x4xf32>
    %next = stablehlo.subtract %own, %momentum : tensor<2x4xf32>
    %all = "stablehlo.all_gather"(%next) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<4x4xf32>
    return %all, %momentum, %loss : tensor<4x4xf32>, tensor<2x4xf32>, tensor<f32>
  }
}
//> params.w: Parameter -> result 0
//> state.w: State -> result 1
//> x: Input
//> stablehlo.constant Forward
//> stablehlo.dot_general Forward
//> stablehlo.multiply Forward
//> stablehlo.reduce Forward
//> stablehlo.add Backward
//> stablehlo.dot_general Backward
//> stablehlo.reduce_scatter Backward
//> stablehlo.partition_id Update
//> stablehlo.convert Update
//> stablehlo.constant Update
//> stablehlo.multiply Update
//> stablehlo.constant Update
//> stablehlo.dynamic_slice Update
//> stablehlo.add Update
//> stablehlo.subtract Update
//> stablehlo.all_gather Update

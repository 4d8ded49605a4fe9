module @jit_sc attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3xf32>, %arg1: tensor<5x3x3xf32>) -> (tensor<3x3xf32> {jax.result_info = "result[0]"}, tensor<5xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:4 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %c, %iterArg_1 = %arg0, %iterArg_2 = %0) : tensor<5x3x3xf32>, tensor<i32>, tensor<3x3xf32>, tensor<5xf32>
    cond {
      %c_3 = stablehlo.constant dense<5> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_0, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_0) : (tensor<5x3x3xf32>, tensor<i32>) -> tensor<3x3xf32>
      %3:2 = func.call @closed_call(%iterArg_1, %2) : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<f32>)
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_2, %3#1, %iterArg_0) : (tensor<5xf32>, tensor<f32>, tensor<i32>) -> tensor<5xf32>
      %c_3 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_0, %c_3 : tensor<i32>
      stablehlo.return %iterArg, %5, %3#0, %4 : tensor<5x3x3xf32>, tensor<i32>, tensor<3x3xf32>, tensor<5xf32>
    }
    return %1#2, %1#3 : tensor<3x3xf32>, tensor<5xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x3x3xf32>, %arg1: tensor<i32>) -> tensor<3x3xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 3, 3] : (tensor<5x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
    return %1 : tensor<3x3xf32>
  }
  func.func private @closed_call(%arg0: tensor<3x3xf32>, %arg1: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %1 = stablehlo.tanh %0 : tensor<3x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
    return %1, %2 : tensor<3x3xf32>, tensor<f32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<5xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<5xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
    return %1 : tensor<5xf32>
  }
}
//> op3: 5 trips from 0 by 1
//>   0: StackedInput { dim: 0, first: 0, step: 1 }
//>   1: Counter
//>   2: Carried
//>   3: StackedOutput { dim: 0, first: 0, step: 1 }
//> module @jit_sc attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<3x3xf32>, %1: tensor<5x3x3xf32>) -> (tensor<3x3xf32> {jax.result_info = "result.0"}, tensor<5xf32> {jax.result_info = "result.1"}) {
//>     %2 = stablehlo.slice %1 [0:1, 0:3, 0:3] : (tensor<5x3x3xf32>) -> tensor<1x3x3xf32>
//>     %3 = stablehlo.reshape %2 : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
//>     %4 = stablehlo.dot_general %0, %3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
//>     %5 = stablehlo.tanh %4 : tensor<3x3xf32>
//>     %6 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %7 = stablehlo.reduce(%0 init: %6) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
//>     %11 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<1xf32>
//>     %12 = stablehlo.slice %1 [1:2, 0:3, 0:3] : (tensor<5x3x3xf32>) -> tensor<1x3x3xf32>
//>     %13 = stablehlo.reshape %12 : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
//>     %14 = stablehlo.dot_general %5, %13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
//>     %15 = stablehlo.tanh %14 : tensor<3x3xf32>
//>     %16 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %17 = stablehlo.reduce(%5 init: %16) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
//>     %21 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<f32>) -> tensor<1xf32>
//>     %22 = stablehlo.slice %1 [2:3, 0:3, 0:3] : (tensor<5x3x3xf32>) -> tensor<1x3x3xf32>
//>     %23 = stablehlo.reshape %22 : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
//>     %24 = stablehlo.dot_general %15, %23, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
//>     %25 = stablehlo.tanh %24 : tensor<3x3xf32>
//>     %26 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %27 = stablehlo.reduce(%15 init: %26) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
//>     %31 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<f32>) -> tensor<1xf32>
//>     %32 = stablehlo.slice %1 [3:4, 0:3, 0:3] : (tensor<5x3x3xf32>) -> tensor<1x3x3xf32>
//>     %33 = stablehlo.reshape %32 : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
//>     %34 = stablehlo.dot_general %25, %33, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
//>     %35 = stablehlo.tanh %34 : tensor<3x3xf32>
//>     %36 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %37 = stablehlo.reduce(%25 init: %36) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
//>     %41 = stablehlo.broadcast_in_dim %37, dims = [] : (tensor<f32>) -> tensor<1xf32>
//>     %42 = stablehlo.slice %1 [4:5, 0:3, 0:3] : (tensor<5x3x3xf32>) -> tensor<1x3x3xf32>
//>     %43 = stablehlo.reshape %42 : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
//>     %44 = stablehlo.dot_general %35, %43, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
//>     %45 = stablehlo.tanh %44 : tensor<3x3xf32>
//>     %46 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %47 = stablehlo.reduce(%35 init: %46) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
//>     %51 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<f32>) -> tensor<1xf32>
//>     %52 = stablehlo.concatenate %11, %21, %31, %41, %51, dim = 0 : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<5xf32>
//>     return %45, %52 : tensor<3x3xf32>, tensor<5xf32>
//>   }
//> }

func.func @main(%is_due: tensor<i1>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.if"(%is_due) ({
    %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    stablehlo.return %1 : tensor<4x4xf32>
  }, {
    stablehlo.return %x : tensor<4x4xf32>
  }) : (tensor<i1>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<i1>, %1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
//>     %2 = "stablehlo.if"(%0) ({
//>       %3 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
//>       stablehlo.return %3 : tensor<4x4xf32>
//>     }, {
//>       stablehlo.return %1 : tensor<4x4xf32>
//>     }) : (tensor<i1>) -> tensor<4x4xf32>
//>     return %2 : tensor<4x4xf32>
//>   }
//> }

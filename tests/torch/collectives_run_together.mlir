func.func @main(%x: tensor<4x8xf32>, %w: tensor<2x8xf32>, %a: tensor<4xf32>, %b: tensor<2x2xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<2x4xf32>) {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.add %x, %1 : tensor<4x8xf32>
  %3 = "stablehlo.all_gather"(%b) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x4xf32>
  %4 = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x8xf32>) -> tensor<4x8xf32>
  %5 = stablehlo.multiply %2, %4 : tensor<4x8xf32>
  %6 = "stablehlo.all_reduce"(%5) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  %8 = stablehlo.exponential %7 : tensor<8xf32>
  %9 = stablehlo.negate %0 : tensor<8xf32>
  %10 = "stablehlo.all_reduce"(%9) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  %11 = stablehlo.reshape %10 : (tensor<8xf32>) -> tensor<2x4xf32>
  %12 = stablehlo.tanh %3 : tensor<2x4xf32>
  %13 = "stablehlo.all_reduce"(%12) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %14 = stablehlo.add %11, %13 : tensor<2x4xf32>
  return %6, %8, %14 : tensor<4x8xf32>, tensor<8xf32>, tensor<2x4xf32>
}
//> # Written by Meshwright: what each device runs. Names that are not defined here are those of
//> # `meshwright.torch.ops`, and `rank`, `device`, `groups`, `constants` and `chance`.
//> 
//> GROUPS = [
//>     [[0, 1]],
//> ]
//> CONSTANTS = [
//> ]
//> 
//> 
//> # Numbers of the results that it gives.
//> RUN = [0, 1, 2]
//> 
//> def run(arguments):
//>     v0 = arguments[0]
//>     v1 = arguments[1]
//>     v2 = arguments[2]
//>     v3 = arguments[3]
//>     v4, v7 = all_gathers([v2, v3], (0, 1), groups[0])
//>     v5 = v4[None].expand((4, 8))
//>     v6 = v0 + v5
//>     del v5
//>     v8 = all_gather(v1, 0, groups[0])
//>     v9 = torch.mul(v6, v8, out=v6)
//>     del v6, v8
//>     v10 = all_reduce(v9, "sum", groups[0])
//>     del v9
//>     v14 = all_reduce(v4, "sum", groups[0])
//>     v18 = torch.exp(v14, out=v14)
//>     del v14
//>     v19 = torch.neg(v4, out=v4)
//>     del v4
//>     v25 = torch.tanh(v7, out=v7)
//>     del v7
//>     v20, v26 = all_reduces([v19, v25], "sum", groups[0])
//>     del v19, v25
//>     v24 = v20.reshape((2, 4))
//>     del v20
//>     v30 = torch.add(v26, v24, out=v26)
//>     del v24, v26
//>     return [v10, v18, v30]

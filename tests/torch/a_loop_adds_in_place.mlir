func.func @main(%x: tensor<4x2xf32>, %start: tensor<2xf32>) -> (tensor<2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2xf32>
  %rows = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %0:3 = stablehlo.while(%i = %zero, %sum = %zeros, %made = %rows) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %limit = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0> : tensor<i32>
    %row = stablehlo.dynamic_slice %x, %i, %none, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %tanh = stablehlo.tanh %row : tensor<1x2xf32>
    %flat = stablehlo.reshape %tanh : (tensor<1x2xf32>) -> tensor<2xf32>
    %next = stablehlo.add %sum, %flat : tensor<2xf32>
    %put = stablehlo.dynamic_update_slice %made, %tanh, %i, %none : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next, %put : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %all = stablehlo.add %0#1, %start : tensor<2xf32>
  return %all, %0#2 : tensor<2xf32>, tensor<4x2xf32>
}
//> # Written by Meshwright: what each device runs. Names that are not defined here are those of
//> # `meshwright.torch.ops`, and `rank`, `device`, `groups`, `constants` and `chance`.
//> 
//> GROUPS = [
//> ]
//> CONSTANTS = [
//> ]
//> 
//> 
//> # Numbers of the results that it gives.
//> RUN = [0, 1]
//> 
//> def run(arguments):
//>     v0 = arguments[0]
//>     v1 = arguments[1]
//>     v14 = torch.full((2,), 0.0, dtype=torch.float32, device=device)
//>     v15 = torch.full((4, 2), 0.0, dtype=torch.float32, device=device)
//>     for v13 in range(0, 4, 1):
//>         v17 = part(v0, (v13, 0), (1, 2))
//>         v18 = torch.tanh(v17)
//>         del v17
//>         v19 = v18.reshape((2,))
//>         v20 = v14.add_(v19)
//>         del v14, v19
//>         v21 = put_part_(v15, v18, (v13, 0))
//>         del v15, v18
//>         v23 = v13 + 1
//>         v14, v15 = v20, v21
//>         del v20, v21
//>     v6, v7 = v14, v15
//>     del v14, v15
//>     v24 = v6 + v1
//>     del v6
//>     return [v24, v7]

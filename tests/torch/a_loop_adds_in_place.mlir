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

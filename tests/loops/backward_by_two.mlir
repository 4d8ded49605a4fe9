func.func @main(%x: tensor<6xf32>) -> (tensor<f32>, tensor<i32>) {
  %five = stablehlo.constant dense<5> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %five, %sum = %zero) : tensor<i32>, tensor<f32>
  cond {
    %limit = stablehlo.constant dense<0> : tensor<i32>
    %more = stablehlo.compare GE, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %element = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<6xf32>, tensor<i32>) -> tensor<1xf32>
    %scalar = stablehlo.reshape %element : (tensor<1xf32>) -> tensor<f32>
    %next = stablehlo.add %sum, %scalar : tensor<f32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %j = stablehlo.subtract %i, %two : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<f32>
  }
  return %0#1, %0#0 : tensor<f32>, tensor<i32>
}
//> op2: 3 trips from 5 by -2
//>   0: Counter
//>   1: Carried
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<6xf32>) -> (tensor<f32>, tensor<i32>) {
//>     %1 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %2 = stablehlo.slice %0 [5:6] : (tensor<6xf32>) -> tensor<1xf32>
//>     %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
//>     %4 = stablehlo.add %1, %3 : tensor<f32>
//>     %5 = stablehlo.slice %0 [3:4] : (tensor<6xf32>) -> tensor<1xf32>
//>     %6 = stablehlo.reshape %5 : (tensor<1xf32>) -> tensor<f32>
//>     %7 = stablehlo.add %4, %6 : tensor<f32>
//>     %8 = stablehlo.slice %0 [1:2] : (tensor<6xf32>) -> tensor<1xf32>
//>     %9 = stablehlo.reshape %8 : (tensor<1xf32>) -> tensor<f32>
//>     %10 = stablehlo.add %7, %9 : tensor<f32>
//>     %11 = stablehlo.constant dense<-1> : tensor<i32>
//>     return %10, %11 : tensor<f32>, tensor<i32>
//>   }
//> }

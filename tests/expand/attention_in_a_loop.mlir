func.func @main(%x: tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<1x1x2x4xf32>
  cond {
    %limit = stablehlo.constant dense<3> : tensor<i32>
    %more = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %first = stablehlo.compare LT, %i, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %z = "stablehlo.if"(%first) ({
      %attention = stablehlo.custom_call @meshwright.attention(%x, %y, %y) {meshwright.causal = true, meshwright.scale = 0.5 : f64} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
      stablehlo.return %attention : tensor<1x1x2x4xf32>
    }, {
      stablehlo.return %y : tensor<1x1x2x4xf32>
    }) : (tensor<i1>) -> tensor<1x1x2x4xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<1x1x2x4xf32>
  }
  return %0#1 : tensor<1x1x2x4xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<1x1x2x4xf32>) -> (tensor<1x1x2x4xf32>) {
//>     %1 = stablehlo.constant dense<0> : tensor<i32>
//>     %2, %3 = "stablehlo.while"(%1, %0) ({
//>     ^bb0(%4: tensor<i32>, %5: tensor<1x1x2x4xf32>):
//>       %6 = stablehlo.constant dense<3> : tensor<i32>
//>       %7 = stablehlo.compare LT, %4, %6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
//>       stablehlo.return %7 : tensor<i1>
//>     }, {
//>     ^bb0(%8: tensor<i32>, %9: tensor<1x1x2x4xf32>):
//>       %10 = stablehlo.constant dense<1> : tensor<i32>
//>       %11 = stablehlo.add %8, %10 : tensor<i32>
//>       %12 = stablehlo.compare LT, %8, %10, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
//>       %13 = "stablehlo.if"(%12) ({
//>         %14 = stablehlo.dot_general %0, %9, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x2xf32>
//>         %15 = stablehlo.constant dense<0.5> : tensor<f32>
//>         %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f32>) -> tensor<1x1x2x2xf32>
//>         %17 = stablehlo.multiply %14, %16 : tensor<1x1x2x2xf32>
//>         %18 = stablehlo.iota dim = 0 : tensor<2x2xi32>
//>         %19 = stablehlo.iota dim = 1 : tensor<2x2xi32>
//>         %20 = stablehlo.constant dense<0> : tensor<2x2xi32>
//>         %21 = stablehlo.add %18, %20 : tensor<2x2xi32>
//>         %22 = stablehlo.compare LE, %19, %21, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
//>         %23 = stablehlo.broadcast_in_dim %22, dims = [2, 3] : (tensor<2x2xi1>) -> tensor<1x1x2x2xi1>
//>         %24 = stablehlo.constant dense<0xFF800000> : tensor<f32>
//>         %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<f32>) -> tensor<1x1x2x2xf32>
//>         %26 = stablehlo.select %23, %17, %25 : tensor<1x1x2x2xi1>, tensor<1x1x2x2xf32>
//>         %27 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
//>         %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2xf32>
//>         %32 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x2xf32>
//>         %33 = stablehlo.subtract %26, %32 : tensor<1x1x2x2xf32>
//>         %34 = stablehlo.exponential %33 : tensor<1x1x2x2xf32>
//>         %35 = stablehlo.constant dense<0.0> : tensor<f32>
//>         %36 = stablehlo.reduce(%34 init: %35) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2xf32>
//>         %40 = stablehlo.constant dense<1.0> : tensor<f32>
//>         %41 = stablehlo.broadcast_in_dim %40, dims = [] : (tensor<f32>) -> tensor<1x1x2xf32>
//>         %42 = stablehlo.maximum %36, %41 : tensor<1x1x2xf32>
//>         %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x2xf32>
//>         %44 = stablehlo.divide %34, %43 : tensor<1x1x2x2xf32>
//>         %45 = stablehlo.dot_general %44, %9, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
//>         stablehlo.return %45 : tensor<1x1x2x4xf32>
//>       }, {
//>         stablehlo.return %9 : tensor<1x1x2x4xf32>
//>       }) : (tensor<i1>) -> tensor<1x1x2x4xf32>
//>       stablehlo.return %11, %13 : tensor<i32>, tensor<1x1x2x4xf32>
//>     }) : (tensor<i32>, tensor<1x1x2x4xf32>) -> (tensor<i32>, tensor<1x1x2x4xf32>)
//>     return %3 : tensor<1x1x2x4xf32>
//>   }
//> }

// Of conditionals whose branches are cheap, all are computed and one is chosen. Of a number that there is no branch for,
// the last one is.
func.func @main(%index: tensor<i32>, %is_due: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "stablehlo.case"(%index) ({
    %1 = stablehlo.add %x, %y : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }, {
    %1 = stablehlo.multiply %x, %y : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %2:2 = "stablehlo.if"(%is_due) ({
    %3 = "stablehlo.if"(%is_due) ({
      stablehlo.return %y : tensor<4xf32>
    }, {
      stablehlo.return %x : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    stablehlo.return %3, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    stablehlo.return %0, %x : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0, %2#0, %2#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<i32>, %1: tensor<i1>, %2: tensor<4xf32>, %3: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
//>     %4 = stablehlo.add %2, %3 : tensor<4xf32>
//>     %5 = stablehlo.multiply %2, %3 : tensor<4xf32>
//>     %6 = stablehlo.constant dense<1> : tensor<i32>
//>     %7 = stablehlo.compare EQ, %0, %6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
//>     %8 = stablehlo.select %7, %2, %5 : tensor<i1>, tensor<4xf32>
//>     %9 = stablehlo.constant dense<0> : tensor<i32>
//>     %10 = stablehlo.compare EQ, %0, %9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
//>     %11 = stablehlo.select %10, %4, %8 : tensor<i1>, tensor<4xf32>
//>     %12 = stablehlo.select %1, %3, %2 : tensor<i1>, tensor<4xf32>
//>     %13 = stablehlo.select %1, %12, %11 : tensor<i1>, tensor<4xf32>
//>     return %11, %13, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
//>   }
//> }

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.while(%v = %x) : tensor<f32>
  cond {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %more = stablehlo.compare LT, %v, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %next = stablehlo.add %v, %half : tensor<f32>
    stablehlo.return %next : tensor<f32>
  }
  return %0 : tensor<f32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<f32>) -> (tensor<f32>) {
//>     %1 = "stablehlo.while"(%0) ({
//>     ^bb0(%2: tensor<f32>):
//>       %3 = stablehlo.constant dense<1.0> : tensor<f32>
//>       %4 = stablehlo.compare LT, %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
//>       stablehlo.return %4 : tensor<i1>
//>     }, {
//>     ^bb0(%5: tensor<f32>):
//>       %6 = stablehlo.constant dense<0.5> : tensor<f32>
//>       %7 = stablehlo.add %5, %6 : tensor<f32>
//>       stablehlo.return %7 : tensor<f32>
//>     }) : (tensor<f32>) -> tensor<f32>
//>     return %1 : tensor<f32>
//>   }
//> }

func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32} loc("a"), %b: tensor<4xf32> loc("b")) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  %1 = stablehlo.multiply %a, %b : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
//> a: Parameter -> result 1
//> b: Input
//> stablehlo.add Forward
//> stablehlo.multiply Forward

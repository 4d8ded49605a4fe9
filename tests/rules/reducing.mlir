func.func @main(%x: tensor<4x6xf32>, %i: tensor<4x6xi32>, %source: tensor<4x3xf32>)
    -> (tensor<4xf32>, tensor<6xf32>, tensor<f32>, tensor<4xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<4x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  %max = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
  %difference = stablehlo.reduce(%x init: %zero) applies stablehlo.subtract across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
  %best:2 = stablehlo.reduce(%x init: %zero), (%i init: %none) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
    %larger = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %value = stablehlo.select %larger, %a, %b : tensor<i1>, tensor<f32>
    %place = stablehlo.select %larger, %c, %d : tensor<i1>, tensor<i32>
    stablehlo.return %value, %place : tensor<f32>, tensor<i32>
  }
  %pooled = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x3xf32>
  %scattered = "stablehlo.select_and_scatter"(%x, %source, %zero) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %sum, %max, %difference, %best#0, %best#1, %pooled, %scattered
    : tensor<4xf32>, tensor<6xf32>, tensor<f32>, tensor<4xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<4x6xf32>
}
//> stablehlo.constant () -> ([])
//> stablehlo.constant () -> ([])
//> stablehlo.reduce ([i, j], []) -> ([i]) {i=4, j=6} sum={j}
//>   carries sum {0, 1}
//> stablehlo.reduce ([i, j], []) -> ([j]) {i=4, j=6} max={i}
//>   carries max {0, 1}
//> stablehlo.reduce ([i, j], []) -> ([]) {i=4, j=6} whole={i, j}
//> stablehlo.reduce ([i, j], [i, j], [], []) -> ([i], [i]) {i=4, j=6} whole={j}
//> stablehlo.reduce_window ([i, _], []) -> ([i, _]) {i=4}
//> stablehlo.select_and_scatter ([i, _], [i, _], []) -> ([i, _]) {i=4}

func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %i: tensor<4x6xi32>, %p: tensor<4x6xi1>, %s: tensor<f32>,
                %one: tensor<1x6xf32>, %q: tensor<i1>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>,
        tensor<4x6xi1>, tensor<4x6xi32>, tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi1>, tensor<4x6xf32>,
        tensor<4x6xf32>, tensor<4x6xbf16>, tensor<4x6xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xcomplex<f32>>,
        tensor<4x6xf32>, tensor<4x6x4xi8>, tensor<4x6xi32>, tensor<1x6xf32>, tensor<4x6xf32>) {
  %negate = stablehlo.negate %x : tensor<4x6xf32>
  %tanh = stablehlo.tanh %x : tensor<4x6xf32>
  %add = stablehlo.add %x, %y : tensor<4x6xf32>
  %subtract = stablehlo.subtract %x, %y : tensor<4x6xf32>
  %multiply = stablehlo.multiply %x, %y : tensor<4x6xf32>
  %divide = stablehlo.divide %x, %y : tensor<4x6xf32>
  %maximum = stablehlo.maximum %x, %y : tensor<4x6xf32>
  %and = stablehlo.and %p, %p : tensor<4x6xi1>
  %or = stablehlo.or %i, %i : tensor<4x6xi32>
  %add_bool = stablehlo.add %p, %p : tensor<4x6xi1>
  %power = stablehlo.power %x, %y : tensor<4x6xf32>
  %minimum = stablehlo.minimum %x, %y : tensor<4x6xf32>
  %compare = stablehlo.compare LT, %x, %y : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
  %clamp = stablehlo.clamp %s, %x, %s : (tensor<f32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %clamp_each = stablehlo.clamp %y, %x, %y : tensor<4x6xf32>
  %narrow = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %integer = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xi32>
  %select = stablehlo.select %p, %x, %y : tensor<4x6xi1>, tensor<4x6xf32>
  %select_all = stablehlo.select %q, %x, %y : tensor<i1>, tensor<4x6xf32>
  %complex = stablehlo.complex %x, %y : tensor<4x6xcomplex<f32>>
  %rounded = stablehlo.reduce_precision %x, format = e5m10 : tensor<4x6xf32>
  %bytes = stablehlo.bitcast_convert %x : (tensor<4x6xf32>) -> tensor<4x6x4xi8>
  %words = stablehlo.bitcast_convert %x : (tensor<4x6xf32>) -> tensor<4x6xi32>
  %single = stablehlo.negate %one : tensor<1x6xf32>
  %map = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.sine %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %negate, %tanh, %add, %subtract, %multiply, %divide, %maximum, %and, %or, %add_bool, %power, %minimum, %compare,
      %clamp, %clamp_each, %narrow, %integer, %select, %select_all, %complex, %rounded, %bytes, %words, %single, %map
    : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>,
      tensor<4x6xi1>, tensor<4x6xi32>, tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi1>, tensor<4x6xf32>,
      tensor<4x6xf32>, tensor<4x6xbf16>, tensor<4x6xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xcomplex<f32>>,
      tensor<4x6xf32>, tensor<4x6x4xi8>, tensor<4x6xi32>, tensor<1x6xf32>, tensor<4x6xf32>
}
//> stablehlo.negate ([i, j]) -> ([i, j]) {i=4, j=6}
//>   carries sum {0}
//> stablehlo.tanh ([i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.add ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries sum {0, 1}
//> stablehlo.subtract ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries sum {0, 1}
//> stablehlo.multiply ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries sum {0}
//>   carries sum {1}
//>   carries product {0, 1}
//> stablehlo.divide ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries sum {0}
//> stablehlo.maximum ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries max {0, 1}
//> stablehlo.and ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries and {0, 1}
//> stablehlo.or ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries or {0, 1}
//> stablehlo.add ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries or {0, 1}
//> stablehlo.power ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.minimum ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries min {0, 1}
//> stablehlo.compare ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.clamp ([], [i, j], []) -> ([i, j]) {i=4, j=6}
//> stablehlo.clamp ([i, j], [i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.convert ([i, j]) -> ([i, j]) {i=4, j=6}
//>   carries any {0}
//> stablehlo.convert ([i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.select ([i, j], [i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries any {1, 2}
//> stablehlo.select ([], [i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries any {1, 2}
//> stablehlo.complex ([i, j], [i, j]) -> ([i, j]) {i=4, j=6}
//>   carries sum {0, 1}
//> stablehlo.reduce_precision ([i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.bitcast_convert ([i, j]) -> ([i, j, _]) {i=4, j=6}
//> stablehlo.bitcast_convert ([i, j]) -> ([i, j]) {i=4, j=6}
//> stablehlo.negate ([_, i]) -> ([_, i]) {i=6}
//>   carries sum {0}
//> stablehlo.map ([i, j]) -> ([i, j]) {i=4, j=6}

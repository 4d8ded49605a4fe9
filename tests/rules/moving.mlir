func.func @main(%x: tensor<4x6xf32>, %row: tensor<6xf32>, %one: tensor<4x1xf32>, %cube: tensor<2x3x4xf32>,
                %i: tensor<i32>, %update: tensor<4x2xf32>, %s: tensor<f32>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<2x2x6xf32>, tensor<6x4xf32>, tensor<8x3xf32>,
        tensor<1x4x1x6xf32>, tensor<4x6xf32>, tensor<6x4xf32>, tensor<4x12xf32>, tensor<6x6xf32>, tensor<4x3xf32>,
        tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi32>) {
  %rows = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
  %stretched = stablehlo.broadcast_in_dim %one, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %flat = stablehlo.reshape %cube : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %split = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
  %merged = stablehlo.reshape %cube : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %apart = stablehlo.reshape %cube : (tensor<2x3x4xf32>) -> tensor<8x3xf32>
  %ones = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<1x4x1x6xf32>
  %crossed = stablehlo.reshape %cube : (tensor<2x3x4xf32>) -> tensor<4x6xf32>
  %transposed = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %joined = stablehlo.concatenate %x, %x, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  %padded = stablehlo.pad %x, %s, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %sliced = stablehlo.slice %x [0:4, 0:6:2] : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %reversed = stablehlo.reverse %x, dims = [0] : tensor<4x6xf32>
  %part = stablehlo.dynamic_slice %x, %i, %i, sizes = [4, 2] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
  %updated = stablehlo.dynamic_update_slice %x, %update, %i, %i : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
  %constant = stablehlo.constant dense<1.0> : tensor<4x6xf32>
  %iota = stablehlo.iota dim = 1 : tensor<4x6xi32>
  return %rows, %stretched, %flat, %split, %merged, %apart, %ones, %crossed, %transposed, %joined, %padded, %sliced, %reversed,
      %part, %updated, %constant, %iota
    : tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<2x2x6xf32>, tensor<6x4xf32>, tensor<8x3xf32>,
      tensor<1x4x1x6xf32>, tensor<4x6xf32>, tensor<6x4xf32>, tensor<4x12xf32>, tensor<6x6xf32>, tensor<4x3xf32>,
      tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi32>
}
//> stablehlo.broadcast_in_dim ([j]) -> ([i, j]) {i=4, j=6}
//>   carries any {0}
//> stablehlo.broadcast_in_dim ([i, _]) -> ([i, j]) {i=4, j=6}
//>   carries any {0}
//> stablehlo.reshape ([i, j, k]) -> ([ijk]) {i=2, j=3, k=4}
//>   carries any {0}
//> stablehlo.reshape ([ij, k]) -> ([i, j, k]) {i=2, j=2, k=6}
//>   carries any {0}
//> stablehlo.reshape ([i, j, k]) -> ([ij, k]) {i=2, j=3, k=4}
//>   carries any {0}
//> stablehlo.reshape ([i, j, l]) -> ([ik, m]) {i=2, j=3, k=4, l=4, m=3} whole={j, k, l, m}
//>   carries any {0}
//> stablehlo.reshape ([i, j]) -> ([_, i, _, j]) {i=4, j=6}
//>   carries any {0}
//> stablehlo.reshape ([i, j, m]) -> ([ik, l]) {i=2, j=3, k=2, l=6, m=4} whole={j, k, l, m}
//>   carries any {0}
//> stablehlo.transpose ([j, i]) -> ([i, j]) {i=6, j=4}
//>   carries any {0}
//> stablehlo.concatenate ([i, _], [i, _]) -> ([i, _]) {i=4}
//>   carries any {0, 1}
//> stablehlo.pad ([_, i], []) -> ([_, i]) {i=6}
//>   carries any {0, 1}
//> stablehlo.slice ([i, _]) -> ([i, _]) {i=4}
//>   carries any {0}
//> stablehlo.reverse ([_, i]) -> ([_, i]) {i=6}
//>   carries any {0}
//> stablehlo.dynamic_slice ([i, _], [], []) -> ([i, _]) {i=4}
//>   carries any {0}
//> stablehlo.dynamic_update_slice ([i, _], [i, _], [], []) -> ([i, _]) {i=4}
//>   carries any {0, 1}
//> stablehlo.constant () -> ([i, j]) {i=4, j=6}
//> stablehlo.iota () -> ([i, j]) {i=4, j=6}

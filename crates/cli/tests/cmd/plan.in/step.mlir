func.func @main(%w: tensor<1024x1024xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<4096x1024xf32>) -> tensor<1024x1024xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x1024xf32>, tensor<1024x1024xf32>) -> tensor<4096x1024xf32>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<1024x1024xf32>
  %n = stablehlo.subtract %w, %g : tensor<1024x1024xf32>
  return %n : tensor<1024x1024xf32>
}

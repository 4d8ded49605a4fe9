func.func @main(%x: tensor<f32> {tf.aliasing_output = "first"}) -> tensor<f32> {
  return %x : tensor<f32>
}
//> 1:55 error: cannot read `tf.aliasing_output` | expected the number of a result

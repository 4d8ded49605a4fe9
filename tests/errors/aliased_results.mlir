func.func @main(%x: tensor<f32> {tf.aliasing_output = 3 : i32}) -> tensor<f32> {
  return %x : tensor<f32>
}
//> 1:1 error: argument 0 becomes result 3, but there are 1 | as its attributes say

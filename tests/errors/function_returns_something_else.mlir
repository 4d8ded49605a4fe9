func.func @main(%x: tensor<f32>) -> tensor<2xf32> {
  return %x : tensor<f32>
}
//> 1:1 error: the function does not return what it declares | returns (`tensor<f32>`), declares (`tensor<2xf32>`)

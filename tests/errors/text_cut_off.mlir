module @m {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = "stablehlo.while"(%x) ({
      ^bb0(%a: tensor<f32>):
//> 5:1 error: expected `}` | the text ends here

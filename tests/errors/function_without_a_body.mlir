func.func @main(tensor<f32>) -> tensor<f32>
//> 1:1 error: function `@main` has no body | only declared

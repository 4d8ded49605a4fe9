"func.func"() <{function_type = (tensor<f32>) -> (), sym_name = "main"}> ({
^bb0(%x: tensor<2xf32>):
  "func.return"() : () -> ()
}) : () -> ()
//> 1:1 error: the function does not take what it declares | takes (`tensor<2xf32>`), declares (`tensor<f32>`)

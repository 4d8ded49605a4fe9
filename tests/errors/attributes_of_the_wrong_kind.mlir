func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.iota dim = "first" : tensor<2xi32>
  %1 = stablehlo.transpose %x, dims = 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "stablehlo.constant"() <{value = 1 : i64}> : () -> tensor<2xi32>
  %3 = stablehlo.dot_general %x, %x, contracting_dims = [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  %4 = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = 3 : i64}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  %5 = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = 0, rhs_contracting_dimensions = [0]>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  %6 = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [-1], rhs_contracting_dimensions = [0]>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  %7 = "stablehlo.convolution"(%x, %x) <{dimension_numbers = [0]}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  %8 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<1> : tensor<2x3xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
  %9 = "stablehlo.collective_permute"(%x) <{source_target_pairs = 1 : i64}> : (tensor<2xf32>) -> tensor<2xf32>
  %10 = stablehlo.cholesky %x, lower = 1 : tensor<2xf32>
  %11 = stablehlo.fft %x, type = 3, length = [2] : (tensor<2xf32>) -> tensor<2xf32>
  %12 = "func.call"(%x) <{callee = "f"}> : (tensor<2xf32>) -> tensor<2xf32>
  %13 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], precision = [1] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  stablehlo.custom_call @check.expect_almost_eq(%x, %x) {tolerance = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  stablehlo.custom_call @check.expect_almost_eq(%x, %x) {tolerance = 1e999 : f64} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return %x : tensor<2xf32>
}
//> 2:29 error: `stablehlo.iota` cannot read its attribute `dim` | expected an integer
//> 3:39 error: `stablehlo.transpose` cannot read its attribute `dims` | expected a list of integers
//> 4:41 error: `stablehlo.constant` cannot read its attribute `value` | expected a constant such as `dense<0.0> : tensor<f32>`
//> 5:57 error: `stablehlo.dot_general` cannot read its attribute `contracting_dims` | expected two lists such as `[1] x [0]`
//> 6:66 error: `stablehlo.dot_general` cannot read its attribute `dot_dimension_numbers` | expected named values such as `<a = [0]>`
//> 7:110 error: `stablehlo.dot_general` cannot read its attribute `lhs_contracting_dimensions` | expected a list of integers from 0
//> 8:110 error: `stablehlo.dot_general` cannot read its attribute `lhs_contracting_dimensions` | expected a list of integers from 0
//> 9:62 error: `stablehlo.convolution` cannot read its attribute `dimension_numbers` | expected dimensions such as `[b, 0, f]x[0, i, o]->[b, 0, f]`
//> 10:67 error: `stablehlo.collective_permute` cannot read its attribute `source_target_pairs` | expected pairs of integers
//> 11:67 error: `stablehlo.collective_permute` cannot read its attribute `source_target_pairs` | expected lists of integers
//> 12:40 error: `stablehlo.cholesky` cannot read its attribute `lower` | expected `true` or `false`
//> 13:34 error: `stablehlo.fft` cannot read its attribute `type` | expected a word
//> 14:36 error: `func.call` cannot read its attribute `callee` | expected a symbol such as `@name`
//> 15:81 error: `stablehlo.dot_general` cannot read its attribute `precision` | expected words such as `DEFAULT`
//> 16:70 error: `stablehlo.custom_call` cannot read its attribute `tolerance` | expected a number
//> 17:70 error: `stablehlo.custom_call` cannot read its attribute `tolerance` | expected a finite number

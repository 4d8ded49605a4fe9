func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.constant dense<> : tensor<2xf32>
  %1 = stablehlo.constant dense<[1.0]> : tensor<2xf32>
  %2 = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2xf32>
  %3 = stablehlo.constant dense<[[1.0], 2.0]> : tensor<2x1xf32>
  %4 = stablehlo.constant dense<[1.0, 2.0> : tensor<2xf32>
  %5 = stablehlo.constant dense<[1.0, 2.0] 3.0> : tensor<2xf32>
  %6 = stablehlo.constant dense<1.0 2.0> : tensor<2xf32>
  %7 = stablehlo.constant dense<"abc"> : tensor<2xf32>
  %8 = stablehlo.constant dense<"0x0000803G"> : tensor<f32>
  %9 = stablehlo.constant dense<"0x0000803"> : tensor<f32>
  %10 = stablehlo.constant dense<"0x0000803F> : tensor<f32>
  %11 = stablehlo.constant dense<1.5> : tensor<i32>
  %12 = stablehlo.constant dense<300> : tensor<ui8>
  %13 = stablehlo.constant dense<2> : tensor<i1>
  %14 = stablehlo.constant dense<no> : tensor<i1>
  %15 = stablehlo.constant dense<true> : tensor<f32>
  %16 = stablehlo.constant dense<0x123456789> : tensor<f32>
  %17 = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:33 error: constant without elements | `tensor<2xf32>` needs 2
//> 3:37 error: list of the wrong length | dimension 0 of `tensor<2xf32>` has size 2, here are 1
//> 4:34 error: list nested too deep | `tensor<2xf32>` has 1 dimension
//> 5:43 error: element where a list is expected | `tensor<2x1xf32>` has 2 dimensions
//> 6:33 error: constant without an end | a `]` is missing
//> 7:44 error: expected the end of the constant | found `3.0`
//> 8:37 error: expected the end of the constant | found `2.0`
//> 9:34 error: expected hex digits | a string constant starts with `0x`
//> 10:43 error: not a hex digit | expected `0` to `9` or `A` to `F`
//> 11:34 error: constant of the wrong length | `tensor<f32>` needs 8 digits, here are 7
//> 12:34 error: string without an end | starts here
//> 13:34 error: `1.5` is not an element of type `i32` | expected an integer of 32 bits
//> 14:34 error: `300` is not an element of type `ui8` | expected an integer of 8 bits
//> 15:34 error: `2` is not an element of type `i1` | expected `true` or `false`
//> 16:34 error: expected `true` or `false` | found `no`
//> 17:34 error: expected a number | found `true`
//> 18:34 error: `0x123456789` is not an element of type `f32` | expected a number that the type can hold
//> 19:28 error: the data of this constant is not in the text | elided or kept in a resource | hint: print the module with `large_elements_limit=None` and without resources

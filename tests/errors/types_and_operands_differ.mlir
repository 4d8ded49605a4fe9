func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.add"(%x, %x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `stablehlo.add` needs one type per operand | 2 operands and 1 type
//> 3:8 error: operand 1 of `stablehlo.add` has another type | is `tensor<2xf32>`, the text says `tensor<3xf32>`

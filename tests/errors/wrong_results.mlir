func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.transpose %x, dims = [0] : (tensor<2xf32>) -> tensor<3xf32>
  %1 = stablehlo.iota dim = 0 : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %x : tensor<2xf32>
}
//> 2:8 error: `stablehlo.transpose` does not give the results that are declared | gives (`tensor<2xf32>`), the text says (`tensor<3xf32>`)
//> 3:8 error: `stablehlo.iota` needs one type per operand | 0 operands and 1 type

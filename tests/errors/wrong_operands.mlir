func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.concatenate %x, %x, dim = 1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %1 = "stablehlo.add"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "stablehlo.get_dimension_size"(%x) <{dimension = 3 : i64}> : (tensor<2xf32>) -> tensor<i32>
  %3 = "stablehlo.torch_index_select"(%x) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<2xf32>) -> tensor<2xf32>
  %4 = "stablehlo.torch_index_select"(%x, %x) <{dim = 4 : i64, batch_dims = 0 : i64}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = sdy.sharding_constraint %x, %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `stablehlo.concatenate`: dimension 1 is out of range for rank 1 | the operands are (`tensor<2xf32>`, `tensor<2xf32>`)
//> 3:8 error: `stablehlo.add`: expected 2 operands, got 1 | the operands are (`tensor<2xf32>`)
//> 4:8 error: `stablehlo.get_dimension_size`: dimension 3 is out of range | the operands are (`tensor<2xf32>`)
//> 5:8 error: `stablehlo.torch_index_select`: expected 2 operands, got 1 | the operands are (`tensor<2xf32>`)
//> 6:8 error: `stablehlo.torch_index_select`: dimension 4 or 0 batch dimensions are out of range | the operands are (`tensor<2xf32>`, `tensor<2xf32>`)
//> 7:8 error: `sdy.sharding_constraint`: expected 1 operand, got 2 | the operands are (`tensor<2xf32>`, `tensor<2xf32>`)

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = chlo.broadcast_add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `chlo.broadcast_add`: dimension 0 of the operand has size 2 and cannot become dimension 0 of size 3 | the operands are (`tensor<2xf32>`, `tensor<2xf32>`)

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = chlo.broadcast_frobnicate %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `chlo.broadcast_frobnicate` is not supported | no such elementwise op | hint: broadcast the operands with `stablehlo.broadcast_in_dim`

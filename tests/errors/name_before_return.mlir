func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = return %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `func.return` has no results | expected no name before it

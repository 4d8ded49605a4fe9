func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 3:3 error: expected `}` after the `return` of a region | found `return`

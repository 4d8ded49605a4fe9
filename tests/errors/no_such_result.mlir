func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x#1, %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:22 error: there is no result 1 | `%x` stands for 1 value

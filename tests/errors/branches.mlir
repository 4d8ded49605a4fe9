func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  "cf.br"()[^bb1] : () -> ()
  ^bb1:
  cf.br ^bb1
  return %x : tensor<2xf32>
}
//> 2:12 error: branches between blocks are not supported | successors
//> 3:3 error: branches between blocks are not supported | a second block | hint: use `stablehlo.while`, `stablehlo.if` or `stablehlo.case`

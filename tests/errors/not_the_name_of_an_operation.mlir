func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  "a b"() : () -> ()
  add %x, %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:3 error: not the name of an operation | expected a name such as `stablehlo.add`
//> 3:3 error: `add` is not an operation | expected a name such as `stablehlo.add`

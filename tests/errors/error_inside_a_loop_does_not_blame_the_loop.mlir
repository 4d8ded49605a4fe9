func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = stablehlo.while(%a = %x, %b = %x) : tensor<2xf32>, tensor<2xf32>
   cond {
    %t = stablehlo.compare LT, %a, %typo : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    stablehlo.return %t : tensor<2xi1>
  } do {
    stablehlo.return %a, %b : tensor<2xf32>, tensor<2xf32>
  }
  %1 = stablehlo.add %0#0, %0#1 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
//> 4:36 error: use of undefined value `%typo` | not defined here

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  "x.region"() ({
    %a = stablehlo.tanh %x : tensor<2xf32>
  }) : () -> ()
  %0 = stablehlo.tanh %a : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:3 warning: unknown op `x.region` | kept whole on each device
//> 5:23 error: use of undefined value `%a` | not defined here

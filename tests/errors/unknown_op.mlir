func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = x.first %x : (tensor<2xf32>) -> tensor<2xf32>
  %1 = x.first %x : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "x.second"(%x) {a = 1} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = stablehlo.custom_call @Sharding(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 warning: unknown op `x.first` | kept whole on each device
//> 4:8 warning: unknown op `x.second` | kept whole on each device
//> 5:8 warning: sharding annotations are left out | shardings come from tactics and plans

func.func @main(%x: tensor<2xui32>) -> tensor<2xui32> {
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@empty_mesh, [{}]>}> : (tensor<2xui32>) -> tensor<2xui32>
  %1 = sdy.sharding_constraint %0 <@empty_mesh, [{}]> : tensor<2xui32>
  %2 = "sdy.sharding_constraint"(%1) <{sharding = #sdy.sharding<@mesh, [{"data"}]>}> : (tensor<2xui32>) -> tensor<2xui32>
  return %2 : tensor<2xui32>
}
//> 4:8 warning: sharding annotations are left out | shardings come from tactics and plans

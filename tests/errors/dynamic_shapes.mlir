func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  return %x : tensor<?x4xf32>
}
func.func private @unranked(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}
func.func private @operation(%x: tensor<4xf32>, %s: tensor<1xi32>) -> tensor<4xf32> {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
//> 1:28 error: dynamic shapes are not supported | size known only at run time | hint: export the function with concrete shapes
//> 4:40 error: dynamic shapes are not supported | size known only at run time | hint: export the function with concrete shapes
//> 8:8 error: `stablehlo.dynamic_reshape` makes a shape at run time, which is not supported | dynamic shape | hint: export the function with concrete shapes

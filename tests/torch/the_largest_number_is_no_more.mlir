func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %most = stablehlo.constant dense<-3.40282347E+38> : tensor<2xf32>
  %tenth = stablehlo.constant dense<0.1> : tensor<2xf32>
  %0 = stablehlo.add %x, %most : tensor<2xf32>
  %1 = stablehlo.multiply %0, %tenth : tensor<2xf32>
  return %1 : tensor<2xf32>
}

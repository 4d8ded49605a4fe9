func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %arg0, %missing0 : tensor<2xf32>
  %1 = stablehlo.add %arg0, %missing1 : tensor<2xf32>
  %2 = stablehlo.add %arg0, %missing2 : tensor<2xf32>
  %3 = stablehlo.add %arg0, %missing3 : tensor<2xf32>
  %4 = stablehlo.add %arg0, %missing4 : tensor<2xf32>
  %5 = stablehlo.add %arg0, %missing5 : tensor<2xf32>
  %6 = stablehlo.add %arg0, %missing6 : tensor<2xf32>
  %7 = stablehlo.add %arg0, %missing7 : tensor<2xf32>
  %8 = stablehlo.add %arg0, %missing8 : tensor<2xf32>
  %9 = stablehlo.add %arg0, %missing9 : tensor<2xf32>
  %10 = stablehlo.add %arg0, %missing10 : tensor<2xf32>
  %11 = stablehlo.add %arg0, %missing11 : tensor<2xf32>
  %12 = stablehlo.add %arg0, %missing12 : tensor<2xf32>
  %13 = stablehlo.add %arg0, %missing13 : tensor<2xf32>
  %14 = stablehlo.add %arg0, %missing14 : tensor<2xf32>
  %15 = stablehlo.add %arg0, %missing15 : tensor<2xf32>
  %16 = stablehlo.add %arg0, %missing16 : tensor<2xf32>
  %17 = stablehlo.add %arg0, %missing17 : tensor<2xf32>
  %18 = stablehlo.add %arg0, %missing18 : tensor<2xf32>
  %19 = stablehlo.add %arg0, %missing19 : tensor<2xf32>
  %20 = stablehlo.add %arg0, %missing20 : tensor<2xf32>
  %21 = stablehlo.add %arg0, %missing21 : tensor<2xf32>
  %22 = stablehlo.add %arg0, %missing22 : tensor<2xf32>
  %23 = stablehlo.add %arg0, %missing23 : tensor<2xf32>
  %24 = stablehlo.add %arg0, %missing24 : tensor<2xf32>
  return %arg0 : tensor<2xf32>
}

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.compare LESS, %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %1 = stablehlo.fft %x, type = DFT, length = [2] : (tensor<2xf32>) -> tensor<2xf32>
  %2 = stablehlo.reduce_precision %x, format = f16 : tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `stablehlo.compare` does not know `LESS` | expected `EQ`, `GE`, `GT`, `LE`, `LT`, `NE`
//> 3:8 error: `stablehlo.fft` does not know `DFT` | expected `FFT`, `IFFT`, `RFFT`, `IRFFT`
//> 4:8 error: `stablehlo.reduce_precision` does not know `f16` | expected `e5m10`

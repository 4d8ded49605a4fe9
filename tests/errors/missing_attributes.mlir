func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.iota"() : () -> tensor<2xi32>
  %1 = "stablehlo.constant"() : () -> tensor<2xi32>
  %2 = stablehlo.slice %x : (tensor<2xf32>) -> tensor<1xf32>
  %3 = "stablehlo.gather"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "func.call"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %5 = "stablehlo.custom_call"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
//> 2:8 error: `stablehlo.iota` needs the attribute `iota_dimension` | missing
//> 3:8 error: `stablehlo.constant` needs the attribute `value` | missing
//> 4:8 error: `stablehlo.slice` needs the attribute `start_indices` | missing
//> 5:8 error: `stablehlo.gather` needs the attribute `dimension_numbers` | missing
//> 6:8 error: `func.call` needs the attribute `callee` | missing
//> 7:8 error: `stablehlo.custom_call` needs the attribute `call_target_name` | missing

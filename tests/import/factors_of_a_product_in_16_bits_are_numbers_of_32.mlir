aten 1 "M"
location 0 "_addmm#0" "model.py" 1
%0 = argument "left" : bf16[4,4]
%1 = argument "right" : bf16[4,4]
%2 = aten.addmm.default(%0, %0, %1, -4.775, 2.0315) : bf16[4,4] @0
result "made" %2
//> module @M attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xbf16> loc("left"), %1: tensor<4x4xbf16> loc("right")) -> (tensor<4x4xbf16> {jax.result_info = "made"}) {
//>     %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
//>     %3 = stablehlo.convert %2 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
//>     %4 = stablehlo.constant dense<2.0315> : tensor<f32>
//>     %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
//>     %6 = stablehlo.multiply %3, %5 : tensor<4x4xf32>
//>     %7 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
//>     %8 = stablehlo.constant dense<-4.775> : tensor<f32>
//>     %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
//>     %10 = stablehlo.multiply %7, %9 : tensor<4x4xf32>
//>     %11 = stablehlo.add %10, %6 : tensor<4x4xf32>
//>     %12 = stablehlo.convert %11 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
//>     return %12 : tensor<4x4xbf16>
//>   }
//> }

func.func @main(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %scores = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %quarter = stablehlo.constant dense<0.25> : tensor<2x4x8x8xf32>
  %scaled = stablehlo.multiply %scores, %quarter : tensor<2x4x8x8xf32>
  %rows = stablehlo.iota dim = 2 : tensor<2x4x8x8xi32>
  %columns = stablehlo.iota dim = 3 : tensor<2x4x8x8xi32>
  %keep = stablehlo.compare GE, %rows, %columns : (tensor<2x4x8x8xi32>, tensor<2x4x8x8xi32>) -> tensor<2x4x8x8xi1>
  %least = stablehlo.constant dense<0xFF800000> : tensor<2x4x8x8xf32>
  %masked = stablehlo.select %keep, %scaled, %least : tensor<2x4x8x8xi1>, tensor<2x4x8x8xf32>
  %start = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %maximum = stablehlo.reduce(%masked init: %start) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %shift = stablehlo.broadcast_in_dim %maximum, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x8xf32>
  %shifted = stablehlo.subtract %masked, %shift : tensor<2x4x8x8xf32>
  %exponential = stablehlo.exponential %shifted : tensor<2x4x8x8xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%exponential init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %divisor = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x8xf32>
  %weights = stablehlo.divide %exponential, %divisor : tensor<2x4x8x8xf32>
  %out = stablehlo.dot_general %weights, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %out : tensor<2x4x8x16xf32>
}
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4x8x16xf32>, %1: tensor<2x4x8x16xf32>, %2: tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>) {
//>     %3 = stablehlo.custom_call @meshwright.attention(%0, %1, %2) {meshwright.causal = true, meshwright.scale = 0.25 : f64} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
//>     return %3 : tensor<2x4x8x16xf32>
//>   }
//> }

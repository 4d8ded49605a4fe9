func.func @main() -> (tensor<2xi32>, tensor<4xi32>) {
  %x = stablehlo.constant dense<[10, 20, 30, 40]> : tensor<4xi32>
  %far = stablehlo.constant dense<9> : tensor<i32>
  %0 = stablehlo.dynamic_slice %x, %far, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<2xi32>
  %u = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %before = stablehlo.constant dense<-3> : tensor<i32>
  %1 = stablehlo.dynamic_update_slice %x, %u, %before : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  return %0, %1 : tensor<2xi32>, tensor<4xi32>
}
//> tensor<2xi32> [30, 40]
//> tensor<4xi32> [1, 2, 30, 40]
//> 0 checks passed

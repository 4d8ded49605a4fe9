func.func @main() -> (tensor<3xi8>, tensor<3xui8>, tensor<2xi32>, tensor<2xi32>) {
  %a = stablehlo.constant dense<[127, -128, 100]> : tensor<3xi8>
  %0 = stablehlo.add %a, %a : tensor<3xi8>
  %b = stablehlo.constant dense<[255, 0, 200]> : tensor<3xui8>
  %1 = stablehlo.multiply %b, %b : tensor<3xui8>
  %n = stablehlo.constant dense<[7, -2147483648]> : tensor<2xi32>
  %d = stablehlo.constant dense<[0, -1]> : tensor<2xi32>
  %2 = stablehlo.divide %n, %d : tensor<2xi32>
  %3 = stablehlo.remainder %n, %d : tensor<2xi32>
  return %0, %1, %2, %3 : tensor<3xi8>, tensor<3xui8>, tensor<2xi32>, tensor<2xi32>
}
//> tensor<3xi8> [-2, 0, -56]
//> tensor<3xui8> [1, 0, 64]
//> tensor<2xi32> [-1, -2147483648]
//> tensor<2xi32> [7, 0]
//> 0 checks passed

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %nowhere : tensor<2xf32>
  %1 = stablehlo.multiply %0, %x : tensor<2xf32>
  %2 = stablehlo.dot_general %1, %x, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  %3 = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<3xf32>
  %4 = stablehlo.tanh %3 : tensor<3xf32>
  %5 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<2xf32>
  %6 = stablehlo.add %x, %5 : tensor<2xf32>
  %7 = stablehlo.transpose %x, dims = [7] : (tensor<2xf32>) -> tensor<2xf32>
  return %6 : tensor<2xf32>
}
//> 2:26 error: use of undefined value `%nowhere` | not defined here
//> 5:8 error: `stablehlo.reshape`: `tensor<2xf32>` has 2 elements, `tensor<3xf32>` has 3 | the operands are (`tensor<2xf32>`)
//> 7:47 error: list of the wrong length | dimension 0 of `tensor<2xf32>` has size 2, here are 3
//> 9:8 error: `stablehlo.transpose`: dimension 7 is out of range for rank 1 | the operands are (`tensor<2xf32>`)

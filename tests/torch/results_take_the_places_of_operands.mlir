func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  %1 = stablehlo.tanh %0 : tensor<2x3xf32>
  %2 = stablehlo.subtract %y, %1 : tensor<2x3xf32>
  %3 = stablehlo.multiply %x, %2 : tensor<2x3xf32>
  %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %5 = stablehlo.exponential %3 : tensor<2x3xf32>
  %6 = stablehlo.negate %5 : tensor<2x3xf32>
  %7 = stablehlo.multiply %6, %6 : tensor<2x3xf32>
  %8 = stablehlo.divide %x, %7 : tensor<2x3xf32>
  return %6, %4, %8 : tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>
}
//> # Written by Meshwright: what each device runs. Names that are not defined here are those of
//> # `meshwright.torch.ops`, and `rank`, `device`, `groups`, `constants` and `chance`.
//> 
//> GROUPS = [
//> ]
//> CONSTANTS = [
//> ]
//> 
//> 
//> # Numbers of the results that it gives.
//> RUN = [0, 1, 2]
//> 
//> def run(arguments):
//>     v0 = arguments[0]
//>     v1 = arguments[1]
//>     v2 = v0 + v1
//>     v3 = torch.tanh(v2, out=v2)
//>     del v2
//>     v4 = v1 - v3
//>     del v3
//>     v5 = torch.mul(v4, v0, out=v4)
//>     del v4
//>     v6 = v5.permute((1, 0))
//>     v7 = torch.exp(v5)
//>     del v5
//>     v8 = torch.neg(v7, out=v7)
//>     del v7
//>     v9 = v8 * v8
//>     v10 = v0 / v9
//>     del v9
//>     return [v8, v6, v10]

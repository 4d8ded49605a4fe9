func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %most = stablehlo.constant dense<-3.40282347E+38> : tensor<2xf32>
  %tenth = stablehlo.constant dense<0.1> : tensor<2xf32>
  %0 = stablehlo.add %x, %most : tensor<2xf32>
  %1 = stablehlo.multiply %0, %tenth : tensor<2xf32>
  return %1 : tensor<2xf32>
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
//> RUN = [0]
//> 
//> def run(arguments):
//>     v0 = arguments[0]
//>     v3 = v0 + -3.4028234663852886e38
//>     v4 = torch.mul(v3, 0.1, out=v3)
//>     del v3
//>     return [v4]

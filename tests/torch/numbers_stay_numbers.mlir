func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<2x16xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4x16xf32>
  %product = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %spread = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<16xf32>) -> tensor<4x16xf32>
  %sum = stablehlo.add %product, %spread : tensor<4x16xf32>
  %scaled = stablehlo.multiply %sum, %half : tensor<4x16xf32>
  %device = stablehlo.partition_id : tensor<ui32>
  %index = stablehlo.convert %device : (tensor<ui32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %row = stablehlo.remainder %index, %two : tensor<i32>
  %first = stablehlo.multiply %row, %two : tensor<i32>
  %part = stablehlo.dynamic_slice %scaled, %first, %zero, sizes = [2, 16] : (tensor<4x16xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16xf32>
  return %part : tensor<2x16xf32>
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
//>     v1 = arguments[1]
//>     v2 = arguments[2]
//>     v4 = torch.mm(v0, v1)
//>     v5 = v2[None].expand((4, 16))
//>     v6 = torch.add(v4, v5, out=v4)
//>     del v4, v5
//>     v7 = torch.mul(v6, 0.5, out=v6)
//>     del v6
//>     v12 = remainder(rank, 2)
//>     v13 = v12 * 2
//>     v14 = part(v7, (v13, 0), (2, 16))
//>     del v7
//>     return [v14]

aten 1 "Step"
location 0 "layer/_mm#0" "model.py" 3
location 1 "loss/_sum#0" "model.py" 4
location 2 "transpose(layer)/_mm#1" "model.py" 3
location 3 "optimizer/_mul#0" "train.py" 9
%0 = argument "params.weight" : f32[3,4]
%1 = argument "opt.momentum.weight" : f32[3,4]
%2 = argument "batch" : f32[2,3]
%3 = argument "lr.0" : f32[]
%4 = aten.mm.default(%2, %0) : f32[2,4] @0
%5 = aten.tanh.default(%4) : f32[2,4] @0
%6 = aten.sum.default(%5, none) : f32[] @1
%7 = aten.mul.Tensor(%5, %5) : f32[2,4] @2
%8 = aten.rsub.Scalar(%7, 1, 1) : f32[2,4] @2
%9 = aten.t.default(%2) : f32[3,2] @2
%10 = aten.mm.default(%9, %8) : f32[3,4] @2
%11 = aten.mul.Tensor(%1, 0.5) : f32[3,4] @3
%12 = aten.add.Tensor(%11, %10, 1) : f32[3,4] @3
%13 = aten.mul.Tensor(%12, %3) : f32[3,4] @3
%14 = aten.sub.Tensor(%0, %13, 1) : f32[3,4] @3
result "loss" %6
result "grads.weight" %10
result "opt.momentum.weight" %12 "opt.momentum.weight"
result "params.weight" %14 "params.weight"
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
//> FORWARD = [0]
//> 
//> def forward(arguments):
//>     v0 = arguments[0]  # params.weight
//>     v2 = arguments[2]  # batch
//>     # layer/_mm#0 (model.py:3)
//>     v4 = torch.mm(v2, v0)
//>     v5 = torch.tanh(v4, out=v4)
//>     del v4
//>     # loss/_sum#0 (model.py:4)
//>     v7 = v5.sum((0, 1))
//>     return [v7], [v5]
//> 
//> 
//> # Numbers of the results that it gives.
//> BACKWARD = [1]
//> # Numbers of the arguments that it needs.
//> BACKWARD_NEEDS = [2]
//> 
//> def backward(arguments, saved):
//>     v2 = arguments[2]  # batch
//>     [v5] = saved
//>     saved.clear()
//>     # transpose(layer)/_mm#1 (model.py:3)
//>     v11 = v5 * v5
//>     del v5
//>     v14 = 1.0 - v11
//>     del v11
//>     v15 = v2.permute((1, 0))
//>     v16 = torch.mm(v15, v14)
//>     del v14, v15
//>     return [v16], []
//> 
//> 
//> # Numbers of the results that it gives.
//> UPDATE = []
//> # Numbers of the arguments that it needs.
//> UPDATE_NEEDS = [0, 1, 3]
//> 
//> def update(arguments, saved):
//>     v0 = arguments[0]  # params.weight
//>     v1 = arguments[1]  # opt.momentum.weight
//>     v3 = arguments[3]  # lr.0
//>     [v16] = saved
//>     saved.clear()
//>     # optimizer/_mul#0 (train.py:9)
//>     v19 = torch.mul(v1, 0.5, out=v1)
//>     v20 = torch.add(v19, v16, out=v19)
//>     del v16, v19
//>     v21 = v3[None, None].expand((3, 4))
//>     v22 = v20 * v21
//>     del v21, v20
//>     v23 = torch.sub(v0, v22, out=v0)
//>     del v22, v23
//>     return None
//> 
//> bytes while each op runs: 156 156 160 192 192 160 208 176 176 176 224 224

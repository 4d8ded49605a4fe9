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

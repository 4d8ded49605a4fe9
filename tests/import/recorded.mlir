aten 1 "Classifier"
location 0 "first/_t#0" "model.py" 11
location 1 "first/_addmm#0" "model.py" 11
location 2 "loss/_mean#0" "train.py" 4
location 3 "transpose(first)/_mm#0" "model.py" 11
%0 = argument "params.first.weight" : f32[3,4]
%1 = argument "params.first.bias" : f32[3]
%2 = argument "batch" : bf16[2,4]
%3 = constant 0x0000803f : f32[]
%4 = aten._to_copy.default(%2, f32, none, none, none, false, none) : f32[2,4] @1
%5 = aten.t.default(%0) : f32[4,3] @0
%6 = aten.addmm.default(%1, %4, %5, 1, 1) : f32[2,3] @1
%7 %8 = aten.max.dim(%6, -1, false) : f32[2] i64[2] @2
%9 = aten.mean.default(%7, none) : f32[] @2
%10 = aten.mul.Tensor(%9, %3) : f32[] @2
%11 = my.op.default(%6, [1, 2], "same") : f32[2,3] @3 rule "(b d) -> (b d)"
%12 = aten.sum.dim_IntList(%11, [0], false, none) : f32[3] @3
result "loss" %10
result "params.first.bias" %12 "params.first.bias"

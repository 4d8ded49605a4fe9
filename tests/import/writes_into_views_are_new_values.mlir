aten 1 "M"
location 0 "_add#0" "model.py" 1
location 1 "_select#0" "model.py" 1
location 2 "_mul#0" "model.py" 1
location 3 "_select_scatter#0" "model.py" 1
location 4 "_select#1" "model.py" 1
location 5 "_select#2" "model.py" 1
location 6 "_select#3" "model.py" 1
location 7 "_fill#0" "model.py" 1
location 8 "_select_scatter#1" "model.py" 1
location 9 "_select#4" "model.py" 1
location 10 "_empty_like#0" "model.py" 1
location 11 "_add#1" "model.py" 1
location 12 "_mul#1" "model.py" 1
location 13 "_detach#0" "model.py" 1
%0 = argument "params.w.0" : f32[3]
%1 = argument "batch.0" : f32[2,3]
%2 = aten.add.Tensor(%1, 1, 1) : f32[2,3] @0
%3 = aten.select.int(%2, 0, 0) : f32[3] @1
%4 = aten.mul.Tensor(%3, 2) : f32[3] @2
%5 = aten.select_scatter.default(%2, %4, 0, 0) : f32[2,3] @3
%6 = aten.select.int(%5, 0, 0) : f32[3] @4
%7 = aten.select.int(%2, 1, 1) : f32[2] @5
%8 = aten.select.int(%5, 1, 1) : f32[2] @6
%9 = aten.fill.Scalar(%8, 3.0) : f32[2] @7
%10 = aten.select_scatter.default(%5, %9, 1, 1) : f32[2,3] @8
%11 = aten.select.int(%10, 1, 1) : f32[2] @9
%12 = aten.empty_like.default(%10, none, none, none, false, none) : f32[2,3] @10
%13 = aten.add.Tensor(%10, %1, 1) : f32[2,3] @11
%14 = aten.mul.Tensor(%13, %0) : f32[2,3] @12
%15 = aten.detach.default(%14) : f32[2,3] @13
result "outputs" %15

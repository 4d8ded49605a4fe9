aten 1 "M"
location 0 "_max_pool2d_with_indices#0" "model.py" 1
location 1 "_detach#0" "model.py" 1
location 2 "_detach#1" "model.py" 1
%0 = argument "batch.0" : f32[1,2,5,5]
%1 %2 = aten.max_pool2d_with_indices.default(%0, [3, 3], [2, 2], [1, 1], [1, 1], false) : f32[1,2,3,3] i64[1,2,3,3] @0
%3 = aten.detach.default(%1) : f32[1,2,3,3] @1
result "outputs.0" %3
%4 = aten.detach.default(%2) : i64[1,2,3,3] @2
result "outputs.1" %4

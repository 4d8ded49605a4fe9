aten 1 "M"
location 0 "_convolution#0" "model.py" 1
location 1 "_detach#0" "model.py" 1
%0 = argument "params.w.0" : f32[4,3,3,3]
%1 = argument "batch.0" : f32[1,4,5,5]
%2 = aten.convolution.default(%1, %0, none, [2, 2], [1, 1], [1, 1], true, [1, 1], 2) : f32[1,6,10,10] @0
%3 = aten.detach.default(%2) : f32[1,6,10,10] @1
result "outputs" %3

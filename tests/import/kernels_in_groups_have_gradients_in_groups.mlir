aten 1 "M"
location 0 "_convolution#0" "model.py" 1
location 1 "_sum#0" "model.py" 1
location 2 "_ones_like#0" "model.py" 1
location 3 "_SumBackward0#0/_expand#0" "model.py" 1
location 4 "_ConvolutionBackward0#1/_convolution_backward#0" "model.py" 1
location 5 "_detach#0" "model.py" 1
%0 = argument "params.w.0" : f32[4,1,3,3]
%1 = argument "batch.0" : f32[1,2,5,5]
%2 = aten.convolution.default(%1, %0, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2) : f32[1,4,3,3] @0
%3 = aten.sum.default(%2, none) : f32[] @1
%4 = aten.ones_like.default(%3, none, none, none, false, "preserve") : f32[] @2
%5 = aten.expand.default(%4, [1, 4, 3, 3], false) : f32[1,4,3,3] @3
_ %6 _ = aten.convolution_backward.default(%5, %1, %0, [0], [1, 1], [0, 0], [1, 1], false, [0, 0], 2, [false, true, false]) : _ f32[4,1,3,3] _ @4
%7 = aten.detach.default(%3) : f32[] @5
result "loss" %7
result "grads.w.0" %6

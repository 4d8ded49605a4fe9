aten 1 "Broken"
location 0 "_neg#0" "" 0
%0 = argument "x" : f32[2]
%2 = aten.neg.default(%1) : f32[2] @0

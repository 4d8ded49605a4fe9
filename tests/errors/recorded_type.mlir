aten 1 "Broken"
location 0 "_neg#0" "" 0
%0 = argument "x" : f32[2]
%1 = aten.sum.default(%0, none) : f32[2] @0
result "y" %1

aten 1 "Broken"
location 0 "_neg#0" "" 0
%0 = argument "x" : f99[2]

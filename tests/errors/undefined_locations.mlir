func.func @main(%x: tensor<f32> loc(#loc1)) {
  x.y : () -> () loc(#loc2)
  return loc(#loc3)
}
//> 1:37 error: location `#loc1` is not defined | used here | hint: locations are defined at the end of a text; is it cut off?
//> 2:3 warning: unknown op `x.y` | kept whole on each device

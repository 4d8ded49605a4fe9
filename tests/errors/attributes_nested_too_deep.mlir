func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y {a = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]} : () -> ()
  return %x : tensor<2xf32>
}
//> 2:77 error: attributes nested deeper than 64 | or an alias that contains itself

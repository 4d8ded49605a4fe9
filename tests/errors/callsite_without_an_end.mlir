func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y : () -> () loc(callsite("a" at (
  return %x : tensor<2xf32>
}
//> 2:38 error: location without an end | this bracket is not closed
//> 5:1 error: expected `}` | the text ends here

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  x.y {a = 9223372036854775808} : () -> ()
  x.y {a = array<i64: 9223372036854775808>} : () -> ()
  x.y {a = array<i64: 123456789012345678901234567890>} : () -> ()
  %0 = stablehlo.iota dim = 0 : tensor<123456789012345678901234567890xi32>
  return %x : tensor<2xf32>
}
//> 2:12 error: cannot read this number | expected a 64-bit integer or a float
//> 3:23 error: integer does not fit 64 bits | out of range
//> 4:23 error: integer does not fit 64 bits | too large
//> 5:40 error: integer does not fit 64 bits | too large

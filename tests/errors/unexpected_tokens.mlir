func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x %x : tensor<2xf32>
  %1 = stablehlo.add %x, %x
  %2 stablehlo.add %x, %x : tensor<2xf32>
  % = stablehlo.add %x, %x : tensor<2xf32>
  "x.y"(x) : () -> ()
  "x.y"() {1 = 2} : () -> ()
  "x.y"() {a = ,} : () -> ()
  "x.y"() {a = #stablehlo<precision [>} : () -> ()
  "x.y"() {a = #stablehlo<()>} : () -> ()
  "x.y"() {a = array<>} : () -> ()
  "x.y"() {a = array<i64: b>} : () -> ()
  stablehlo.slice %x [0] : (tensor<2xf32>) -> tensor<2xf32>
  stablehlo.slice %x [a:b] : (tensor<2xf32>) -> tensor<2xf32>
  stablehlo.convolution(%x, %x) dim_numbers = [b, (f)]x[i]->[f] : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.call "f"(%x) : () -> ()
  x.y ; : () -> ()
  x.y : () -> () loc(;)
  x.y : () -> () loc("a":b)
  stablehlo.reduce(%x, %x) : () -> ()
  stablehlo.while(%a = %x) : tensor<2xf32>, tensor<2xf32> cond {} do {}
  "x.y"() ({ x.z : () -> () } : () -> ()
  return %x : tensor<2xf32>
}
//> 2:25 error: expected `:` and the types of the operation | found `%`
//> 4:3 error: expected `:` and the types of the operation | found `%`
//> 4:6 error: expected `=` | found `stablehlo.add`
//> 5:5 error: expected the name of a value | found `=`
//> 6:9 error: expected a value such as `%0` | found `x`
//> 7:12 error: expected the name of an attribute | found `1`
//> 8:16 error: expected an attribute value | found `,`
//> 9:37 error: expected the value of an enum | found `[`
//> 10:27 error: expected a word | found `(`
//> 11:22 error: expected the element type of the array | found `>`
//> 12:27 error: expected an integer | found `b`
//> 13:24 error: expected `:` | found `]`
//> 14:23 error: expected an integer | found `a`
//> 15:51 error: expected a dimension such as `b`, `f` or `0` | found `(`
//> 16:3 error: `func.call` needs the attribute `callee` | missing
//> 17:7 error: expected an operand, an attribute or `:` | found `;`
//> 18:22 error: expected a location | found `;`
//> 19:26 error: expected an integer | found `b`
//> 20:22 error: expected `init` | found `,`
//> 21:3 error: `stablehlo.while` needs one type per value | 1 value and 2 types
//> 22:14 warning: unknown op `x.z` | kept whole on each device
//> 22:31 error: expected `)` | found `:`

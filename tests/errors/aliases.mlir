#twice = 1
#twice = 2
#empty =
#cycle = [#cycle]
#number = 3
func.func @main() {
  x.y {a = #missing} : () -> ()
  x.y {a = #cycle} : () -> ()
  x.y : () -> () loc(#number)
  return
}
//> 2:1 error: alias `#twice` is defined twice | defined again
//> 4:1 error: expected the value of the alias on the same line | found `#`
//> 4:10 error: attributes nested deeper than 64 | or an alias that contains itself
//> 5:11 error: expected a location such as `loc("name")` | found `3`
//> 7:12 error: `#missing` is not defined | used here

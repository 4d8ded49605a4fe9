#a = loc("a"(#b))
#b = loc("b"(#a))
func.func @main() {
  return loc(#a)
}
//> 1:10 error: locations nested deeper than 200 | or an alias that contains itself

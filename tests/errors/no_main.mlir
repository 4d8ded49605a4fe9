func.func @first() { return }
func.func @second() { return }
//> 2:1 error: no function `main` | one of several public functions | hint: name the function `main`, or make all others `private`

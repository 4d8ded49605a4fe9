func.func @main() { return }
func.func @main() { return }
//> 2:1 error: function `@main` is defined twice | defined again

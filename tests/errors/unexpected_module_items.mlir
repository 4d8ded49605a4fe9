hello world
func.func main() { return }
func.func @main() { return }
} 
//> 1:1 error: expected a module or a function | found `hello`
//> 2:11 error: expected a symbol such as `@main` | found `main`
//> 4:1 error: expected a module or a function | found `}`

func.func private @first() { return }
//> 1:1 error: no function `main` | the text has no public function | hint: name the function `main`, or make all others `private`

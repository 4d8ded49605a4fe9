module @empty {
}
//> 1:1 error: no function `main` | the text has no public function | hint: name the function `main`, or make all others `private`

func.func @main(%x: tensor<2xf32, #x<) {
  return
}
//> 1:21 error: tensor type without an end | this `<` has no `>`

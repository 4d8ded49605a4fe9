func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @missing(%x) : (tensor<f32>) -> tensor<f32>
  %1 = call @declared(%x) : (tensor<f32>) -> tensor<f32>
  %2 = call @f() : () -> tensor<f32>
  %3:2 = call @f(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %4 = call @main(%x) : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func private @declared(tensor<f32>) -> tensor<f32>
//> 2:8 error: call of an unknown function `@missing` | not defined in this module
//> 3:8 error: call of function `@declared`, which has no body | only declared in this module
//> 4:8 error: call does not fit function `@f` | `@f` takes (`tensor<f32>`), the call says ()
//> 5:10 error: call does not fit function `@f` | `@f` returns (`tensor<f32>`), the call says (`tensor<f32>`, `tensor<f32>`)
//> 6:8 error: `@main` calls itself | recursion is not supported | hint: use `stablehlo.while`

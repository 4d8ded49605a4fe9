func.func private @a(%x: tuple<tensor<f32>>) { return }
func.func private @b(%x: memref<2xf32>) { return }
func.func private @c(%x: !alias) { return }
func.func private @d(%x: !quant.any<i8>) { return }
func.func private @e(%x: tensor<2x!quant.uniform<i8:f32, 1.0>>) { return }
func.func private @f(%x: tensor<2x!other>) { return }
func.func private @g(%x: tensor<2xf31>) { return }
func.func private @h(%x: tensor<complex<i32>>) { return }
func.func private @i(%x: tensor<complex<>>) { return }
func.func private @j(%x: f32) { return }
func.func private @k(%x: tensor<2>) { return }
func.func private @l(%x: tensor<>) { return }
func.func private @n(%x: tensor<-1xf32>) { return }
//> 1:26 error: type `tuple` is not supported | expected a tensor or a token
//> 2:26 error: type `memref` is not supported | expected a tensor or a token
//> 3:26 error: type `!alias` is not supported | expected a tensor or a token | hint: write the type out where its alias stands
//> 4:26 error: type `!quant.any` is not supported | expected a tensor or a token
//> 5:35 error: quantized types are not supported | expected a type such as `f32`, `bf16` or `i32`
//> 6:35 error: unknown element type | expected a type such as `f32`, `bf16` or `i32`
//> 7:35 error: unknown element type `f31` | expected a type such as `f32`, `bf16` or `i32`
//> 8:33 error: unknown element type | expected `complex<f32>` or `complex<f64>`
//> 9:41 error: expected `f32` or `f64` | found `>`
//> 10:26 error: expected a tensor type such as `tensor<2x3xf32>` | found `f32`
//> 11:34 error: expected `x` after the size of a dimension | found `>`
//> 12:33 error: expected an element type such as `f32` | found `>`
//> 13:33 error: expected an element type such as `f32` | found `-`

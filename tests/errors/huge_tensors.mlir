func.func private @a(%x: tensor<4294967296x4294967296xf32>) { return }
func.func private @b(%x: tensor<9223372036854775807xf32>) { return }
func.func private @c(%x: tensor<0x1152921504606846977xf32>) { return }
func.func private @d(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) { return }
//> 1:26 error: `tensor<4294967296x4294967296xf32>` has more elements than 63 bits can count | too large
//> 2:26 error: `tensor<9223372036854775807xf32>` has more elements than 63 bits can count | too large
//> 3:26 error: the dimensions of `tensor<0x1152921504606846977xf32>` multiply to more than 2^60 | too large
//> 4:26 error: tensor has more than 64 dimensions | too many

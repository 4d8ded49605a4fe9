func.func @main(%x: tensor<4x6x3xf32>, %f: tensor<3xf32>, %matrix: tensor<4x5x5xf32>, %right: tensor<4x5x2xf32>, %state: tensor<2xui64>,
                %z: tensor<4x8xcomplex<f32>>)
    -> (tensor<4x6x3xf32>, tensor<4x6x3xf32>, tensor<4x6x3xf32>, tensor<4x5x5xf32>, tensor<4x5x2xf32>, tensor<4x6xui32>,
        tensor<4x8xcomplex<f32>>) {
  %trained, %mean, %variance = "stablehlo.batch_norm_training"(%x, %f, %f) <{epsilon = 0.1 : f32, feature_index = 2 : i64}>
    : (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %inferred = "stablehlo.batch_norm_inference"(%x, %f, %f, %f, %f) <{epsilon = 0.1 : f32, feature_index = 2 : i64}>
    : (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x6x3xf32>
  %gradient, %scale, %offset = "stablehlo.batch_norm_grad"(%x, %f, %f, %f, %x) <{epsilon = 0.1 : f32, feature_index = 2 : i64}>
    : (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x6x3xf32>) -> (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %root = stablehlo.cholesky %matrix, lower = true : tensor<4x5x5xf32>
  %solution = "stablehlo.triangular_solve"(%matrix, %right) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>,
    unit_diagonal = false}> : (tensor<4x5x5xf32>, tensor<4x5x2xf32>) -> tensor<4x5x2xf32>
  %next, %bits = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x6xui32>)
  %spectrum = stablehlo.fft %z, type = FFT, length = [8] : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
  return %trained, %inferred, %gradient, %root, %solution, %bits, %spectrum
    : tensor<4x6x3xf32>, tensor<4x6x3xf32>, tensor<4x6x3xf32>, tensor<4x5x5xf32>, tensor<4x5x2xf32>, tensor<4x6xui32>, tensor<4x8xcomplex<f32>>
}
//> stablehlo.batch_norm_training ([_, _, i], [i], [i]) -> ([_, _, i], [i], [i]) {i=3}
//> stablehlo.batch_norm_inference ([i, j, k], [k], [k], [k], [k]) -> ([i, j, k]) {i=4, j=6, k=3}
//> stablehlo.batch_norm_grad ([_, _, i], [i], [i], [i], [_, _, i]) -> ([_, _, i], [i], [i]) {i=3}
//> stablehlo.cholesky ([i, _, _]) -> ([i, _, _]) {i=4}
//> stablehlo.triangular_solve ([i, _, _], [i, _, j]) -> ([i, _, j]) {i=4, j=2}
//>   carries sum {1}
//> stablehlo.rng_bit_generator ([_]) -> ([_], [_, _])
//> stablehlo.fft ([i, _]) -> ([i, _]) {i=4}

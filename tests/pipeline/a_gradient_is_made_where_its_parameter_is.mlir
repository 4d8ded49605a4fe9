// What is before a norm needs the gradient of its bias too, which alone does not tell whose it is.
// mesh: data=1
//| [[tactic]]
//| stages = [["layers.0"], ["layers.1", "loss"]]
func.func @main(%w0: tensor<4x4xf32> loc("params.w0"), %b0: tensor<4xf32> loc("params.b0"), %w1: tensor<4x4xf32> loc("params.w1"), %x: tensor<8x4xf32> loc("batch.x"), %y: tensor<8x4xf32> loc("batch.y")) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %count = stablehlo.constant dense<8.0> : tensor<4xf32>
  %p0 = stablehlo.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.0/dot")
  %t0 = stablehlo.reduce(%p0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32> loc("layers.0/sum")
  %m0 = stablehlo.divide %t0, %count : tensor<4xf32> loc("layers.0/mean")
  %n0 = stablehlo.broadcast_in_dim %m0, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32> loc("layers.0/mean")
  %c0 = stablehlo.subtract %p0, %n0 : tensor<8x4xf32> loc("layers.0/norm")
  %v0 = stablehlo.broadcast_in_dim %b0, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32> loc("layers.0/bias")
  %a0 = stablehlo.add %c0, %v0 : tensor<8x4xf32> loc("layers.0/bias")
  %h1 = stablehlo.tanh %a0 : tensor<8x4xf32> loc("layers.1/tanh")
  %a1 = stablehlo.dot_general %h1, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/dot")
  %e = stablehlo.subtract %a1, %y : tensor<8x4xf32> loc("loss/subtract")
  %s = stablehlo.multiply %e, %e : tensor<8x4xf32> loc("loss/multiply")
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32> loc("loss/sum")
  %g1 = stablehlo.dot_general %h1, %e, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.1/weights")
  %d1 = stablehlo.dot_general %e, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/inputs")
  %q1 = stablehlo.multiply %d1, %h1 : tensor<8x4xf32> loc("layers.1/gradient")
  %gb = stablehlo.reduce(%q1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32> loc("layers.0/of_bias")
  %gm = stablehlo.divide %gb, %count : tensor<4xf32> loc("layers.0/of_mean")
  %gn = stablehlo.broadcast_in_dim %gm, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32> loc("layers.0/of_mean")
  %gc = stablehlo.subtract %q1, %gn : tensor<8x4xf32> loc("layers.0/of_norm")
  %g0 = stablehlo.dot_general %x, %gc, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.0/weights")
  %uw0 = stablehlo.subtract %w0, %g0 : tensor<4x4xf32> loc("update/subtract")
  %ub0 = stablehlo.subtract %b0, %gb : tensor<4xf32> loc("update/subtract")
  %uw1 = stablehlo.subtract %w1, %g1 : tensor<4x4xf32> loc("update/subtract")
  return %uw0, %ub0, %uw1, %loss, %gb : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<4xf32>
}
//> stage 0
//>   run prepare chunk 0
//>   run forward chunk 0 microbatch 0
//>   free `layers/0/bias %15` tensor<8x4xf32>
//>   send `layers/0/bias %16` tensor<8x4xf32> microbatch 0 to stage 1
//>   free `layers/0/bias %16` tensor<8x4xf32> microbatch 0
//>   receive `layers/1/gradient %27` tensor<8x4xf32> microbatch 0 from stage 1
//>   run backward chunk 0 microbatch 0
//>   free `layers/1/gradient %27` tensor<8x4xf32> microbatch 0
//>   accumulate `layers/0/weights %35` tensor<4x4xf32> microbatch 0
//>   free `layers/0/weights %35` tensor<4x4xf32> microbatch 0
//>   accumulate `layers/0/of_bias %28` tensor<4xf32> microbatch 0
//>   free `layers/0/of_bias %28` tensor<4xf32> microbatch 0
//>   run update chunk 0
//>   free `layers/0/of_bias %28` tensor<4xf32>
//>   free `layers/0/weights %35` tensor<4x4xf32>
//> stage 1
//>   receive `layers/0/bias %16` tensor<8x4xf32> microbatch 0 from stage 0
//>   run forward chunk 1 microbatch 0
//>   free `layers/0/bias %16` tensor<8x4xf32> microbatch 0
//>   accumulate `loss/sum %21` tensor<f32> microbatch 0
//>   free `loss/sum %21` tensor<f32> microbatch 0
//>   run backward chunk 1 microbatch 0
//>   free `layers/1/tanh %17` tensor<8x4xf32> microbatch 0
//>   free `loss/subtract %19` tensor<8x4xf32> microbatch 0
//>   send `layers/1/gradient %27` tensor<8x4xf32> microbatch 0 to stage 0
//>   free `layers/1/gradient %27` tensor<8x4xf32> microbatch 0
//>   accumulate `layers/1/weights %25` tensor<4x4xf32> microbatch 0
//>   free `layers/1/weights %25` tensor<4x4xf32> microbatch 0
//>   run update chunk 1
//>   free `loss/sum %21` tensor<f32>
//>   free `layers/1/weights %25` tensor<4x4xf32>

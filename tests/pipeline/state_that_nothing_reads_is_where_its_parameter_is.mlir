// Some optimizers count steps and read the counts nowhere, so that names alone tell whose they are.
// show: held
// mesh: data=1
//| [[tactic]]
//| stages = [["layers.0"], ["layers.1", "loss"]]
func.func @main(%w0: tensor<4x4xf32> loc("params.w0"), %w1: tensor<4x4xf32> loc("params.w1"), %s0: tensor<f32> loc("opt.step.w0"), %s1: tensor<f32> loc("opt.step.w1"), %x: tensor<8x4xf32> loc("batch.x"), %y: tensor<8x4xf32> loc("batch.y")) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %h1 = stablehlo.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.0/dot")
  %a1 = stablehlo.dot_general %h1, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/dot")
  %e = stablehlo.subtract %a1, %y : tensor<8x4xf32> loc("loss/subtract")
  %s = stablehlo.multiply %e, %e : tensor<8x4xf32> loc("loss/multiply")
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32> loc("loss/sum")
  %g1 = stablehlo.dot_general %h1, %e, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.1/weights")
  %d1 = stablehlo.dot_general %e, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/inputs")
  %g0 = stablehlo.dot_general %x, %d1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.0/weights")
  %uw0 = stablehlo.subtract %w0, %g0 : tensor<4x4xf32> loc("update/subtract")
  %uw1 = stablehlo.subtract %w1, %g1 : tensor<4x4xf32> loc("update/subtract")
  %us0 = stablehlo.add %s0, %one : tensor<f32> loc("update/count")
  %us1 = stablehlo.add %s1, %one : tensor<f32> loc("update/count")
  return %uw0, %uw1, %us0, %us1, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f32>
}
//> stage 0 `layers/0/dot %8` tensor<8x4xf32> [{}, {}]
//> stage 0 `layers/0/weights %18` tensor<4x4xf32> [{}, {}]
//> stage 0 `update/subtract %19` tensor<4x4xf32> [{}, {}]
//> stage 0 `update/count %21` tensor<f32> []
//> stage 1 `loss/subtract %10` tensor<8x4xf32> [{}, {}]
//> stage 1 `loss/sum %12` tensor<f32> []
//> stage 1 `layers/1/inputs %17` tensor<8x4xf32> [{}, {}]
//> stage 1 `layers/1/weights %16` tensor<4x4xf32> [{}, {}]
//> stage 1 `update/subtract %20` tensor<4x4xf32> [{}, {}]
//> stage 1 `update/count %22` tensor<f32> []
//> stage 1 `loss/sum %12` tensor<f32> []
//> stage 0 `params.w0` tensor<4x4xf32> [{}, {}]
//> stage 0 `batch.x` tensor<8x4xf32> [{}, {}]
//> stage 0 `layers/1/inputs %17` tensor<8x4xf32> [{}, {}]
//> stage 0 `layers/0/weights %18` tensor<4x4xf32> [{}, {}]
//> stage 0 `opt.step.w0` tensor<f32> []
//> stage 1 `params.w1` tensor<4x4xf32> [{}, {}]
//> stage 1 `layers/0/dot %8` tensor<8x4xf32> [{}, {}]
//> stage 1 `batch.y` tensor<8x4xf32> [{}, {}]
//> stage 1 `layers/1/weights %16` tensor<4x4xf32> [{}, {}]
//> stage 1 `opt.step.w1` tensor<f32> []
//> stage 1 `loss/sum %12` tensor<f32> []
//> stage 0
//>   run forward chunk 0 microbatch 0
//>   send `layers/0/dot %8` tensor<8x4xf32> microbatch 0 to stage 1
//>   free `layers/0/dot %8` tensor<8x4xf32> microbatch 0
//>   receive `layers/1/inputs %17` tensor<8x4xf32> microbatch 0 from stage 1
//>   run backward chunk 0 microbatch 0
//>   free `layers/1/inputs %17` tensor<8x4xf32> microbatch 0
//>   accumulate `layers/0/weights %18` tensor<4x4xf32> microbatch 0
//>   free `layers/0/weights %18` tensor<4x4xf32> microbatch 0
//>   run update chunk 0
//>   free `layers/0/weights %18` tensor<4x4xf32>
//> stage 1
//>   receive `layers/0/dot %8` tensor<8x4xf32> microbatch 0 from stage 0
//>   run forward chunk 1 microbatch 0
//>   accumulate `loss/sum %12` tensor<f32> microbatch 0
//>   free `loss/sum %12` tensor<f32> microbatch 0
//>   run backward chunk 1 microbatch 0
//>   free `layers/0/dot %8` tensor<8x4xf32> microbatch 0
//>   free `loss/subtract %10` tensor<8x4xf32> microbatch 0
//>   send `layers/1/inputs %17` tensor<8x4xf32> microbatch 0 to stage 0
//>   free `layers/1/inputs %17` tensor<8x4xf32> microbatch 0
//>   accumulate `layers/1/weights %16` tensor<4x4xf32> microbatch 0
//>   free `layers/1/weights %16` tensor<4x4xf32> microbatch 0
//>   run update chunk 1
//>   free `loss/sum %12` tensor<f32>
//>   free `layers/1/weights %16` tensor<4x4xf32>

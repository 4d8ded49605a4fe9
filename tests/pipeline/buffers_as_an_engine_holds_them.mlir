// An engine that knows whole values only holds arguments and results as they are stored, and everything else as the parts
// of all devices one behind the other: the gradients are sums that are not finished, which have no whole.
// show: held
// mesh: data=2,model=2,micro=2@time
//| [[tactic]]
//| axis = "data"
//| preset = "data"
//| [[tactic]]
//| axis = "model"
//| tile = { "params.w0" = 1 }
//| [[tactic]]
//| axis = "micro"
//| tile = { "batch.**" = 0 }
//| [[tactic]]
//| stages = 2
func.func @main(%w0: tensor<4x4xf32> loc("params.w0"), %w1: tensor<4x4xf32> loc("params.w1"), %x: tensor<8x4xf32> loc("batch.x"), %y: tensor<8x4xf32> loc("batch.y")) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p0 = stablehlo.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.0/dot")
  %a0 = stablehlo.tanh %p0 : tensor<8x4xf32> loc("layers.0/tanh")
  %p1 = stablehlo.dot_general %a0, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/dot")
  %a1 = stablehlo.tanh %p1 : tensor<8x4xf32> loc("layers.1/tanh")
  %e = stablehlo.subtract %a1, %y : tensor<8x4xf32> loc("loss/subtract")
  %s = stablehlo.multiply %e, %e : tensor<8x4xf32> loc("loss/multiply")
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
  %q1 = stablehlo.multiply %a1, %a1 : tensor<8x4xf32>
  %r1 = stablehlo.subtract %one, %q1 : tensor<8x4xf32>
  %h1 = stablehlo.multiply %e, %r1 : tensor<8x4xf32> loc("layers.1/gradient")
  %g1 = stablehlo.dot_general %a0, %h1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.1/weights")
  %d1 = stablehlo.dot_general %h1, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/inputs")
  %q0 = stablehlo.multiply %a0, %a0 : tensor<8x4xf32>
  %r0 = stablehlo.subtract %one, %q0 : tensor<8x4xf32>
  %h0 = stablehlo.multiply %d1, %r0 : tensor<8x4xf32> loc("layers.0/gradient")
  %g0 = stablehlo.dot_general %x, %h0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.0/weights")
  %uw0 = stablehlo.subtract %w0, %g0 : tensor<4x4xf32> loc("update/subtract")
  %uw1 = stablehlo.subtract %w1, %g1 : tensor<4x4xf32> loc("update/subtract")
  return %uw0, %uw1, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
//> stage 0 `layers/0/tanh %6` tensor<2x2xf32> [{data,model}, {}]
//> stage 0 `layers/0/weights %24` tensor<4x2xf32> [{data,model}, {}]
//> stage 0 `update/subtract %25` tensor<4x2xf32> [{}, {model}]
//> stage 1 `layers/1/tanh %8` tensor<2x4xf32> [{data,model}, {}]
//> stage 1 `loss/subtract %9` tensor<2x4xf32> [{data,model}, {}]
//> stage 1 `%11` tensor<f32> []
//> stage 1 `%21` tensor<2x2xf32> [{data,model}, {}]
//> stage 1 `layers/1/inputs %20` tensor<2x2xf32> [{data,model}, {}]
//> stage 1 `layers/1/weights %19` tensor<2x4xf32> [{data,model}, {}]
//> stage 1 `update/subtract %26` tensor<2x4xf32> [{model}, {}]
//> stage 1 `%11` tensor<f32> []
//> stage 0 `params.w0` tensor<4x2xf32> [{}, {model}]
//> stage 0 `batch.x` tensor<2x4xf32> [{data}, {}]
//> stage 0 `%21` tensor<2x2xf32> [{data,model}, {}]
//> stage 0 `layers/1/inputs %20` tensor<2x2xf32> [{data,model}, {}]
//> stage 0 `layers/0/weights %24` tensor<4x2xf32> [{data,model}, {}]
//> stage 1 `params.w1` tensor<2x4xf32> [{model}, {}]
//> stage 1 `layers/0/tanh %6` tensor<2x2xf32> [{data,model}, {}]
//> stage 1 `batch.y` tensor<2x4xf32> [{data}, {}]
//> stage 1 `layers/1/weights %19` tensor<2x4xf32> [{data,model}, {}]
//> stage 1 `%11` tensor<f32> []
//> stage 0
//>   run forward chunk 0 microbatch 0
//>   send `layers/0/tanh %6` tensor<2x2xf32> microbatch 0 to stage 1
//>   free `layers/0/tanh %6` tensor<2x2xf32> microbatch 0
//>   run forward chunk 0 microbatch 1
//>   send `layers/0/tanh %6` tensor<2x2xf32> microbatch 1 to stage 1
//>   free `layers/0/tanh %6` tensor<2x2xf32> microbatch 1
//>   receive `%21` tensor<2x2xf32> microbatch 0 from stage 1
//>   receive `layers/1/inputs %20` tensor<2x2xf32> microbatch 0 from stage 1
//>   run backward chunk 0 microbatch 0
//>   free `layers/1/inputs %20` tensor<2x2xf32> microbatch 0
//>   free `%21` tensor<2x2xf32> microbatch 0
//>   accumulate `layers/0/weights %24` tensor<4x2xf32> microbatch 0
//>   free `layers/0/weights %24` tensor<4x2xf32> microbatch 0
//>   receive `%21` tensor<2x2xf32> microbatch 1 from stage 1
//>   receive `layers/1/inputs %20` tensor<2x2xf32> microbatch 1 from stage 1
//>   run backward chunk 0 microbatch 1
//>   free `layers/1/inputs %20` tensor<2x2xf32> microbatch 1
//>   free `%21` tensor<2x2xf32> microbatch 1
//>   accumulate `layers/0/weights %24` tensor<4x2xf32> microbatch 1
//>   free `layers/0/weights %24` tensor<4x2xf32> microbatch 1
//>   run update chunk 0
//>   free `layers/0/weights %24` tensor<4x2xf32>
//> stage 1
//>   receive `layers/0/tanh %6` tensor<2x2xf32> microbatch 0 from stage 0
//>   run forward chunk 1 microbatch 0
//>   accumulate `%11` tensor<f32> microbatch 0
//>   free `%11` tensor<f32> microbatch 0
//>   run backward chunk 1 microbatch 0
//>   free `layers/0/tanh %6` tensor<2x2xf32> microbatch 0
//>   free `loss/subtract %9` tensor<2x4xf32> microbatch 0
//>   free `layers/1/tanh %8` tensor<2x4xf32> microbatch 0
//>   send `%21` tensor<2x2xf32> microbatch 0 to stage 0
//>   free `%21` tensor<2x2xf32> microbatch 0
//>   send `layers/1/inputs %20` tensor<2x2xf32> microbatch 0 to stage 0
//>   free `layers/1/inputs %20` tensor<2x2xf32> microbatch 0
//>   accumulate `layers/1/weights %19` tensor<2x4xf32> microbatch 0
//>   free `layers/1/weights %19` tensor<2x4xf32> microbatch 0
//>   receive `layers/0/tanh %6` tensor<2x2xf32> microbatch 1 from stage 0
//>   run forward chunk 1 microbatch 1
//>   accumulate `%11` tensor<f32> microbatch 1
//>   free `%11` tensor<f32> microbatch 1
//>   run backward chunk 1 microbatch 1
//>   free `layers/0/tanh %6` tensor<2x2xf32> microbatch 1
//>   free `loss/subtract %9` tensor<2x4xf32> microbatch 1
//>   free `layers/1/tanh %8` tensor<2x4xf32> microbatch 1
//>   send `%21` tensor<2x2xf32> microbatch 1 to stage 0
//>   free `%21` tensor<2x2xf32> microbatch 1
//>   send `layers/1/inputs %20` tensor<2x2xf32> microbatch 1 to stage 0
//>   free `layers/1/inputs %20` tensor<2x2xf32> microbatch 1
//>   accumulate `layers/1/weights %19` tensor<2x4xf32> microbatch 1
//>   free `layers/1/weights %19` tensor<2x4xf32> microbatch 1
//>   run update chunk 1
//>   free `%11` tensor<f32>
//>   free `layers/1/weights %19` tensor<2x4xf32>

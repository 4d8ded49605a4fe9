// mesh: micro=2@time
//| [[tactic]]
//| axis = "micro"
//| tile = { "batch.**" = 0 }
//| [[tactic]]
//| stages = 2
//| schedule = "interleaved"
//| chunks = 2
func.func @main(%w0: tensor<4x4xf32> loc("params.w0"), %w1: tensor<4x4xf32> loc("params.w1"), %w2: tensor<4x4xf32> loc("params.w2"), %w3: tensor<4x4xf32> loc("params.w3"), %x: tensor<8x4xf32> loc("batch.x"), %y: tensor<8x4xf32> loc("batch.y")) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p0 = stablehlo.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.0/dot")
  %a0 = stablehlo.tanh %p0 : tensor<8x4xf32> loc("layers.0/tanh")
  %p1 = stablehlo.dot_general %a0, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/dot")
  %a1 = stablehlo.tanh %p1 : tensor<8x4xf32> loc("layers.1/tanh")
  %p2 = stablehlo.dot_general %a1, %w2, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.2/dot")
  %a2 = stablehlo.tanh %p2 : tensor<8x4xf32> loc("layers.2/tanh")
  %p3 = stablehlo.dot_general %a2, %w3, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.3/dot")
  %a3 = stablehlo.tanh %p3 : tensor<8x4xf32> loc("layers.3/tanh")
  %e = stablehlo.subtract %a3, %y : tensor<8x4xf32> loc("loss/subtract")
  %s = stablehlo.multiply %e, %e : tensor<8x4xf32> loc("loss/multiply")
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
  %q3 = stablehlo.multiply %a3, %a3 : tensor<8x4xf32>
  %r3 = stablehlo.subtract %one, %q3 : tensor<8x4xf32>
  %h3 = stablehlo.multiply %e, %r3 : tensor<8x4xf32> loc("layers.3/gradient")
  %g3 = stablehlo.dot_general %a2, %h3, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.3/weights")
  %d3 = stablehlo.dot_general %h3, %w3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.3/inputs")
  %q2 = stablehlo.multiply %a2, %a2 : tensor<8x4xf32>
  %r2 = stablehlo.subtract %one, %q2 : tensor<8x4xf32>
  %h2 = stablehlo.multiply %d3, %r2 : tensor<8x4xf32> loc("layers.2/gradient")
  %g2 = stablehlo.dot_general %a1, %h2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.2/weights")
  %d2 = stablehlo.dot_general %h2, %w2, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.2/inputs")
  %q1 = stablehlo.multiply %a1, %a1 : tensor<8x4xf32>
  %r1 = stablehlo.subtract %one, %q1 : tensor<8x4xf32>
  %h1 = stablehlo.multiply %d2, %r1 : tensor<8x4xf32> loc("layers.1/gradient")
  %g1 = stablehlo.dot_general %a0, %h1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.1/weights")
  %d1 = stablehlo.dot_general %h1, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/inputs")
  %q0 = stablehlo.multiply %a0, %a0 : tensor<8x4xf32>
  %r0 = stablehlo.subtract %one, %q0 : tensor<8x4xf32>
  %h0 = stablehlo.multiply %d1, %r0 : tensor<8x4xf32> loc("layers.0/gradient")
  %g0 = stablehlo.dot_general %x, %h0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.0/weights")
  %uw0 = stablehlo.subtract %w0, %g0 : tensor<4x4xf32> loc("update/subtract")
  %uw1 = stablehlo.subtract %w1, %g1 : tensor<4x4xf32> loc("update/subtract")
  %uw2 = stablehlo.subtract %w2, %g2 : tensor<4x4xf32> loc("update/subtract")
  %uw3 = stablehlo.subtract %w3, %g3 : tensor<4x4xf32> loc("update/subtract")
  return %uw0, %uw1, %uw2, %uw3, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
//> stage 0
//>   run forward chunk 0 microbatch 0
//>   send `layers/0/tanh %8` tensor<4x4xf32> microbatch 0 to stage 1
//>   free `layers/0/tanh %8` tensor<4x4xf32> microbatch 0
//>   run forward chunk 0 microbatch 1
//>   send `layers/0/tanh %8` tensor<4x4xf32> microbatch 1 to stage 1
//>   free `layers/0/tanh %8` tensor<4x4xf32> microbatch 1
//>   receive `layers/1/tanh %10` tensor<4x4xf32> microbatch 0 from stage 1
//>   run forward chunk 2 microbatch 0
//>   send `layers/2/tanh %12` tensor<4x4xf32> microbatch 0 to stage 1
//>   free `layers/2/tanh %12` tensor<4x4xf32> microbatch 0
//>   receive `layers/1/tanh %10` tensor<4x4xf32> microbatch 1 from stage 1
//>   run forward chunk 2 microbatch 1
//>   send `layers/2/tanh %12` tensor<4x4xf32> microbatch 1 to stage 1
//>   free `layers/2/tanh %12` tensor<4x4xf32> microbatch 1
//>   receive `layers/2/gradient %29` tensor<4x4xf32> microbatch 0 from stage 1
//>   run backward chunk 2 microbatch 0
//>   free `layers/1/tanh %10` tensor<4x4xf32> microbatch 0
//>   free `layers/2/gradient %29` tensor<4x4xf32> microbatch 0
//>   send `layers/1/gradient %34` tensor<4x4xf32> microbatch 0 to stage 1
//>   free `layers/1/gradient %34` tensor<4x4xf32> microbatch 0
//>   accumulate `layers/2/weights %30` tensor<4x4xf32> microbatch 0
//>   free `layers/2/weights %30` tensor<4x4xf32> microbatch 0
//>   receive `layers/2/gradient %29` tensor<4x4xf32> microbatch 1 from stage 1
//>   run backward chunk 2 microbatch 1
//>   free `layers/1/tanh %10` tensor<4x4xf32> microbatch 1
//>   free `layers/2/gradient %29` tensor<4x4xf32> microbatch 1
//>   send `layers/1/gradient %34` tensor<4x4xf32> microbatch 1 to stage 1
//>   free `layers/1/gradient %34` tensor<4x4xf32> microbatch 1
//>   accumulate `layers/2/weights %30` tensor<4x4xf32> microbatch 1
//>   free `layers/2/weights %30` tensor<4x4xf32> microbatch 1
//>   receive `%37` tensor<4x4xf32> microbatch 0 from stage 1
//>   receive `layers/1/inputs %36` tensor<4x4xf32> microbatch 0 from stage 1
//>   run backward chunk 0 microbatch 0
//>   free `layers/1/inputs %36` tensor<4x4xf32> microbatch 0
//>   free `%37` tensor<4x4xf32> microbatch 0
//>   accumulate `layers/0/weights %40` tensor<4x4xf32> microbatch 0
//>   free `layers/0/weights %40` tensor<4x4xf32> microbatch 0
//>   receive `%37` tensor<4x4xf32> microbatch 1 from stage 1
//>   receive `layers/1/inputs %36` tensor<4x4xf32> microbatch 1 from stage 1
//>   run backward chunk 0 microbatch 1
//>   free `layers/1/inputs %36` tensor<4x4xf32> microbatch 1
//>   free `%37` tensor<4x4xf32> microbatch 1
//>   accumulate `layers/0/weights %40` tensor<4x4xf32> microbatch 1
//>   free `layers/0/weights %40` tensor<4x4xf32> microbatch 1
//>   run update chunk 0
//>   free `layers/0/weights %40` tensor<4x4xf32>
//>   run update chunk 2
//>   free `layers/2/weights %30` tensor<4x4xf32>
//> stage 1
//>   receive `layers/0/tanh %8` tensor<4x4xf32> microbatch 0 from stage 0
//>   run forward chunk 1 microbatch 0
//>   send `layers/1/tanh %10` tensor<4x4xf32> microbatch 0 to stage 0
//>   free `layers/1/tanh %10` tensor<4x4xf32> microbatch 0
//>   receive `layers/0/tanh %8` tensor<4x4xf32> microbatch 1 from stage 0
//>   run forward chunk 1 microbatch 1
//>   send `layers/1/tanh %10` tensor<4x4xf32> microbatch 1 to stage 0
//>   free `layers/1/tanh %10` tensor<4x4xf32> microbatch 1
//>   receive `layers/2/tanh %12` tensor<4x4xf32> microbatch 0 from stage 0
//>   run forward chunk 3 microbatch 0
//>   accumulate `%17` tensor<f32> microbatch 0
//>   free `%17` tensor<f32> microbatch 0
//>   receive `layers/2/tanh %12` tensor<4x4xf32> microbatch 1 from stage 0
//>   run forward chunk 3 microbatch 1
//>   accumulate `%17` tensor<f32> microbatch 1
//>   free `%17` tensor<f32> microbatch 1
//>   run backward chunk 3 microbatch 0
//>   free `layers/2/tanh %12` tensor<4x4xf32> microbatch 0
//>   free `loss/subtract %15` tensor<4x4xf32> microbatch 0
//>   free `layers/3/tanh %14` tensor<4x4xf32> microbatch 0
//>   send `layers/2/gradient %29` tensor<4x4xf32> microbatch 0 to stage 0
//>   free `layers/2/gradient %29` tensor<4x4xf32> microbatch 0
//>   accumulate `layers/3/weights %25` tensor<4x4xf32> microbatch 0
//>   free `layers/3/weights %25` tensor<4x4xf32> microbatch 0
//>   run backward chunk 3 microbatch 1
//>   free `layers/2/tanh %12` tensor<4x4xf32> microbatch 1
//>   free `loss/subtract %15` tensor<4x4xf32> microbatch 1
//>   free `layers/3/tanh %14` tensor<4x4xf32> microbatch 1
//>   send `layers/2/gradient %29` tensor<4x4xf32> microbatch 1 to stage 0
//>   free `layers/2/gradient %29` tensor<4x4xf32> microbatch 1
//>   accumulate `layers/3/weights %25` tensor<4x4xf32> microbatch 1
//>   free `layers/3/weights %25` tensor<4x4xf32> microbatch 1
//>   receive `layers/1/gradient %34` tensor<4x4xf32> microbatch 0 from stage 0
//>   run backward chunk 1 microbatch 0
//>   free `layers/0/tanh %8` tensor<4x4xf32> microbatch 0
//>   free `layers/1/gradient %34` tensor<4x4xf32> microbatch 0
//>   send `%37` tensor<4x4xf32> microbatch 0 to stage 0
//>   free `%37` tensor<4x4xf32> microbatch 0
//>   send `layers/1/inputs %36` tensor<4x4xf32> microbatch 0 to stage 0
//>   free `layers/1/inputs %36` tensor<4x4xf32> microbatch 0
//>   accumulate `layers/1/weights %35` tensor<4x4xf32> microbatch 0
//>   free `layers/1/weights %35` tensor<4x4xf32> microbatch 0
//>   receive `layers/1/gradient %34` tensor<4x4xf32> microbatch 1 from stage 0
//>   run backward chunk 1 microbatch 1
//>   free `layers/0/tanh %8` tensor<4x4xf32> microbatch 1
//>   free `layers/1/gradient %34` tensor<4x4xf32> microbatch 1
//>   send `%37` tensor<4x4xf32> microbatch 1 to stage 0
//>   free `%37` tensor<4x4xf32> microbatch 1
//>   send `layers/1/inputs %36` tensor<4x4xf32> microbatch 1 to stage 0
//>   free `layers/1/inputs %36` tensor<4x4xf32> microbatch 1
//>   accumulate `layers/1/weights %35` tensor<4x4xf32> microbatch 1
//>   free `layers/1/weights %35` tensor<4x4xf32> microbatch 1
//>   run update chunk 1
//>   free `layers/1/weights %35` tensor<4x4xf32>
//>   run update chunk 3
//>   free `%17` tensor<f32>
//>   free `layers/3/weights %25` tensor<4x4xf32>

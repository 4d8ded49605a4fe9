// mesh: data=1
// show: pieces
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
  // The first stage alone has what this gradient is made of, and reads the weights of the second for it.
  %m1 = stablehlo.multiply %h1, %p0 : tensor<8x4xf32> loc("layers.1/masked")
  %d1 = stablehlo.dot_general %m1, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/inputs")
  %q0 = stablehlo.multiply %a0, %a0 : tensor<8x4xf32>
  %r0 = stablehlo.subtract %one, %q0 : tensor<8x4xf32>
  %h0 = stablehlo.multiply %d1, %r0 : tensor<8x4xf32> loc("layers.0/gradient")
  %g0 = stablehlo.dot_general %x, %h0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.0/weights")
  %uw0 = stablehlo.subtract %w0, %g0 : tensor<4x4xf32> loc("update/subtract")
  %uw1 = stablehlo.subtract %w1, %g1 : tensor<4x4xf32> loc("update/subtract")
  return %uw0, %uw1, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
//> forward chunk 0
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
//>     %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
//>     %3 = stablehlo.tanh %2 : tensor<8x4xf32>
//>     return %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>
//>   }
//> }
//> 
//> backward chunk 0
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<8x4xf32>, %1: tensor<8x4xf32>, %2: tensor<4x4xf32>, %3: tensor<8x4xf32>, %4: tensor<8x4xf32>) -> (tensor<4x4xf32>) {
//>     %5 = stablehlo.multiply %1, %0 : tensor<8x4xf32>
//>     %6 = stablehlo.dot_general %5, %2, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
//>     %7 = stablehlo.constant dense<1.0> : tensor<8x4xf32>
//>     %8 = stablehlo.subtract %7, %3 : tensor<8x4xf32>
//>     %9 = stablehlo.multiply %6, %8 : tensor<8x4xf32>
//>     %10 = stablehlo.dot_general %4, %9, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
//>     return %10 : tensor<4x4xf32>
//>   }
//> }
//> 
//> update chunk 0
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
//>     %2 = stablehlo.subtract %1, %0 : tensor<4x4xf32>
//>     return %2 : tensor<4x4xf32>
//>   }
//> }
//> 
//> update chunk 0.1
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
//>     %2 = stablehlo.subtract %1, %0 : tensor<4x4xf32>
//>     return %2 : tensor<4x4xf32>
//>   }
//> }
//> 
//> forward chunk 1
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<8x4xf32>, %2: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) {
//>     %3 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
//>     %4 = stablehlo.tanh %3 : tensor<8x4xf32>
//>     %5 = stablehlo.subtract %4, %2 : tensor<8x4xf32>
//>     %6 = stablehlo.multiply %5, %5 : tensor<8x4xf32>
//>     %7 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
//>     return %4, %5, %8 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>
//>   }
//> }
//> 
//> backward chunk 1
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<8x4xf32>, %1: tensor<8x4xf32>, %2: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>) {
//>     %3 = stablehlo.multiply %0, %0 : tensor<8x4xf32>
//>     %4 = stablehlo.constant dense<1.0> : tensor<8x4xf32>
//>     %5 = stablehlo.subtract %4, %3 : tensor<8x4xf32>
//>     %6 = stablehlo.multiply %1, %5 : tensor<8x4xf32>
//>     %7 = stablehlo.dot_general %2, %6, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
//>     %8 = stablehlo.multiply %2, %2 : tensor<8x4xf32>
//>     return %6, %8, %7 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>
//>   }
//> }
//> 
//> update chunk 1
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>, %2: tensor<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
//>     %3 = stablehlo.subtract %1, %0 : tensor<4x4xf32>
//>     return %0, %3, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
//>   }
//> }
//> 
//> stage 0
//>   run forward chunk 0 microbatch 0
//>   send `layers/0/tanh %6` tensor<8x4xf32> microbatch 0 to stage 1
//>   free `layers/0/tanh %6` tensor<8x4xf32> microbatch 0
//>   receive `layers/1/gradient %18` tensor<8x4xf32> microbatch 0 from stage 1
//>   receive `%22` tensor<8x4xf32> microbatch 0 from stage 1
//>   run backward chunk 0 microbatch 0
//>   free `%22` tensor<8x4xf32> microbatch 0
//>   free `layers/1/gradient %18` tensor<8x4xf32> microbatch 0
//>   free `layers/0/dot %5` tensor<8x4xf32> microbatch 0
//>   accumulate `layers/0/weights %25` tensor<4x4xf32> microbatch 0
//>   free `layers/0/weights %25` tensor<4x4xf32> microbatch 0
//>   run update chunk 0
//>   free `layers/0/weights %25` tensor<4x4xf32>
//>   receive `layers/1/weights %19` tensor<4x4xf32> from stage 1
//>   run update chunk 0.1
//>   free `layers/1/weights %19` tensor<4x4xf32>
//> stage 1
//>   receive `layers/0/tanh %6` tensor<8x4xf32> microbatch 0 from stage 0
//>   run forward chunk 1 microbatch 0
//>   accumulate `%11` tensor<f32> microbatch 0
//>   free `%11` tensor<f32> microbatch 0
//>   run backward chunk 1 microbatch 0
//>   free `layers/0/tanh %6` tensor<8x4xf32> microbatch 0
//>   free `loss/subtract %9` tensor<8x4xf32> microbatch 0
//>   free `layers/1/tanh %8` tensor<8x4xf32> microbatch 0
//>   send `layers/1/gradient %18` tensor<8x4xf32> microbatch 0 to stage 0
//>   free `layers/1/gradient %18` tensor<8x4xf32> microbatch 0
//>   send `%22` tensor<8x4xf32> microbatch 0 to stage 0
//>   free `%22` tensor<8x4xf32> microbatch 0
//>   accumulate `layers/1/weights %19` tensor<4x4xf32> microbatch 0
//>   free `layers/1/weights %19` tensor<4x4xf32> microbatch 0
//>   run update chunk 1
//>   free `%11` tensor<f32>
//>   free `layers/1/weights %19` tensor<4x4xf32>
//>   send `layers/1/weights %19` tensor<4x4xf32> to stage 0
//>   free `layers/1/weights %19` tensor<4x4xf32>

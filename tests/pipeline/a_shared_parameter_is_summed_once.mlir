// mesh: data=2,micro=2@time
// show: pieces
//| [[tactic]]
//| axis = "data"
//| tile = { "batch.**" = 0 }
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
  %p2 = stablehlo.dot_general %a1, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.2/dot")
  %a2 = stablehlo.tanh %p2 : tensor<8x4xf32> loc("layers.2/tanh")
  %e = stablehlo.subtract %a2, %y : tensor<8x4xf32> loc("loss/subtract")
  %s = stablehlo.multiply %e, %e : tensor<8x4xf32> loc("loss/multiply")
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
  %q2 = stablehlo.multiply %a2, %a2 : tensor<8x4xf32>
  %r2 = stablehlo.subtract %one, %q2 : tensor<8x4xf32>
  %h2 = stablehlo.multiply %e, %r2 : tensor<8x4xf32> loc("layers.2/gradient")
  %g2 = stablehlo.dot_general %a1, %h2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.2/weights")
  %d2 = stablehlo.dot_general %h2, %w0, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.2/inputs")
  %q1 = stablehlo.multiply %a1, %a1 : tensor<8x4xf32>
  %r1 = stablehlo.subtract %one, %q1 : tensor<8x4xf32>
  %h1 = stablehlo.multiply %d2, %r1 : tensor<8x4xf32> loc("layers.1/gradient")
  %g1 = stablehlo.dot_general %a0, %h1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.1/weights")
  %d1 = stablehlo.dot_general %h1, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layers.1/inputs")
  %q0 = stablehlo.multiply %a0, %a0 : tensor<8x4xf32>
  %r0 = stablehlo.subtract %one, %q0 : tensor<8x4xf32>
  %h0 = stablehlo.multiply %d1, %r0 : tensor<8x4xf32> loc("layers.0/gradient")
  %g0 = stablehlo.dot_general %x, %h0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layers.0/weights")
  %tw0 = stablehlo.add %g2, %g0 : tensor<4x4xf32> loc("tied/add")
  %uw0 = stablehlo.subtract %w0, %tw0 : tensor<4x4xf32> loc("update/subtract")
  %uw1 = stablehlo.subtract %w1, %g1 : tensor<4x4xf32> loc("update/subtract")
  return %uw0, %uw1, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
//> forward chunk 0
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<2x4xf32>, %2: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
//>     %3 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
//>     %4 = stablehlo.tanh %3 : tensor<2x4xf32>
//>     %5 = stablehlo.dot_general %4, %2, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
//>     %6 = stablehlo.tanh %5 : tensor<2x4xf32>
//>     return %4, %6 : tensor<2x4xf32>, tensor<2x4xf32>
//>   }
//> }
//> 
//> backward chunk 0
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4xf32>, %1: tensor<2x4xf32>, %2: tensor<4x4xf32>, %3: tensor<2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
//>     %4 = stablehlo.dot_general %1, %0, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
//>     %5 = stablehlo.dot_general %0, %2, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
//>     %6 = stablehlo.multiply %1, %1 : tensor<2x4xf32>
//>     %7 = stablehlo.constant dense<1.0> : tensor<2x4xf32>
//>     %8 = stablehlo.subtract %7, %6 : tensor<2x4xf32>
//>     %9 = stablehlo.multiply %5, %8 : tensor<2x4xf32>
//>     %10 = stablehlo.dot_general %3, %9, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
//>     return %4, %10 : tensor<4x4xf32>, tensor<4x4xf32>
//>   }
//> }
//> 
//> update chunk 0
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>, %2: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
//>     %3 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%4: tensor<f32>, %5: tensor<f32>):
//>       %6 = stablehlo.add %4, %5 : tensor<f32>
//>       stablehlo.return %6 : tensor<f32>
//>     }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
//>     %7 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%8: tensor<f32>, %9: tensor<f32>):
//>       %10 = stablehlo.add %8, %9 : tensor<f32>
//>       stablehlo.return %10 : tensor<f32>
//>     }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
//>     %11 = stablehlo.subtract %1, %3 : tensor<4x4xf32>
//>     return %7, %11 : tensor<4x4xf32>, tensor<4x4xf32>
//>   }
//> }
//> 
//> update chunk 0.1
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>, %2: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
//>     %3 = stablehlo.add %1, %0 : tensor<4x4xf32>
//>     %4 = stablehlo.subtract %2, %3 : tensor<4x4xf32>
//>     return %4 : tensor<4x4xf32>
//>   }
//> }
//> 
//> forward chunk 1
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<2x4xf32>, %2: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>) {
//>     %3 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
//>     %4 = stablehlo.tanh %3 : tensor<2x4xf32>
//>     %5 = stablehlo.subtract %4, %2 : tensor<2x4xf32>
//>     %6 = stablehlo.multiply %5, %5 : tensor<2x4xf32>
//>     %7 = stablehlo.constant dense<0.0> : tensor<f32>
//>     %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
//>     return %4, %5, %8 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>
//>   }
//> }
//> 
//> backward chunk 1
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<2x4xf32>, %1: tensor<2x4xf32>, %2: tensor<2x4xf32>, %3: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<4x4xf32>) {
//>     %4 = stablehlo.multiply %0, %0 : tensor<2x4xf32>
//>     %5 = stablehlo.constant dense<1.0> : tensor<2x4xf32>
//>     %6 = stablehlo.subtract %5, %4 : tensor<2x4xf32>
//>     %7 = stablehlo.multiply %1, %6 : tensor<2x4xf32>
//>     %8 = stablehlo.dot_general %2, %7, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
//>     %9 = stablehlo.dot_general %7, %3, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
//>     %10 = stablehlo.multiply %2, %2 : tensor<2x4xf32>
//>     %11 = stablehlo.subtract %5, %10 : tensor<2x4xf32>
//>     %12 = stablehlo.multiply %9, %11 : tensor<2x4xf32>
//>     return %12, %8 : tensor<2x4xf32>, tensor<4x4xf32>
//>   }
//> }
//> 
//> update chunk 1
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>) {
//>     %2 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%3: tensor<f32>, %4: tensor<f32>):
//>       %5 = stablehlo.add %3, %4 : tensor<f32>
//>       stablehlo.return %5 : tensor<f32>
//>     }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
//>     %6 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//>     ^bb0(%7: tensor<f32>, %8: tensor<f32>):
//>       %9 = stablehlo.add %7, %8 : tensor<f32>
//>       stablehlo.return %9 : tensor<f32>
//>     }) : (tensor<f32>) -> tensor<f32>
//>     return %2, %6 : tensor<4x4xf32>, tensor<f32>
//>   }
//> }
//> 
//> update chunk 1.1
//> module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>, %2: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
//>     %3 = stablehlo.add %1, %0 : tensor<4x4xf32>
//>     %4 = stablehlo.subtract %2, %3 : tensor<4x4xf32>
//>     return %4 : tensor<4x4xf32>
//>   }
//> }
//> 
//> stage 0
//>   run forward chunk 0 microbatch 0
//>   send `layers/1/tanh %8` tensor<2x4xf32> microbatch 0 to stage 1
//>   free `layers/1/tanh %8` tensor<2x4xf32> microbatch 0
//>   run forward chunk 0 microbatch 1
//>   send `layers/1/tanh %8` tensor<2x4xf32> microbatch 1 to stage 1
//>   free `layers/1/tanh %8` tensor<2x4xf32> microbatch 1
//>   receive `layers/1/gradient %25` tensor<2x4xf32> microbatch 0 from stage 1
//>   run backward chunk 0 microbatch 0
//>   free `layers/0/tanh %6` tensor<2x4xf32> microbatch 0
//>   free `layers/1/gradient %25` tensor<2x4xf32> microbatch 0
//>   accumulate `layers/1/weights %26` tensor<4x4xf32> microbatch 0
//>   free `layers/1/weights %26` tensor<4x4xf32> microbatch 0
//>   accumulate `layers/0/weights %31` tensor<4x4xf32> microbatch 0
//>   free `layers/0/weights %31` tensor<4x4xf32> microbatch 0
//>   receive `layers/1/gradient %25` tensor<2x4xf32> microbatch 1 from stage 1
//>   run backward chunk 0 microbatch 1
//>   free `layers/0/tanh %6` tensor<2x4xf32> microbatch 1
//>   free `layers/1/gradient %25` tensor<2x4xf32> microbatch 1
//>   accumulate `layers/1/weights %26` tensor<4x4xf32> microbatch 1
//>   free `layers/1/weights %26` tensor<4x4xf32> microbatch 1
//>   accumulate `layers/0/weights %31` tensor<4x4xf32> microbatch 1
//>   free `layers/0/weights %31` tensor<4x4xf32> microbatch 1
//>   run update chunk 0
//>   free `layers/0/weights %31` tensor<4x4xf32>
//>   free `layers/1/weights %26` tensor<4x4xf32>
//>   send `layers/0/weights %31` tensor<4x4xf32> to stage 1
//>   receive `layers/2/weights %21` tensor<4x4xf32> from stage 1
//>   run update chunk 0.1
//>   free `layers/2/weights %21` tensor<4x4xf32>
//>   free `layers/0/weights %31` tensor<4x4xf32>
//> stage 1
//>   receive `layers/1/tanh %8` tensor<2x4xf32> microbatch 0 from stage 0
//>   run forward chunk 1 microbatch 0
//>   accumulate `%13` tensor<f32> microbatch 0
//>   free `%13` tensor<f32> microbatch 0
//>   run backward chunk 1 microbatch 0
//>   free `layers/1/tanh %8` tensor<2x4xf32> microbatch 0
//>   free `loss/subtract %11` tensor<2x4xf32> microbatch 0
//>   free `layers/2/tanh %10` tensor<2x4xf32> microbatch 0
//>   send `layers/1/gradient %25` tensor<2x4xf32> microbatch 0 to stage 0
//>   free `layers/1/gradient %25` tensor<2x4xf32> microbatch 0
//>   accumulate `layers/2/weights %21` tensor<4x4xf32> microbatch 0
//>   free `layers/2/weights %21` tensor<4x4xf32> microbatch 0
//>   receive `layers/1/tanh %8` tensor<2x4xf32> microbatch 1 from stage 0
//>   run forward chunk 1 microbatch 1
//>   accumulate `%13` tensor<f32> microbatch 1
//>   free `%13` tensor<f32> microbatch 1
//>   run backward chunk 1 microbatch 1
//>   free `layers/1/tanh %8` tensor<2x4xf32> microbatch 1
//>   free `loss/subtract %11` tensor<2x4xf32> microbatch 1
//>   free `layers/2/tanh %10` tensor<2x4xf32> microbatch 1
//>   send `layers/1/gradient %25` tensor<2x4xf32> microbatch 1 to stage 0
//>   free `layers/1/gradient %25` tensor<2x4xf32> microbatch 1
//>   accumulate `layers/2/weights %21` tensor<4x4xf32> microbatch 1
//>   free `layers/2/weights %21` tensor<4x4xf32> microbatch 1
//>   run update chunk 1
//>   free `%13` tensor<f32>
//>   free `layers/2/weights %21` tensor<4x4xf32>
//>   send `layers/2/weights %21` tensor<4x4xf32> to stage 0
//>   receive `layers/0/weights %31` tensor<4x4xf32> from stage 0
//>   run update chunk 1.1
//>   free `layers/2/weights %21` tensor<4x4xf32>
//>   free `layers/0/weights %31` tensor<4x4xf32>

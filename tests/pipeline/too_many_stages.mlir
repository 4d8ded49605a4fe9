// mesh: data=1
//| [[tactic]]
//| stages = 5
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
//> error: the model cannot be cut into 5 chunks: there are too few layers
//> hint: at its finest it has 2 pieces; ask for fewer stages, or fewer `chunks` on each

// Every pretty form once; tests break it in every way they can think of.
#loc = loc(unknown)
#loc1 = loc("params['w']")
module @gallery attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> {tf.aliasing_output = 0 : i32} loc(#loc1), %arg1: tensor<8x8xf32> {jax.buffer_donor = true} loc("params['b'][0]"), %arg2: tensor<4xi32> loc(#loc)) -> (tensor<4x8xf32> {jax.result_info = "result[0]['w']"}, tensor<f32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc)
    %c = stablehlo.constant dense<0> : tensor<i32> loc(#loc)
    %c2 = stablehlo.constant dense<1> : tensor<i32> loc(#loc)
    %0 = stablehlo.constant dense<[[1, 2], [3, -4]]> : tensor<2x2xi64> loc(#loc2)
    %1 = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32> loc(#loc3)
    %2 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc(#loc4)
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32> loc(#loc4)
    %4 = stablehlo.compare GT, %2, %3, FLOAT : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1> loc(#loc4)
    %5 = stablehlo.select %4, %2, %3 : tensor<4x8xi1>, tensor<4x8xf32> loc(#loc4)
    %6 = stablehlo.reduce(%5 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc4)
    %7:2 = stablehlo.reduce(%6 init: %cst), (%arg2 init: %c) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%p: tensor<f32> loc(#loc), %q: tensor<f32> loc(#loc)) (%r: tensor<i32> loc(#loc), %s: tensor<i32> loc(#loc))  {
      %m = stablehlo.maximum %p, %q : tensor<f32> loc(#loc)
      %n = stablehlo.add %r, %s : tensor<i32> loc(#loc)
      stablehlo.return %m, %n : tensor<f32>, tensor<i32> loc(#loc)
    } loc(#loc4)
    %8 = stablehlo.transpose %5, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %9 = stablehlo.slice %8 [0:8:2, 1:3] : (tensor<8x4xf32>) -> tensor<4x2xf32>
    %10 = stablehlo.pad %9, %cst, low = [1, 0], high = [0, -1], interior = [2, 0] : (tensor<4x2xf32>, tensor<f32>) -> tensor<11x1xf32>
    %11 = stablehlo.concatenate %8, %8, dim = 0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %12 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %13 = stablehlo.dynamic_slice %11, %7#1, %7#1, sizes = [1, 4] : (tensor<16x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x4xf32>) -> tensor<4x1x1xf32>
    %15 = stablehlo.reverse %14, dims = [0] : tensor<4x1x1xf32>
    %16 = stablehlo.convert %15 : (tensor<4x1x1xf32>) -> tensor<4x1x1xbf16>
    %17 = stablehlo.reduce_precision %15, format = e5m10 : tensor<4x1x1xf32>
    %18 = stablehlo.clamp %cst, %17, %cst : (tensor<f32>, tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x1xf32>
    %19 = stablehlo.constant dense<1.000000e+00> : tensor<1x8x8x3xf32>
    %20 = stablehlo.constant dense<2.000000e+00> : tensor<3x3x3x16xf32>
    %21 = stablehlo.convolution(%19, %20) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x4x4x16xf32>
    %22 = stablehlo.custom_call @my.call(%21) {backend_config = "a\22b", api_version = 2 : i32, meshwright.rule = "(i j k l) -> (i j k l)", x.map = #x.map<(a) -> {b}>, x.list = [1, "two", @three, {four = 4}]} : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
    stablehlo.custom_call @check.expect_close(%22, %22) {has_side_effect = true, max_ulp_difference = 5 : i64} : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> ()
    %23:3 = stablehlo.while(%iter = %c, %acc = %5, %old = %arg1) : tensor<i32>, tensor<4x8xf32>, tensor<8x8xf32>
     cond {
      %t = stablehlo.compare LT, %iter, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %t = func.call @double(%acc) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("call")
      %u = stablehlo.add %iter, %c2 : tensor<i32>
      stablehlo.return %u, %t, %old : tensor<i32>, tensor<4x8xf32>, tensor<8x8xf32>
    }
    %24 = chlo.erf %5 : tensor<4x8xf32> -> tensor<4x8xf32>
    %values, %indices = chlo.top_k(%24, k = 3) : tensor<4x8xf32> -> (tensor<4x3xf32>, tensor<4x3xi32>)
    %25 = stablehlo.constant dense<(1.0, 2.5)> : tensor<2xcomplex<f32>>
    %26 = stablehlo.fft %25, type = FFT, length = [2] : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
    %27 = stablehlo.cholesky %arg1, lower = true : tensor<8x8xf32>
    %28 = stablehlo.constant dense<7> : tensor<2xui64>
    %29, %30 = stablehlo.rng_bit_generator %28, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %shape = stablehlo.constant dense<3> : tensor<1xi64>
    %31 = stablehlo.rng %cst, %cst, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
    %32:2 = stablehlo.optimization_barrier %27, %24 : tensor<8x8xf32>, tensor<4x8xf32>
    %33 = stablehlo.subtract %32#1, %23#1 : tensor<4x8xf32>
    %34 = stablehlo.after_all : !stablehlo.token
    x.keep %16, %10, %indices, %26, %30, %12, %1, %31, %18, %34 {a = 1 : i64, b, c = dense<[true, false]> : tensor<2xi1>} : (tensor<4x1x1xbf16>, tensor<11x1xf32>, tensor<4x3xi32>, tensor<2xcomplex<f32>>, tensor<4xui32>, tensor<2x3xi32>, tensor<2xf32>, tensor<3xf32>, tensor<4x1x1xf32>, !stablehlo.token) -> ()
    return %33, %7#0 : tensor<4x8xf32>, tensor<f32>
  } loc(#loc)
  func.func private @double(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %y = stablehlo.add %x, %x : tensor<4x8xf32> loc("add"(callsite("f"("a.py":1:2) at "b.py":3:4)))
    return %y : tensor<4x8xf32>
  }
} loc(#loc)
#loc2 = loc("a.py":10:4 to :20)
#loc3 = loc(fused<"x">["jit(step)/b", #loc2])
#loc4 = loc("jit(step)/layer0/dot"(#loc2))

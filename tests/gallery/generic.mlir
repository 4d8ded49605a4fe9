// Every op whose attributes need the generic form; tests break it in every way they can think of.
#groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
"builtin.module"() <{sym_name = "generic"}> ({
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 1 : i32}, {}, {jax.buffer_donor = true}], function_type = (tensor<4x8xf32>, tensor<i32>, tensor<1x9x9x2xf32>) -> (tensor<f32>, tensor<4x8xf32>), res_attrs = [{jax.result_info = "loss"}, {}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x8xf32> loc("w"), %arg1: tensor<i32>, %arg2: tensor<1x9x9x2xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.constant"() <{value = dense<[[0], [1], [0]]> : tensor<3x1xi32>}> : () -> tensor<3x1xi32>
    %17 = "stablehlo.constant"() <{value = dense<0.5> : tensor<16xf32>}> : () -> tensor<16xf32>
    %19 = "stablehlo.constant"() <{value = dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
    %d = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %21 = "stablehlo.constant"() <{value = dense<0x3F800000> : tensor<3x3x1x4xf32>}> : () -> tensor<3x3x1x4xf32>
    %30 = "stablehlo.after_all"() : () -> !stablehlo.token
    %1 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #groups, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<4x16xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %3 = "stablehlo.reduce_scatter"(%2) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) : (tensor<4x16xf32>) -> tensor<4x8xf32>
    %4 = "stablehlo.all_to_all"(%3) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4x8xf32>) -> tensor<2x16xf32>
    %5 = "stablehlo.collective_permute"(%4) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<2x16xf32>) -> tensor<2x16xf32>
    %6 = "stablehlo.collective_broadcast"(%5) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x16xf32>) -> tensor<2x16xf32>
    %7 = "stablehlo.gather"(%6, %8) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<2x16xf32>, tensor<3x1xi32>) -> tensor<3x16xf32>
    %9 = "stablehlo.scatter"(%6, %8, %7) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      "stablehlo.return"(%b) : (tensor<f32>) -> ()
    }) : (tensor<2x16xf32>, tensor<3x1xi32>, tensor<3x16xf32>) -> tensor<2x16xf32>
    %10 = "stablehlo.reduce_window"(%arg2, %0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) : (tensor<1x9x9x2xf32>, tensor<f32>) -> tensor<1x5x5x2xf32>
    %11 = "stablehlo.select_and_scatter"(%arg2, %10, %0) <{padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.compare"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%c) : (tensor<i1>) -> ()
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) : (tensor<1x9x9x2xf32>, tensor<1x5x5x2xf32>, tensor<f32>) -> tensor<1x9x9x2xf32>
    %12:2 = "stablehlo.sort"(%9, %9) <{dimension = -1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %g: tensor<f32>, %e: tensor<f32>):
      %c = "stablehlo.compare"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%c) : (tensor<i1>) -> ()
    }) : (tensor<2x16xf32>, tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
    %13 = "stablehlo.case"(%arg1) ({
      "stablehlo.return"(%12#0) : (tensor<2x16xf32>) -> ()
    }, {
      "stablehlo.return"(%12#1) : (tensor<2x16xf32>) -> ()
    }) : (tensor<i32>) -> tensor<2x16xf32>
    %14:2 = "stablehlo.while"(%arg1, %13) ({
    ^bb0(%a: tensor<i32>, %b: tensor<2x16xf32>):
      %c = "stablehlo.compare"(%a, %a) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%c) : (tensor<i1>) -> ()
    }, {
    ^bb0(%a: tensor<i32>, %b: tensor<2x16xf32>):
      %c = "stablehlo.if"(%d) ({
        "stablehlo.return"(%b) : (tensor<2x16xf32>) -> ()
      }, {
        %f = "func.call"(%b) <{callee = @halve}> : (tensor<2x16xf32>) -> tensor<2x16xf32>
        "stablehlo.return"(%f) : (tensor<2x16xf32>) -> ()
      }) : (tensor<i1>) -> tensor<2x16xf32>
      "stablehlo.return"(%a, %c) : (tensor<i32>, tensor<2x16xf32>) -> ()
    }) : (tensor<i32>, tensor<2x16xf32>) -> (tensor<i32>, tensor<2x16xf32>)
    %15 = "stablehlo.map"(%14#1) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>):
      "stablehlo.return"(%a) : (tensor<f32>) -> ()
    }) : (tensor<2x16xf32>) -> tensor<2x16xf32>
    %16 = "stablehlo.batch_norm_inference"(%15, %17, %17, %17, %17) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<2x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
    %18 = "stablehlo.triangular_solve"(%19, %16) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x2xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
    %20 = "stablehlo.convolution"(%arg2, %21) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<1> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: false, false>, window_strides = array<i64: 1, 1>}> : (tensor<1x9x9x2xf32>, tensor<3x3x1x4xf32>) -> tensor<1x7x9x4xf32>
    %22 = "stablehlo.dot_general"(%18, %18) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2xf32>
    %23 = "stablehlo.slice"(%22) <{limit_indices = array<i64: 2>, start_indices = array<i64: 0>, strides = array<i64: 2>}> : (tensor<2xf32>) -> tensor<1xf32>
    %24 = "stablehlo.pad"(%23, %0) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 2>, interior_padding = array<i64: 3>}> : (tensor<1xf32>, tensor<f32>) -> tensor<4xf32>
    %25 = "stablehlo.dynamic_slice"(%24, %arg1) <{slice_sizes = array<i64: 2>}> : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
    %26 = "stablehlo.dynamic_update_slice"(%24, %25, %arg1) : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
    %27 = "stablehlo.reduce_precision"(%26) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<4xf32>) -> tensor<4xf32>
    %28 = "stablehlo.reshape"(%27) : (tensor<4xf32>) -> tensor<2x2xf32>
    %29:2 = "stablehlo.infeed"(%30) <{infeed_config = "x", layout = [[0, 1], []]}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %31 = "stablehlo.send"(%29#0, %29#1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %32:2 = "stablehlo.recv"(%31) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %33 = "stablehlo.outfeed"(%32#0, %32#1) <{outfeed_config = "y"}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    "unknown.op"(%28, %11, %20, %33) ({
    ^bb0(%a: tensor<f32>):
      "unknown.yield"(%a) {groups = #groups, list = [#groups, 1]} : (tensor<f32>) -> ()
    }) {kept = "as it is"} : (tensor<2x2xf32>, tensor<1x9x9x2xf32>, tensor<1x7x9x4xf32>, !stablehlo.token) -> ()
    "func.return"(%0, %arg0) : (tensor<f32>, tensor<4x8xf32>) -> ()
  }) : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<2x16xf32>) -> tensor<2x16xf32>, sym_name = "halve", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<2x16xf32>):
    %0 = "stablehlo.multiply"(%arg0, %arg0) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
    "func.return"(%0) : (tensor<2x16xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)

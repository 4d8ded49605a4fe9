//! Ops that StableHLO itself prints in the generic form, and `while`.

use smallvec::smallvec;

use super::{OneOp, check, ty};
use crate::program::print::parts::DenseGroups;
use crate::program::{
    AllGather, AllToAll, BatchNorm, Collective, CollectivePermute, Direction, Feed, Gather, Op, Opaque, Order,
    ReduceScatter, Scatter, SelectAndScatter, Transfer, TransposeA, TriangularSolve, Window,
};

fn collective() -> Collective {
    Collective { groups: vec![vec![0, 1], vec![2, 3]].into(), channel: 0, global_ids: false }
}

fn channeled() -> Collective {
    Collective { channel: 7, global_ids: true, ..collective() }
}

#[test]
fn all_gather() {
    check(
        Op::AllGather(Box::new(AllGather { dim: 1, factor: 2, collective: channeled() })),
        &["4x4xf32", "4x4xf32"],
        &["4x8xf32", "4x8xf32"],
        r#"%2, %3 = "stablehlo.all_gather"(%0, %1) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)"#,
    );
}

#[test]
fn all_reduce() {
    OneOp::new(&["4xf32"]).sum("f32").check(
        Op::AllReduce(Box::new(collective())),
        &["4xf32"],
        r#"%4 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
^bb0(%1: tensor<f32>, %2: tensor<f32>):
  %3 = stablehlo.add %1, %2 : tensor<f32>
  stablehlo.return %3 : tensor<f32>
}) : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
    let uneven = Collective { groups: vec![vec![0, 1], vec![2]].into(), ..collective() };
    assert_eq!(DenseGroups(&uneven.groups).to_string(), "dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>");
    assert_eq!(DenseGroups(&[]).to_string(), "dense<> : tensor<0x0xi64>");
}

#[test]
fn all_to_all() {
    check(
        Op::AllToAll(Box::new(AllToAll { split_dim: 0, concat_dim: 1, split_count: 2, collective: collective() })),
        &["4x4xf32"],
        &["2x8xf32"],
        r#"%1 = "stablehlo.all_to_all"(%0) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4x4xf32>) -> tensor<2x8xf32>"#,
    );
}

#[test]
fn batch_norm() {
    let norm = BatchNorm { epsilon: 1e-5, feature_dim: 1 };
    let (image, feature) = ("2x4xf32", "4xf32");
    check(
        Op::BatchNormGrad(norm),
        &[image, feature, feature, feature, image],
        &[image, feature, feature],
        r#"%5, %6, %7 = "stablehlo.batch_norm_grad"(%0, %1, %2, %3, %4) <{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)"#,
    );
    check(
        Op::BatchNormInference(norm),
        &[image, feature, feature, feature, feature],
        &[image],
        r#"%5 = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) <{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>"#,
    );
    check(
        Op::BatchNormTraining(norm),
        &[image, feature, feature],
        &[image, feature, feature],
        r#"%3, %4, %5 = "stablehlo.batch_norm_training"(%0, %1, %2) <{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)"#,
    );
}

#[test]
fn case() {
    OneOp::new(&["i32", "4xf32"]).branch(&[1]).branch(&[1]).check_first(
        Op::Case,
        1,
        &["4xf32"],
        r#"%2 = "stablehlo.case"(%0) ({
  stablehlo.return %1 : tensor<4xf32>
}, {
  stablehlo.return %1 : tensor<4xf32>
}) : (tensor<i32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn collective_broadcast() {
    check(
        Op::CollectiveBroadcast(Box::new(collective())),
        &["4xf32"],
        &["4xf32"],
        r#"%1 = "stablehlo.collective_broadcast"(%0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn collective_permute() {
    check(
        Op::CollectivePermute(Box::new(CollectivePermute { pairs: vec![(0, 1), (1, 0)], channel: 3 })),
        &["4xf32"],
        &["4xf32"],
        r#"%1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
    check(
        Op::CollectivePermute(Box::new(CollectivePermute { pairs: Vec::new(), channel: 0 })),
        &["4xf32"],
        &["4xf32"],
        r#"%1 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn gather() {
    let gather = Gather {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![0],
        operand_batching_dims: smallvec![],
        start_indices_batching_dims: smallvec![],
        start_index_map: smallvec![0],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, 4],
        indices_are_sorted: false,
    };
    check(
        Op::Gather(Box::new(gather)),
        &["8x4xf32", "3x1xi32"],
        &["3x4xf32"],
        r#"%2 = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>"#,
    );
}

#[test]
fn if_of_two_branches() {
    OneOp::new(&["i1", "4xf32", "4xf32"]).branch(&[1, 2]).branch(&[2, 1]).check_first(
        Op::If,
        1,
        &["4xf32", "4xf32"],
        r#"%3, %4 = "stablehlo.if"(%0) ({
  stablehlo.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}, {
  stablehlo.return %2, %1 : tensor<4xf32>, tensor<4xf32>
}) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)"#,
    );
    OneOp::new(&["i1"]).branch(&[]).branch(&[]).check(
        Op::If,
        &[],
        "\"stablehlo.if\"(%0) ({\n  stablehlo.return\n}, {\n  stablehlo.return\n}) : (tensor<i1>) -> ()",
    );
}

#[test]
fn feeds_and_transfers() {
    check(
        Op::Infeed(Box::new(Feed { config: "a\"b".to_owned(), result_types: vec![ty("4xf32"), ty("token")] })),
        &["token"],
        &["4xf32", "token"],
        r#"%1, %2 = "stablehlo.infeed"(%0) <{infeed_config = "a\22b"}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)"#,
    );
    check(
        Op::Outfeed(Box::new(Feed { config: String::new(), result_types: vec![ty("token")] })),
        &["4xf32", "token"],
        &["token"],
        r#"%2 = "stablehlo.outfeed"(%0, %1) <{outfeed_config = ""}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token"#,
    );
    let transfer = |channel_type| {
        Box::new(Transfer { channel: 5, channel_type, is_host_transfer: true, result_types: vec![ty("token")] })
    };
    check(
        Op::Recv(transfer(3)),
        &["token"],
        &["4xf32", "token"],
        r#"%1, %2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)"#,
    );
    check(
        Op::Send(transfer(2)),
        &["4xf32", "token"],
        &["token"],
        r#"%2 = "stablehlo.send"(%0, %1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token"#,
    );
}

#[test]
fn map() {
    OneOp::new(&["4x3xf32", "4x3xf32"]).sum("f32").check(
        Op::Map,
        &["4x3xf32"],
        r#"%5 = "stablehlo.map"(%0, %1) <{dimensions = array<i64: 0, 1>}> ({
^bb0(%2: tensor<f32>, %3: tensor<f32>):
  %4 = stablehlo.add %2, %3 : tensor<f32>
  stablehlo.return %4 : tensor<f32>
}) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>"#,
    );
}

#[test]
fn opaque() {
    let opaque = Opaque {
        name: "stablehlo.dynamic_iota".to_owned(),
        result_types: vec![ty("4xf32")],
        attributes: vec![("iota_dimension".to_owned(), "0 : i64".to_owned())],
    };
    check(
        Op::Opaque(Box::new(opaque)),
        &["1xi64"],
        &["4xf32"],
        r#"%1 = "stablehlo.dynamic_iota"(%0) {iota_dimension = 0 : i64} : (tensor<1xi64>) -> tensor<4xf32>"#,
    );
}

#[test]
fn reduce_scatter() {
    OneOp::new(&["4x4xf32"]).sum("f32").check(
        Op::ReduceScatter(Box::new(ReduceScatter { dim: 0, factor: 2, collective: channeled() })),
        &["2x4xf32"],
        r#"%4 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
^bb0(%1: tensor<f32>, %2: tensor<f32>):
  %3 = stablehlo.add %1, %2 : tensor<f32>
  stablehlo.return %3 : tensor<f32>
}) : (tensor<4x4xf32>) -> tensor<2x4xf32>"#,
    );
}

#[test]
fn reduce_window() {
    let window = Window {
        sizes: smallvec![2, 1],
        strides: smallvec![2, 1],
        base_dilation: smallvec![1, 1],
        window_dilation: smallvec![1, 1],
        padding: smallvec![(0, 0), (1, 0)],
    };
    OneOp::new(&["4x4xf32", "f32"]).sum("f32").check(
        Op::ReduceWindow(Box::new(window)),
        &["2x5xf32"],
        r#"%5 = "stablehlo.reduce_window"(%0, %1) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
^bb0(%2: tensor<f32>, %3: tensor<f32>):
  %4 = stablehlo.add %2, %3 : tensor<f32>
  stablehlo.return %4 : tensor<f32>
}) : (tensor<4x4xf32>, tensor<f32>) -> tensor<2x5xf32>"#,
    );
}

#[test]
fn scatter() {
    let scatter = Scatter {
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        input_batching_dims: smallvec![],
        scatter_indices_batching_dims: smallvec![],
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: true,
    };
    OneOp::new(&["8x4xf32", "3x1xi32", "3x4xf32"]).sum("f32").check(
        Op::Scatter(Box::new(scatter)),
        &["8x4xf32"],
        r#"%6 = "stablehlo.scatter"(%0, %1, %2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
^bb0(%3: tensor<f32>, %4: tensor<f32>):
  %5 = stablehlo.add %3, %4 : tensor<f32>
  stablehlo.return %5 : tensor<f32>
}) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>"#,
    );
}

#[test]
fn select_and_scatter() {
    let greater = Op::Compare { direction: Direction::GreaterOrEqual, order: Order::Natural };
    let window = SelectAndScatter { window: smallvec![2], strides: smallvec![2], padding: smallvec![(0, 0)] };
    OneOp::new(&["4xf32", "2xf32", "f32"]).region(greater, &["f32", "f32"], "i1").sum("f32").check(
        Op::SelectAndScatter(Box::new(window)),
        &["4xf32"],
        r#"%9 = "stablehlo.select_and_scatter"(%0, %1, %2) <{padding = dense<[[0, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
^bb0(%3: tensor<f32>, %4: tensor<f32>):
  %5 = stablehlo.compare GE, %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %5 : tensor<i1>
}, {
^bb0(%6: tensor<f32>, %7: tensor<f32>):
  %8 = stablehlo.add %6, %7 : tensor<f32>
  stablehlo.return %8 : tensor<f32>
}) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn sort() {
    let less = Op::Compare { direction: Direction::Less, order: Order::TotalOrder };
    OneOp::new(&["4x3xf32", "4x3xi32"]).region(less, &["f32", "f32", "i32", "i32"], "i1").check(
        Op::Sort { dim: 1, stable: true },
        &["4x3xf32", "4x3xi32"],
        r#"%7, %8 = "stablehlo.sort"(%0, %1) <{dimension = 1 : i64, is_stable = true}> ({
^bb0(%2: tensor<f32>, %3: tensor<f32>, %4: tensor<i32>, %5: tensor<i32>):
  %6 = stablehlo.compare LT, %2, %3, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %6 : tensor<i1>
}) : (tensor<4x3xf32>, tensor<4x3xi32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)"#,
    );
}

#[test]
fn triangular_solve() {
    let solve =
        TriangularSolve { left_side: true, lower: false, unit_diagonal: false, transpose_a: TransposeA::Adjoint };
    check(
        Op::TriangularSolve(solve),
        &["4x4xf32", "4x2xf32"],
        &["4x2xf32"],
        r#"%2 = "stablehlo.triangular_solve"(%0, %1) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>"#,
    );
}

#[test]
fn while_loop() {
    let less = Op::Compare { direction: Direction::Less, order: Order::Signed };
    OneOp::new(&["i32", "i32"]).region(less, &["i32", "i32"], "i1").giving(&["i32", "i32"], &[1, 0]).check(
        Op::While,
        &["i32", "i32"],
        r#"%7, %8 = "stablehlo.while"(%0, %1) ({
^bb0(%2: tensor<i32>, %3: tensor<i32>):
  %4 = stablehlo.compare LT, %2, %3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %4 : tensor<i1>
}, {
^bb0(%5: tensor<i32>, %6: tensor<i32>):
  stablehlo.return %6, %5 : tensor<i32>, tensor<i32>
}) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)"#,
    );
}

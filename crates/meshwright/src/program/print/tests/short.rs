//! Ops that have a short form.

use std::sync::Arc;

use smallvec::smallvec;

use super::{OneOp, body_text, check, ty};
use crate::program::print::{AttentionForm, PrintOptions, print};
use crate::program::{
    Algorithm, Binary, BroadcastInDim, Check, Convolution, CustomCall, DType, Dims, Direction, Distribution,
    DotGeneral, FftKind, Location, Op, Order, Pad, Precision, Shape, Slice, Unary,
};

#[test]
fn after_all() {
    check(Op::AfterAll, &["token", "token"], &["token"], "%2 = stablehlo.after_all %0, %1 : !stablehlo.token");
    check(Op::AfterAll, &[], &["token"], "%0 = stablehlo.after_all  : !stablehlo.token");
}

#[test]
fn binary() {
    for &binary in Binary::ALL {
        let name = binary.name();
        let bits = matches!(
            binary,
            Binary::And
                | Binary::Or
                | Binary::ShiftLeft
                | Binary::ShiftRightArithmetic
                | Binary::ShiftRightLogical
                | Binary::Xor
        );
        let element = if bits { "4xi32" } else { "4xf32" };
        let tensor = format!("tensor<{element}>");
        let types = if name.starts_with("chlo.") { format!("{tensor}, {tensor} -> {tensor}") } else { tensor };
        check(Op::Binary(binary), &[element, element], &[element], &format!("%2 = {name} %0, %1 : {types}"));
    }
}

#[test]
fn bitcast_convert() {
    check(
        Op::BitcastConvert { dtype: DType::I32 },
        &["4xf32"],
        &["4xi32"],
        "%1 = stablehlo.bitcast_convert %0 : (tensor<4xf32>) -> tensor<4xi32>",
    );
}

#[test]
fn broadcast_in_dim() {
    let broadcast = |shape: &[usize], dims: &[usize]| {
        Op::BroadcastInDim(Box::new(BroadcastInDim { shape: Shape::from_slice(shape), dims: Dims::from_slice(dims) }))
    };
    check(
        broadcast(&[4, 2, 3], &[0, 2]),
        &["4x3xf32"],
        &["4x2x3xf32"],
        "%1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x2x3xf32>",
    );
    check(
        broadcast(&[4], &[]),
        &["f32"],
        &["4xf32"],
        "%1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4xf32>",
    );
}

#[test]
fn checks() {
    let operands = &["4xf32", "4xf32"];
    let check_text = |limits: &str, name: &str| {
        format!(
            "stablehlo.custom_call @check.{name}(%0, %1) {{has_side_effect = true{limits}}} : (tensor<4xf32>, tensor<4xf32>) -> ()"
        )
    };
    let close = |min_ulps, max_ulps| Op::Check(Check::Close { min_ulps, max_ulps });
    let almost = |tolerance| Op::Check(Check::AlmostEqual { tolerance });
    check(Op::Check(Check::Equal), operands, &[], &check_text("", "expect_eq"));
    check(close(0, 3), operands, &[], &check_text("", "expect_close"));
    check(
        close(1, 7),
        operands,
        &[],
        &check_text(", max_ulp_difference = 7 : i64, min_ulp_difference = 1 : i64", "expect_close"),
    );
    check(almost(1e-3), operands, &[], &check_text("", "expect_almost_eq"));
    check(almost(1e-6), operands, &[], &check_text(", tolerance = 1.0e-06 : f64", "expect_almost_eq"));
}

#[test]
fn cholesky() {
    let lower = Op::Cholesky { lower: true };
    check(lower, &["4x4xf32"], &["4x4xf32"], "%1 = stablehlo.cholesky %0, lower = true : tensor<4x4xf32>");
    let upper = Op::Cholesky { lower: false };
    check(upper, &["4x4xf32"], &["4x4xf32"], "%1 = stablehlo.cholesky %0 : tensor<4x4xf32>");
}

#[test]
fn clamp() {
    check(
        Op::Clamp,
        &["f32", "4xf32", "f32"],
        &["4xf32"],
        "%3 = stablehlo.clamp %0, %1, %2 : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
    );
    check(Op::Clamp, &["4xf32", "4xf32", "4xf32"], &["4xf32"], "%3 = stablehlo.clamp %0, %1, %2 : tensor<4xf32>");
}

#[test]
fn compare() {
    check(
        Op::Compare { direction: Direction::Less, order: Order::Natural },
        &["4xf32", "4xf32"],
        &["4xi1"],
        "%2 = stablehlo.compare LT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
    );
    check(
        Op::Compare { direction: Direction::NotEqual, order: Order::TotalOrder },
        &["4xf32", "4xf32"],
        &["4xi1"],
        "%2 = stablehlo.compare NE, %0, %1, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
    );
}

#[test]
fn complex() {
    check(
        Op::Complex,
        &["4xf32", "4xf32"],
        &["4xcomplex<f32>"],
        "%2 = stablehlo.complex %0, %1 : tensor<4xcomplex<f32>>",
    );
}

#[test]
fn concatenate() {
    check(
        Op::Concatenate { dim: 1 },
        &["4x2xf32", "4x3xf32"],
        &["4x5xf32"],
        "%2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>",
    );
}

#[test]
fn convert() {
    check(
        Op::Convert { dtype: DType::BF16 },
        &["4xf32"],
        &["4xbf16"],
        "%1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>",
    );
    check(Op::Convert { dtype: DType::F32 }, &["4xf32"], &["4xf32"], "%1 = stablehlo.convert %0 : tensor<4xf32>");
}

#[test]
fn convolution() {
    let convolution = Convolution {
        strides: smallvec![2, 1],
        padding: smallvec![(1, 0), (0, -1)],
        lhs_dilation: smallvec![1, 1],
        rhs_dilation: smallvec![1, 1],
        reversal: smallvec![false, true],
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: smallvec![0, 1],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2, 3],
        feature_groups: 1,
        batch_groups: 1,
        precision: smallvec![Precision::Default, Precision::Highest],
        dtype: DType::F32,
    };
    check(
        Op::Convolution(Box::new(convolution)),
        &["1x8x8x3xf32", "3x3x3x5xf32"],
        &["1x5x4x5xf32"],
        "%2 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, f, 0, 1], window = {stride = [2, 1], pad = [[1, 0], [0, -1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]} : (tensor<1x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<1x5x4x5xf32>",
    );
    let matrix_product = Convolution {
        strides: smallvec![],
        padding: smallvec![],
        lhs_dilation: smallvec![],
        rhs_dilation: smallvec![],
        reversal: smallvec![],
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![],
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        kernel_spatial: smallvec![],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![],
        feature_groups: 1,
        batch_groups: 1,
        precision: smallvec![],
        dtype: DType::F32,
    };
    check(
        Op::Convolution(Box::new(matrix_product)),
        &["2x3xf32", "3x4xf32"],
        &["2x4xf32"],
        "%2 = stablehlo.convolution(%0, %1) dim_numbers = [b, f]x[i, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
    );
}

#[test]
fn custom_call() {
    let call = CustomCall {
        target: "my kernel".to_owned(),
        has_side_effect: true,
        result_types: vec![ty("4xf32"), ty("f32")],
        attributes: vec![
            ("backend_config".to_owned(), "\"x\"".to_owned()),
            ("mhlo.frontend attribute".to_owned(), String::new()),
        ],
        rule: Some("(i) -> (i), ()".to_owned()),
    };
    check(
        Op::CustomCall(Box::new(call)),
        &["4xf32"],
        &["4xf32", "f32"],
        r#"%1, %2 = stablehlo.custom_call @"my kernel"(%0) {has_side_effect = true, backend_config = "x", "mhlo.frontend attribute", meshwright.rule = "(i) -> (i), ()"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)"#,
    );
    let call = CustomCall {
        target: "Sharding".to_owned(),
        has_side_effect: false,
        result_types: Vec::new(),
        attributes: Vec::new(),
        rule: None,
    };
    check(Op::CustomCall(Box::new(call)), &[], &[], "stablehlo.custom_call @Sharding() : () -> ()");
}

#[test]
fn dot_general() {
    let dot = DotGeneral {
        lhs_batch: smallvec![0],
        rhs_batch: smallvec![0],
        lhs_contract: smallvec![2],
        rhs_contract: smallvec![1],
        precision: smallvec![Precision::High, Precision::Default],
        dtype: DType::F32,
    };
    check(
        Op::DotGeneral(Box::new(dot)),
        &["2x3x4xbf16", "2x4x5xbf16"],
        &["2x3x5xf32"],
        "%2 = stablehlo.dot_general %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGH, DEFAULT] : (tensor<2x3x4xbf16>, tensor<2x4x5xbf16>) -> tensor<2x3x5xf32>",
    );
    let outer = DotGeneral {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![],
        rhs_contract: smallvec![],
        precision: smallvec![],
        dtype: DType::F32,
    };
    check(
        Op::DotGeneral(Box::new(outer)),
        &["2xf32", "3xf32"],
        &["2x3xf32"],
        "%2 = stablehlo.dot_general %0, %1, contracting_dims = [] x [] : (tensor<2xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
    );
}

#[test]
fn dynamic_slices() {
    check(
        Op::DynamicSlice { sizes: smallvec![2, 3] },
        &["4x4xf32", "i32", "i32"],
        &["2x3xf32"],
        "%3 = stablehlo.dynamic_slice %0, %1, %2, sizes = [2, 3] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
    );
    check(
        Op::DynamicUpdateSlice,
        &["4xf32", "2xf32", "i32"],
        &["4xf32"],
        "%3 = stablehlo.dynamic_update_slice %0, %1, %2 : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>",
    );
}

#[test]
fn fft() {
    check(
        Op::Fft { kind: FftKind::Rfft, lengths: smallvec![8] },
        &["4x8xf32"],
        &["4x5xcomplex<f32>"],
        "%1 = stablehlo.fft %0, type = RFFT, length = [8] : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>",
    );
}

#[test]
fn iota() {
    check(
        Op::Iota { dim: 1, ty: Box::new(ty("4x3xi32")) },
        &[],
        &["4x3xi32"],
        "%0 = stablehlo.iota dim = 1 : tensor<4x3xi32>",
    );
}

#[test]
fn optimization_barrier() {
    check(
        Op::OptimizationBarrier,
        &["4xf32", "i32"],
        &["4xf32", "i32"],
        "%2, %3 = stablehlo.optimization_barrier %0, %1 : tensor<4xf32>, tensor<i32>",
    );
    check(Op::OptimizationBarrier, &[], &[], r#""stablehlo.optimization_barrier"() : () -> ()"#);
}

#[test]
fn pad() {
    check(
        Op::Pad(Box::new(Pad { low: smallvec![0, -1], high: smallvec![1, 1], interior: smallvec![0, 1] })),
        &["4x4xf32", "f32"],
        &["5x7xf32"],
        "%2 = stablehlo.pad %0, %1, low = [0, -1], high = [1, 1], interior = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<5x7xf32>",
    );
}

#[test]
fn process_ids() {
    check(Op::PartitionId, &[], &["ui32"], "%0 = stablehlo.partition_id : tensor<ui32>");
    check(Op::ReplicaId, &[], &["ui32"], "%0 = stablehlo.replica_id : tensor<ui32>");
}

#[test]
fn reduce() {
    OneOp::new(&["4x3xf32", "f32"]).sum("f32").check(
        Op::Reduce { dims: smallvec![1] },
        &["4xf32"],
        "%5 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>",
    );
    // The short form stands for commutative ops only.
    OneOp::new(&["4xf32", "f32"]).region(Op::Binary(Binary::Subtract), &["f32", "f32"], "f32").check(
        Op::Reduce { dims: smallvec![0] },
        &["f32"],
        "%5 = stablehlo.reduce(%0 init: %1) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
 reducer(%2: tensor<f32>, %3: tensor<f32>) {
  %4 = stablehlo.subtract %2, %3 : tensor<f32>
  stablehlo.return %4 : tensor<f32>
}",
    );
    OneOp::new(&["4xf32", "4xi32", "f32", "i32"]).giving(&["f32", "i32", "f32", "i32"], &[2, 1]).check(
        Op::Reduce { dims: smallvec![0] },
        &["f32", "i32"],
        "%8, %9 = stablehlo.reduce(%0 init: %2), (%1 init: %3) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
 reducer(%4: tensor<f32>, %6: tensor<f32>) (%5: tensor<i32>, %7: tensor<i32>) {
  stablehlo.return %6, %5 : tensor<f32>, tensor<i32>
}",
    );
}

#[test]
fn reduce_keeps_the_location_of_its_region() {
    let op = Op::Reduce { dims: smallvec![0] };
    let mut program = OneOp::new(&["4xf32", "f32"]).sum("f32").finish(op, 2, &["f32"]);
    let location = Location { scope: Arc::from("sum"), ..Location::unknown() };
    let reduce = program.body().ops[0];
    program.ops[reduce].location = program.locations.push(location);
    let options = PrintOptions { locations: true, attention: AttentionForm::CustomCall };
    assert_eq!(
        body_text(&print(&program, options)),
        r#"%5 = stablehlo.reduce(%0 init: %1) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
 reducer(%2: tensor<f32>, %3: tensor<f32>) {
  %4 = stablehlo.add %2, %3 : tensor<f32> loc(unknown)
  stablehlo.return %4 : tensor<f32>
} loc("sum")"#
    );
}

#[test]
fn reduce_precision() {
    check(
        Op::ReducePrecision { exponent_bits: 5, mantissa_bits: 10 },
        &["4xf32"],
        &["4xf32"],
        "%1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<4xf32>",
    );
}

#[test]
fn reshape() {
    check(
        Op::Reshape { shape: smallvec![8] },
        &["4x2xf32"],
        &["8xf32"],
        "%1 = stablehlo.reshape %0 : (tensor<4x2xf32>) -> tensor<8xf32>",
    );
}

#[test]
fn reverse() {
    check(
        Op::Reverse { dims: smallvec![0, 1] },
        &["4x2xf32"],
        &["4x2xf32"],
        "%1 = stablehlo.reverse %0, dims = [0, 1] : tensor<4x2xf32>",
    );
}

#[test]
fn random_numbers() {
    check(
        Op::Rng { distribution: Distribution::Uniform, shape: smallvec![4, 2] },
        &["f32", "f32", "2xi64"],
        &["4x2xf32"],
        "%3 = stablehlo.rng %0, %1, %2, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x2xf32>",
    );
    check(
        Op::RngBitGenerator { algorithm: Algorithm::ThreeFry, ty: Box::new(ty("4xui32")) },
        &["2xui64"],
        &["2xui64", "4xui32"],
        "%1, %2 = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)",
    );
}

#[test]
fn select() {
    check(
        Op::Select,
        &["i1", "4xf32", "4xf32"],
        &["4xf32"],
        "%3 = stablehlo.select %0, %1, %2 : tensor<i1>, tensor<4xf32>",
    );
}

#[test]
fn slice() {
    let slice = Slice { start: smallvec![0, 1], limit: smallvec![2, 4], strides: smallvec![1, 2] };
    check(
        Op::Slice(Box::new(slice)),
        &["4x4xf32"],
        &["2x2xf32"],
        "%1 = stablehlo.slice %0 [0:2, 1:4:2] : (tensor<4x4xf32>) -> tensor<2x2xf32>",
    );
}

#[test]
fn top_k() {
    check(
        Op::TopK { k: 2 },
        &["4x8xf32"],
        &["4x2xf32", "4x2xi32"],
        "%1, %2 = chlo.top_k(%0, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)",
    );
}

#[test]
fn transpose() {
    check(
        Op::Transpose { permutation: smallvec![1, 0] },
        &["4x2xf32"],
        &["2x4xf32"],
        "%1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>",
    );
}

#[test]
fn unary() {
    for &unary in Unary::ALL {
        let name = unary.name();
        let (operand, result) = match unary {
            Unary::Conj => ("4xcomplex<f32>", "4xcomplex<f32>"),
            Unary::CountLeadingZeros | Unary::Not | Unary::PopulationCount => ("4xi32", "4xi32"),
            Unary::Imag | Unary::Real => ("4xcomplex<f32>", "4xf32"),
            Unary::IsFinite | Unary::IsInf | Unary::IsNegInf | Unary::IsPosInf => ("4xf32", "4xi1"),
            _ => ("4xf32", "4xf32"),
        };
        let types = match (name.starts_with("chlo."), operand == result) {
            (true, _) => format!("tensor<{operand}> -> tensor<{result}>"),
            (false, true) => format!("tensor<{operand}>"),
            (false, false) => format!("(tensor<{operand}>) -> tensor<{result}>"),
        };
        check(Op::Unary(unary), &[operand], &[result], &format!("%1 = {name} %0 : {types}"));
    }
}

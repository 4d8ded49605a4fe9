use super::{OneOp, body_text, check};
use crate::program::print::{AttentionForm, PrintOptions, print};
use crate::program::{Attention, AttentionGrad, Op};

#[test]
fn attention_as_a_custom_call() {
    check(
        Op::Attention(Box::new(Attention { scale: 0.125, causal: true, bias: false, statistics: false })),
        &["2x4x8x16xbf16", "2x4x8x16xbf16", "2x4x8x16xbf16"],
        &["2x4x8x16xbf16"],
        "%3 = stablehlo.custom_call @meshwright.attention(%0, %1, %2) {meshwright.causal = true, meshwright.scale = 0.125 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16>",
    );
}

#[test]
fn attention_with_statistics_as_a_custom_call() {
    check(
        Op::Attention(Box::new(Attention { scale: 1.0, causal: false, bias: false, statistics: true })),
        &["2x4x8x16xbf16", "2x4x8x16xbf16", "2x4x8x16xbf16"],
        &["2x4x8x16xbf16", "2x4x8xf32"],
        "%3, %4 = stablehlo.custom_call @meshwright.attention(%0, %1, %2) {meshwright.causal = false, meshwright.scale = 1.0 : f64, meshwright.statistics = true} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)",
    );
}

#[test]
fn attention_grad_as_a_custom_call() {
    let inputs = ["1x1x2x4xf32", "1x1x2x4xf32", "1x1x2x4xf32"];
    let rest = ["1x1x2x4xf32", "1x1x2xf32", "1x1x2x4xf32"];
    check(
        Op::AttentionGrad(Box::new(AttentionGrad { scale: 0.5, causal: true, bias: false, bias_gradient: false })),
        &[inputs, rest].concat(),
        &inputs,
        "%6, %7, %8 = stablehlo.custom_call @meshwright.attention_grad(%0, %1, %2, %3, %4, %5) {meshwright.causal = true, meshwright.scale = 0.5 : f64} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2xf32>, tensor<1x1x2x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>)",
    );
    let with_bias = [&inputs[..], &["1x1x1x2xf32"]].concat();
    check(
        Op::AttentionGrad(Box::new(AttentionGrad { scale: 0.5, causal: false, bias: true, bias_gradient: true })),
        &[&with_bias[..], &rest].concat(),
        &with_bias,
        "%7, %8, %9, %10 = stablehlo.custom_call @meshwright.attention_grad(%0, %1, %2, %3, %4, %5, %6) {meshwright.bias_gradient = true, meshwright.causal = false, meshwright.scale = 0.5 : f64} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x1x2xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2xf32>, tensor<1x1x2x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x1x2xf32>)",
    );
}

#[track_caller]
fn check_expanded(attention: Attention, operands: &[&str], result: &str, expected: &str) {
    check_op_expanded(Op::Attention(Box::new(attention)), operands, &[result], expected);
}

#[track_caller]
fn check_op_expanded(op: Op, operands: &[&str], results: &[&str], expected: &str) {
    let program = OneOp::new(operands).finish(op, operands.len(), results);
    let options = PrintOptions { locations: false, attention: AttentionForm::Expanded };
    assert_eq!(body_text(&print(&program, options)), expected);
}

#[test]
fn attention_expanded() {
    check_expanded(
        Attention { scale: 0.125, causal: false, bias: false, statistics: false },
        &["2x4x8x16xf32", "2x4x6x16xf32", "2x4x6x5xf32"],
        "2x4x8x5xf32",
        "%a3_0 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x8x16xf32>, tensor<2x4x6x16xf32>) -> tensor<2x4x8x6xf32>
%a3_1 = stablehlo.constant dense<0.125> : tensor<f32>
%a3_2 = stablehlo.broadcast_in_dim %a3_1, dims = [] : (tensor<f32>) -> tensor<2x4x8x6xf32>
%a3_3 = stablehlo.multiply %a3_0, %a3_2 : tensor<2x4x8x6xf32>
%a3_4 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a3_5 = stablehlo.reduce(%a3_3 init: %a3_4) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x8xf32>
%a3_6 = stablehlo.broadcast_in_dim %a3_5, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x6xf32>
%a3_7 = stablehlo.subtract %a3_3, %a3_6 : tensor<2x4x8x6xf32>
%a3_8 = stablehlo.exponential %a3_7 : tensor<2x4x8x6xf32>
%a3_9 = stablehlo.constant dense<0.0> : tensor<f32>
%a3_10 = stablehlo.reduce(%a3_8 init: %a3_9) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x8xf32>
%a3_11 = stablehlo.constant dense<1.0> : tensor<f32>
%a3_12 = stablehlo.broadcast_in_dim %a3_11, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
%a3_13 = stablehlo.maximum %a3_10, %a3_12 : tensor<2x4x8xf32>
%a3_14 = stablehlo.broadcast_in_dim %a3_13, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x6xf32>
%a3_15 = stablehlo.divide %a3_8, %a3_14 : tensor<2x4x8x6xf32>
%3 = stablehlo.dot_general %a3_15, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x8x6xf32>, tensor<2x4x6x5xf32>) -> tensor<2x4x8x5xf32>",
    );
}

#[test]
fn attention_expanded_with_groups_bias_and_causal_mask() {
    check_expanded(
        Attention { scale: 1.0, causal: true, bias: true, statistics: false },
        &["2x4x3x16xbf16", "2x2x6x16xbf16", "2x2x6x5xbf16", "1x4x1x6xbf16"],
        "2x4x3x5xbf16",
        "%a4_0 = stablehlo.reshape %0 : (tensor<2x4x3x16xbf16>) -> tensor<2x2x6x16xbf16>
%a4_1 = stablehlo.dot_general %a4_0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x16xbf16>, tensor<2x2x6x16xbf16>) -> tensor<2x2x6x6xf32>
%a4_2 = stablehlo.reshape %a4_1 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
%a4_3 = stablehlo.constant dense<1.0> : tensor<f32>
%a4_4 = stablehlo.broadcast_in_dim %a4_3, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
%a4_5 = stablehlo.multiply %a4_2, %a4_4 : tensor<2x4x3x6xf32>
%a4_6 = stablehlo.convert %3 : (tensor<1x4x1x6xbf16>) -> tensor<1x4x1x6xf32>
%a4_7 = stablehlo.broadcast_in_dim %a4_6, dims = [0, 1, 2, 3] : (tensor<1x4x1x6xf32>) -> tensor<2x4x3x6xf32>
%a4_8 = stablehlo.add %a4_5, %a4_7 : tensor<2x4x3x6xf32>
%a4_9 = stablehlo.iota dim = 0 : tensor<3x6xi32>
%a4_10 = stablehlo.iota dim = 1 : tensor<3x6xi32>
%a4_11 = stablehlo.constant dense<3> : tensor<3x6xi32>
%a4_12 = stablehlo.add %a4_9, %a4_11 : tensor<3x6xi32>
%a4_13 = stablehlo.compare LE, %a4_10, %a4_12, SIGNED : (tensor<3x6xi32>, tensor<3x6xi32>) -> tensor<3x6xi1>
%a4_14 = stablehlo.broadcast_in_dim %a4_13, dims = [2, 3] : (tensor<3x6xi1>) -> tensor<2x4x3x6xi1>
%a4_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
%a4_16 = stablehlo.broadcast_in_dim %a4_15, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
%a4_17 = stablehlo.select %a4_14, %a4_8, %a4_16 : tensor<2x4x3x6xi1>, tensor<2x4x3x6xf32>
%a4_18 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a4_19 = stablehlo.reduce(%a4_17 init: %a4_18) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<2x4x3xf32>
%a4_20 = stablehlo.broadcast_in_dim %a4_19, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
%a4_21 = stablehlo.subtract %a4_17, %a4_20 : tensor<2x4x3x6xf32>
%a4_22 = stablehlo.exponential %a4_21 : tensor<2x4x3x6xf32>
%a4_23 = stablehlo.constant dense<0.0> : tensor<f32>
%a4_24 = stablehlo.reduce(%a4_22 init: %a4_23) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<2x4x3xf32>
%a4_25 = stablehlo.constant dense<1.0> : tensor<f32>
%a4_26 = stablehlo.broadcast_in_dim %a4_25, dims = [] : (tensor<f32>) -> tensor<2x4x3xf32>
%a4_27 = stablehlo.maximum %a4_24, %a4_26 : tensor<2x4x3xf32>
%a4_28 = stablehlo.broadcast_in_dim %a4_27, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
%a4_29 = stablehlo.divide %a4_22, %a4_28 : tensor<2x4x3x6xf32>
%a4_30 = stablehlo.convert %a4_29 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
%a4_31 = stablehlo.reshape %a4_30 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
%a4_32 = stablehlo.dot_general %a4_31, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x5xbf16>
%4 = stablehlo.reshape %a4_32 : (tensor<2x2x6x5xbf16>) -> tensor<2x4x3x5xbf16>",
    );
}

#[test]
fn attention_expanded_with_boolean_mask() {
    check_expanded(
        Attention { scale: 1.0, causal: false, bias: true, statistics: false },
        &["1x1x2x4xf64", "1x1x2x4xf64", "1x1x2x4xf64", "1x1x2x2xi1"],
        "1x1x2x4xf64",
        "%a4_0 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf64>, tensor<1x1x2x4xf64>) -> tensor<1x1x2x2xf64>
%a4_1 = stablehlo.constant dense<1.0> : tensor<f64>
%a4_2 = stablehlo.broadcast_in_dim %a4_1, dims = [] : (tensor<f64>) -> tensor<1x1x2x2xf64>
%a4_3 = stablehlo.multiply %a4_0, %a4_2 : tensor<1x1x2x2xf64>
%a4_4 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
%a4_5 = stablehlo.broadcast_in_dim %a4_4, dims = [] : (tensor<f64>) -> tensor<1x1x2x2xf64>
%a4_6 = stablehlo.select %3, %a4_3, %a4_5 : tensor<1x1x2x2xi1>, tensor<1x1x2x2xf64>
%a4_7 = stablehlo.constant dense<-1.7976931348623157e+308> : tensor<f64>
%a4_8 = stablehlo.reduce(%a4_6 init: %a4_7) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x2xf64>
%a4_9 = stablehlo.broadcast_in_dim %a4_8, dims = [0, 1, 2] : (tensor<1x1x2xf64>) -> tensor<1x1x2x2xf64>
%a4_10 = stablehlo.subtract %a4_6, %a4_9 : tensor<1x1x2x2xf64>
%a4_11 = stablehlo.exponential %a4_10 : tensor<1x1x2x2xf64>
%a4_12 = stablehlo.constant dense<0.0> : tensor<f64>
%a4_13 = stablehlo.reduce(%a4_11 init: %a4_12) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x2xf64>
%a4_14 = stablehlo.constant dense<1.0> : tensor<f64>
%a4_15 = stablehlo.broadcast_in_dim %a4_14, dims = [] : (tensor<f64>) -> tensor<1x1x2xf64>
%a4_16 = stablehlo.maximum %a4_13, %a4_15 : tensor<1x1x2xf64>
%a4_17 = stablehlo.broadcast_in_dim %a4_16, dims = [0, 1, 2] : (tensor<1x1x2xf64>) -> tensor<1x1x2x2xf64>
%a4_18 = stablehlo.divide %a4_11, %a4_17 : tensor<1x1x2x2xf64>
%4 = stablehlo.dot_general %a4_18, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x2xf64>, tensor<1x1x2x4xf64>) -> tensor<1x1x2x4xf64>",
    );
}

#[test]
fn attention_expanded_with_statistics() {
    check_op_expanded(
        Op::Attention(Box::new(Attention { scale: 1.0, causal: false, bias: false, statistics: true })),
        &["1x1x2x4xf32", "1x1x3x4xf32", "1x1x3x4xf32"],
        &["1x1x2x4xf32", "1x1x2xf32"],
        "%a3_0 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x3xf32>
%a3_1 = stablehlo.constant dense<1.0> : tensor<f32>
%a3_2 = stablehlo.broadcast_in_dim %a3_1, dims = [] : (tensor<f32>) -> tensor<1x1x2x3xf32>
%a3_3 = stablehlo.multiply %a3_0, %a3_2 : tensor<1x1x2x3xf32>
%a3_4 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a3_5 = stablehlo.reduce(%a3_3 init: %a3_4) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x2x3xf32>, tensor<f32>) -> tensor<1x1x2xf32>
%a3_6 = stablehlo.broadcast_in_dim %a3_5, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
%a3_7 = stablehlo.subtract %a3_3, %a3_6 : tensor<1x1x2x3xf32>
%a3_8 = stablehlo.exponential %a3_7 : tensor<1x1x2x3xf32>
%a3_9 = stablehlo.constant dense<0.0> : tensor<f32>
%a3_10 = stablehlo.reduce(%a3_8 init: %a3_9) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x3xf32>, tensor<f32>) -> tensor<1x1x2xf32>
%a3_11 = stablehlo.constant dense<1.0> : tensor<f32>
%a3_12 = stablehlo.broadcast_in_dim %a3_11, dims = [] : (tensor<f32>) -> tensor<1x1x2xf32>
%a3_13 = stablehlo.maximum %a3_10, %a3_12 : tensor<1x1x2xf32>
%a3_14 = stablehlo.broadcast_in_dim %a3_13, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
%a3_15 = stablehlo.divide %a3_8, %a3_14 : tensor<1x1x2x3xf32>
%3 = stablehlo.dot_general %a3_15, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x4xf32>
%a3_16 = stablehlo.log %a3_10 : tensor<1x1x2xf32>
%4 = stablehlo.add %a3_5, %a3_16 : tensor<1x1x2xf32>",
    );
}

#[test]
fn attention_grad_expanded() {
    check_op_expanded(
        Op::AttentionGrad(Box::new(AttentionGrad { scale: 0.5, causal: false, bias: false, bias_gradient: false })),
        &["1x1x2x4xf32", "1x1x3x4xf32", "1x1x3x5xf32", "1x1x2x5xf32", "1x1x2xf32", "1x1x2x5xf32"],
        &["1x1x2x4xf32", "1x1x3x4xf32", "1x1x3x5xf32"],
        "%a6_0 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x3xf32>
%a6_1 = stablehlo.constant dense<0.5> : tensor<f32>
%a6_2 = stablehlo.broadcast_in_dim %a6_1, dims = [] : (tensor<f32>) -> tensor<1x1x2x3xf32>
%a6_3 = stablehlo.multiply %a6_0, %a6_2 : tensor<1x1x2x3xf32>
%a6_4 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a6_5 = stablehlo.broadcast_in_dim %a6_4, dims = [] : (tensor<f32>) -> tensor<1x1x2xf32>
%a6_6 = stablehlo.maximum %4, %a6_5 : tensor<1x1x2xf32>
%a6_7 = stablehlo.broadcast_in_dim %a6_6, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
%a6_8 = stablehlo.subtract %a6_3, %a6_7 : tensor<1x1x2x3xf32>
%a6_9 = stablehlo.exponential %a6_8 : tensor<1x1x2x3xf32>
%8 = stablehlo.dot_general %a6_9, %5, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x2x5xf32>) -> tensor<1x1x3x5xf32>
%a6_10 = stablehlo.dot_general %5, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x5xf32>, tensor<1x1x3x5xf32>) -> tensor<1x1x2x3xf32>
%a6_11 = stablehlo.multiply %3, %5 : tensor<1x1x2x5xf32>
%a6_12 = stablehlo.constant dense<0.0> : tensor<f32>
%a6_13 = stablehlo.reduce(%a6_11 init: %a6_12) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x5xf32>, tensor<f32>) -> tensor<1x1x2xf32>
%a6_14 = stablehlo.broadcast_in_dim %a6_13, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<1x1x2x3xf32>
%a6_15 = stablehlo.subtract %a6_10, %a6_14 : tensor<1x1x2x3xf32>
%a6_16 = stablehlo.multiply %a6_9, %a6_15 : tensor<1x1x2x3xf32>
%a6_17 = stablehlo.constant dense<0.5> : tensor<f32>
%a6_18 = stablehlo.broadcast_in_dim %a6_17, dims = [] : (tensor<f32>) -> tensor<1x1x2x3xf32>
%a6_19 = stablehlo.multiply %a6_16, %a6_18 : tensor<1x1x2x3xf32>
%6 = stablehlo.dot_general %a6_19, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x4xf32>
%7 = stablehlo.dot_general %a6_19, %0, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x3x4xf32>",
    );
}

#[test]
fn attention_grad_expanded_with_groups_and_bias() {
    let inputs = ["2x4x3x8xbf16", "2x2x6x8xbf16", "2x2x6x5xbf16", "1x4x1x6xbf16"];
    check_op_expanded(
        Op::AttentionGrad(Box::new(AttentionGrad { scale: 0.5, causal: false, bias: true, bias_gradient: true })),
        &[&inputs[..], &["2x4x3x5xbf16", "2x4x3xf32", "2x4x3x5xbf16"]].concat(),
        &inputs,
        "%a7_0 = stablehlo.reshape %0 : (tensor<2x4x3x8xbf16>) -> tensor<2x2x6x8xbf16>
%a7_1 = stablehlo.dot_general %a7_0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> tensor<2x2x6x6xf32>
%a7_2 = stablehlo.reshape %a7_1 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
%a7_3 = stablehlo.constant dense<0.5> : tensor<f32>
%a7_4 = stablehlo.broadcast_in_dim %a7_3, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
%a7_5 = stablehlo.multiply %a7_2, %a7_4 : tensor<2x4x3x6xf32>
%a7_6 = stablehlo.convert %3 : (tensor<1x4x1x6xbf16>) -> tensor<1x4x1x6xf32>
%a7_7 = stablehlo.broadcast_in_dim %a7_6, dims = [0, 1, 2, 3] : (tensor<1x4x1x6xf32>) -> tensor<2x4x3x6xf32>
%a7_8 = stablehlo.add %a7_5, %a7_7 : tensor<2x4x3x6xf32>
%a7_9 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a7_10 = stablehlo.broadcast_in_dim %a7_9, dims = [] : (tensor<f32>) -> tensor<2x4x3xf32>
%a7_11 = stablehlo.maximum %5, %a7_10 : tensor<2x4x3xf32>
%a7_12 = stablehlo.broadcast_in_dim %a7_11, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
%a7_13 = stablehlo.subtract %a7_8, %a7_12 : tensor<2x4x3x6xf32>
%a7_14 = stablehlo.exponential %a7_13 : tensor<2x4x3x6xf32>
%a7_15 = stablehlo.convert %a7_14 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
%a7_16 = stablehlo.reshape %a7_15 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
%a7_17 = stablehlo.reshape %6 : (tensor<2x4x3x5xbf16>) -> tensor<2x2x6x5xbf16>
%9 = stablehlo.dot_general %a7_16, %a7_17, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x5xbf16>
%a7_18 = stablehlo.reshape %6 : (tensor<2x4x3x5xbf16>) -> tensor<2x2x6x5xbf16>
%a7_19 = stablehlo.dot_general %a7_18, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x5xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x6xf32>
%a7_20 = stablehlo.reshape %a7_19 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
%a7_21 = stablehlo.convert %4 : (tensor<2x4x3x5xbf16>) -> tensor<2x4x3x5xf32>
%a7_22 = stablehlo.convert %6 : (tensor<2x4x3x5xbf16>) -> tensor<2x4x3x5xf32>
%a7_23 = stablehlo.multiply %a7_21, %a7_22 : tensor<2x4x3x5xf32>
%a7_24 = stablehlo.constant dense<0.0> : tensor<f32>
%a7_25 = stablehlo.reduce(%a7_23 init: %a7_24) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<2x4x3xf32>
%a7_26 = stablehlo.broadcast_in_dim %a7_25, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
%a7_27 = stablehlo.subtract %a7_20, %a7_26 : tensor<2x4x3x6xf32>
%a7_28 = stablehlo.multiply %a7_14, %a7_27 : tensor<2x4x3x6xf32>
%a7_29 = stablehlo.constant dense<0.5> : tensor<f32>
%a7_30 = stablehlo.broadcast_in_dim %a7_29, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
%a7_31 = stablehlo.multiply %a7_28, %a7_30 : tensor<2x4x3x6xf32>
%a7_32 = stablehlo.convert %a7_31 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
%a7_33 = stablehlo.reshape %a7_32 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
%a7_34 = stablehlo.dot_general %a7_33, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x8xbf16>) -> tensor<2x2x6x8xbf16>
%7 = stablehlo.reshape %a7_34 : (tensor<2x2x6x8xbf16>) -> tensor<2x4x3x8xbf16>
%a7_35 = stablehlo.reshape %0 : (tensor<2x4x3x8xbf16>) -> tensor<2x2x6x8xbf16>
%8 = stablehlo.dot_general %a7_33, %a7_35, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x8xbf16>) -> tensor<2x2x6x8xbf16>
%a7_36 = stablehlo.constant dense<0.0> : tensor<f32>
%a7_37 = stablehlo.reduce(%a7_28 init: %a7_36) applies stablehlo.add across dimensions = [0, 2] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<4x6xf32>
%a7_38 = stablehlo.convert %a7_37 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
%10 = stablehlo.reshape %a7_38 : (tensor<4x6xbf16>) -> tensor<1x4x1x6xbf16>",
    );
}

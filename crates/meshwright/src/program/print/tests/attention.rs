use super::{OneOp, body_text, check};
use crate::program::print::{AttentionForm, PrintOptions, print};
use crate::program::{Attention, Op};

#[test]
fn attention_as_a_custom_call() {
    check(
        Op::Attention(Box::new(Attention { scale: 0.125, causal: true, bias: false, statistics: false })),
        &["2x4x8x16xbf16", "2x4x8x16xbf16", "2x4x8x16xbf16"],
        &["2x4x8x16xbf16"],
        "%3 = stablehlo.custom_call @meshwright.attention(%0, %1, %2) {meshwright.causal = true, meshwright.scale = 0.125 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16>",
    );
}

#[track_caller]
fn check_expanded(attention: Attention, operands: &[&str], result: &str, expected: &str) {
    let program = OneOp::new(operands).finish(Op::Attention(Box::new(attention)), operands.len(), &[result]);
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

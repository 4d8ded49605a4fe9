use super::check;
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

//! Parts that several families are made of.

use smallvec::smallvec;

use super::step::Step;
use crate::program::{Attention, Binary, Convolution, DType, Dims, Direction, Type, Unary, ValueId};

/// `x w + b`: the last dimension of `x` becomes `outputs`. Parameters `name.weight` and `name.bias`.
pub(super) fn linear(step: &mut Step<'_>, name: &str, x: ValueId, outputs: usize, bias: bool) -> ValueId {
    step.function(name, "linear", |step| {
        let shape = step.builder.shape(x);
        let weight = step.parameter(&format!("{name}.weight"), &[shape[shape.len() - 1], outputs]);
        let product = step.builder.matmul(x, weight);
        if bias { biased(step, name, product) } else { product }
    })
}

/// An offset for each position of the last dimension. Parameter `name.bias`.
fn biased(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let shape = step.builder.shape(x);
    let bias = step.parameter(&format!("{name}.bias"), &[shape[shape.len() - 1]]);
    let bias = step.builder.broadcast_last(bias, &shape);
    step.builder.plus(x, bias)
}

/// The window of a convolution over height and width.
#[derive(Clone, Copy)]
pub(super) struct Filter {
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
}

impl Filter {
    /// Windows of odd size around every `stride`th position.
    pub(super) fn around(size: usize, stride: usize) -> Filter {
        Filter { size, stride, padding: size / 2 }
    }
}

/// Convolves (batch, height, width, channels) to as many channels as `outputs`. Parameters
/// `name.weight`, of (height, width, inputs, outputs), and `name.bias`.
pub(super) fn convolution(
    step: &mut Step<'_>,
    name: &str,
    x: ValueId,
    outputs: usize,
    filter: Filter,
    bias: bool,
) -> ValueId {
    step.function(name, "convolution", |step| {
        let inputs = step.builder.shape(x)[3];
        let weight = step.parameter(&format!("{name}.weight"), &[filter.size, filter.size, inputs, outputs]);
        let padding = filter.padding as i64;
        let convolution = Convolution {
            strides: smallvec![filter.stride; 2],
            padding: smallvec![(padding, padding); 2],
            lhs_dilation: smallvec![1; 2],
            rhs_dilation: smallvec![1; 2],
            reversal: smallvec![false; 2],
            input_batch: 0,
            input_feature: 3,
            input_spatial: Dims::from_slice(&[1, 2]),
            kernel_input_feature: 2,
            kernel_output_feature: 3,
            kernel_spatial: Dims::from_slice(&[0, 1]),
            output_batch: 0,
            output_feature: 3,
            output_spatial: Dims::from_slice(&[1, 2]),
            feature_groups: 1,
            batch_groups: 1,
            precision: smallvec![],
            dtype: step.builder.dtype(x),
        };
        let convolved = step.builder.convolution(x, weight, convolution);
        if bias { biased(step, name, convolved) } else { convolved }
    })
}

/// Mean and variance over the last dimension taken out, then scale and, where asked for, offset.
/// Computed in `f32` or wider. Parameters `name.scale` and `name.bias`.
pub(super) fn layer_norm(step: &mut Step<'_>, name: &str, x: ValueId, bias: bool) -> ValueId {
    layer_norm_with(step, name, x, bias, 1e-5)
}

/// [`layer_norm`] with another term added to the variance.
pub(super) fn layer_norm_with(step: &mut Step<'_>, name: &str, x: ValueId, bias: bool, epsilon: f64) -> ValueId {
    step.function(name, "layer_norm", |step| {
        let dtype = step.builder.dtype(x);
        let stored = step.stored_dtype();
        let wide = step.builder.convert(x, stored);
        let shape = step.builder.shape(wide);
        let last = shape.len() - 1;
        let mean = step.builder.mean(wide, &[last]);
        let mean = step.builder.broadcast_along(mean, &shape, last);
        let centered = step.builder.minus(wide, mean);
        let square = step.builder.times(centered, centered);
        let variance = step.builder.mean(square, &[last]);
        let normal = divided_by_root(step, centered, variance, epsilon);
        let scale = step.stored_parameter(&format!("{name}.scale"), &[shape[last]]);
        let scale = step.builder.broadcast_last(scale, &shape);
        let mut result = step.builder.times(normal, scale);
        if bias {
            let bias = step.stored_parameter(&format!("{name}.bias"), &[shape[last]]);
            let bias = step.builder.broadcast_last(bias, &shape);
            result = step.builder.plus(result, bias);
        }
        step.builder.convert(result, dtype)
    })
}

/// The root mean square over the last dimension taken out, then scale. Parameter `name.scale`.
pub(super) fn rms_norm(step: &mut Step<'_>, name: &str, x: ValueId, epsilon: f64) -> ValueId {
    step.function(name, "rms_norm", |step| {
        let dtype = step.builder.dtype(x);
        let stored = step.stored_dtype();
        let wide = step.builder.convert(x, stored);
        let shape = step.builder.shape(wide);
        let last = shape.len() - 1;
        let square = step.builder.times(wide, wide);
        let variance = step.builder.mean(square, &[last]);
        let normal = divided_by_root(step, wide, variance, epsilon);
        let scale = step.stored_parameter(&format!("{name}.scale"), &[shape[last]]);
        let scale = step.builder.broadcast_last(scale, &shape);
        let result = step.builder.times(normal, scale);
        step.builder.convert(result, dtype)
    })
}

/// `x / sqrt(variance + epsilon)`, the variance one per row of the last dimension.
fn divided_by_root(step: &mut Step<'_>, x: ValueId, variance: ValueId, epsilon: f64) -> ValueId {
    let shape = step.builder.shape(x);
    let sum = step.builder.plus_number(variance, epsilon);
    let factor = step.builder.unary(Unary::Rsqrt, sum);
    let factor = step.builder.broadcast_along(factor, &shape, shape.len() - 1);
    step.builder.times(x, factor)
}

/// Gaussian error linear unit in its tanh form.
pub(super) fn gelu(step: &mut Step<'_>, x: ValueId) -> ValueId {
    step.builder.scoped("gelu", |b| {
        let square = b.times(x, x);
        let cube = b.times(square, x);
        let cube = b.times_number(cube, 0.044_715);
        let inner = b.plus(x, cube);
        let inner = b.times_number(inner, (2.0 / std::f64::consts::PI).sqrt());
        let tanh = b.unary(Unary::Tanh, inner);
        let sum = b.plus_number(tanh, 1.0);
        let half = b.times_number(x, 0.5);
        b.times(half, sum)
    })
}

/// Gaussian error linear unit as it is defined: `x / 2 * (1 + erf(x / sqrt(2)))`.
pub(super) fn exact_gelu(step: &mut Step<'_>, x: ValueId) -> ValueId {
    step.builder.scoped("gelu", |b| {
        let inner = b.times_number(x, std::f64::consts::FRAC_1_SQRT_2);
        let erf = b.unary(Unary::Erf, inner);
        let sum = b.plus_number(erf, 1.0);
        let half = b.times_number(x, 0.5);
        b.times(half, sum)
    })
}

pub(super) fn relu(step: &mut Step<'_>, x: ValueId) -> ValueId {
    step.builder.scoped("relu", |b| {
        let zero = b.full_like(x, 0.0);
        b.binary(Binary::Maximum, x, zero)
    })
}

/// `x * logistic(x)`.
pub(super) fn silu(step: &mut Step<'_>, x: ValueId) -> ValueId {
    step.builder.scoped("silu", |b| {
        let logistic = b.unary(Unary::Logistic, x);
        b.times(x, logistic)
    })
}

/// Splits the last dimension of (batch, seq, heads * width) into heads and brings them forward:
/// (batch, heads, seq, width).
pub(super) fn split_heads(step: &mut Step<'_>, x: ValueId, heads: usize) -> ValueId {
    let shape = step.builder.shape(x);
    let split = step.builder.reshape(x, &[shape[0], shape[1], heads, shape[2] / heads]);
    step.builder.transpose(split, &[0, 2, 1, 3])
}

/// A [`linear`] layer whose outputs are split into heads: (batch, heads, seq, `head_width`).
pub(super) fn linear_heads(step: &mut Step<'_>, name: &str, x: ValueId, heads: usize, bias: bool) -> ValueId {
    let joint = linear(step, name, x, heads * step.settings.head_width, bias);
    split_heads(step, joint, heads)
}

/// Queries, keys and values by one projection, each as wide as `x` and split into heads. What tells
/// the three apart is a dimension of its own in the weight, so that it can be cut by heads.
pub(super) fn joint_heads(step: &mut Step<'_>, name: &str, x: ValueId, heads: usize, bias: bool) -> [ValueId; 3] {
    let shape = step.builder.shape(x);
    let [batch, seq, width] = [shape[0], shape[1], shape[2]];
    let joint = step.function(name, "linear", |step| {
        let weight = step.parameter(&format!("{name}.weight"), &[width, 3, width]);
        let joint = step.builder.matmul(x, weight);
        if !bias {
            return joint;
        }
        let bias = step.parameter(&format!("{name}.bias"), &[3, width]);
        let bias = step.builder.broadcast_last(bias, &[batch, seq, 3, width]);
        step.builder.plus(joint, bias)
    });
    let parts = step.builder.scoped("chunk", |b| [0, 1, 2].map(|part| b.slice_dim(joint, 2, part, part + 1)));
    parts.map(|part| {
        let part = step.builder.reshape(part, &[batch, seq, width]);
        split_heads(step, part, heads)
    })
}

/// The other way round: (batch, heads, seq, width) to (batch, seq, heads * width).
pub(super) fn merge_heads(step: &mut Step<'_>, x: ValueId) -> ValueId {
    let shape = step.builder.shape(x);
    let back = step.builder.transpose(x, &[0, 2, 1, 3]);
    step.builder.reshape(back, &[shape[0], shape[2], shape[1] * shape[3]])
}

/// Attention of (batch, heads, seq, width) tensors, scaled by the root of the width.
pub(super) fn attention(step: &mut Step<'_>, query: ValueId, key: ValueId, value: ValueId, causal: bool) -> ValueId {
    let width = step.builder.shape(query)[3];
    let scale = 1.0 / (width as f64).sqrt();
    // The backward pass reads the statistics.
    let attention = Attention { scale, causal, bias: false, statistics: true };
    step.builder.attention(&[query, key, value], attention)[0]
}

/// Scores of all tokens of the vocabulary, by the embedding that tokens came in by where it is
/// `tied`, else by parameter `head.weight`.
pub(super) fn logits(step: &mut Step<'_>, x: ValueId, embedding: ValueId) -> ValueId {
    if !step.settings.tied {
        return linear(step, "head", x, step.settings.vocab, false);
    }
    let dtype = step.builder.dtype(x);
    let last = step.builder.shape(x).len() - 1;
    step.builder.dot(x, embedding, [&[], &[]], [&[last], &[1]], dtype)
}

/// Attention of (batch, seq, width) to itself, without a mask: one projection to queries, keys and
/// values, one of what the heads found, both with biases. Parameters `name.qkv` and `name.out`.
pub(super) fn self_attention(step: &mut Step<'_>, name: &str, x: ValueId, heads: usize) -> ValueId {
    let width = step.builder.shape(x)[2];
    let [query, key, value] = joint_heads(step, &format!("{name}.qkv"), x, heads, true);
    let mixed = attention(step, query, key, value, false);
    let mixed = merge_heads(step, mixed);
    linear(step, &format!("{name}.out"), mixed, width, true)
}

/// What a softmax over the last dimension is made of.
pub(super) struct ShiftedExponentials {
    /// The largest of each row.
    pub(super) largest: ValueId,
    /// The values less the largest of their row, so that no exponential overflows.
    pub(super) shifted: ValueId,
    pub(super) exponentials: ValueId,
    /// The sum of the exponentials of each row.
    pub(super) sum: ValueId,
}

pub(super) fn shifted_exponentials(step: &mut Step<'_>, x: ValueId) -> ShiftedExponentials {
    let b = &mut step.builder;
    let shape = b.shape(x);
    let last = shape.len() - 1;
    let largest = b.maximum(x, &[last]);
    // The largest is taken out again, so nothing depends on it and no gradient need go through it.
    let largest = b.without_gradient(largest);
    let spread = b.broadcast_along(largest, &shape, last);
    let shifted = b.minus(x, spread);
    let exponentials = b.unary(Unary::Exponential, shifted);
    let sum = b.sum(exponentials, &[last]);
    ShiftedExponentials { largest, shifted, exponentials, sum }
}

/// Softmax over the last dimension.
pub(super) fn softmax(step: &mut Step<'_>, x: ValueId) -> ValueId {
    step.scoped("softmax", |step| {
        let ShiftedExponentials { exponentials, sum, .. } = shifted_exponentials(step, x);
        let shape = step.builder.shape(x);
        let sum = step.builder.broadcast_along(sum, &shape, shape.len() - 1);
        step.builder.over(exponentials, sum)
    })
}

/// Drops activations by a mask from random bits, where dropout is set; `name` names the key, which
/// is part of the batch.
pub(super) fn dropout(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let rate = step.settings.dropout;
    if rate == 0.0 {
        return x;
    }
    let key = step.input(&format!("key.{name}"), Type::new(DType::U64, &[2]));
    step.scoped("dropout", |step| {
        let shape = step.builder.shape(x);
        let bits = step.builder.random_bits(key, &shape);
        let limit = step.builder.full(&Type::new(DType::U32, &shape), (rate * f64::from(u32::MAX)).floor());
        let keep = step.builder.compare(Direction::GreaterOrEqual, bits, limit);
        let scaled = step.builder.times_number(x, 1.0 / (1.0 - rate));
        let zero = step.builder.full_like(x, 0.0);
        step.builder.select(keep, scaled, zero)
    })
}

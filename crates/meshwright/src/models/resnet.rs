//! ResNet, and Wide-ResNet as in Alpa's benchmark.
//!
//! The width factor multiplies the outputs of the 3x3 convolution of a block and so the inputs of
//! the 1x1 convolution behind it, but not the outputs of the 1x1 convolution in front of it, which
//! other Wide-ResNets widen too.

use smallvec::smallvec;

use super::layers::{Filter, convolution, linear, relu};
use super::loss::cross_entropy;
use super::settings::Settings;
use super::step::Step;
use crate::program::{BatchNorm, Binary, DType, Op, Program, Type, Unary, ValueId, Window};

/// Share of a running statistic that stays in a step.
const MOMENTUM: f64 = 0.9;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    let (kind, groups) = group_sizes(settings.layers)?;
    super::divides("norm_group", settings.norm_group, "batch", settings.batch)?;
    let mut step = Step::new("resnet", settings);
    let images = Type::new(settings.dtype, &[settings.batch, settings.image, settings.image, 3]);
    let images = step.input("images", images);
    let labels = step.input("labels", Type::new(DType::I32, &[settings.batch]));
    let mut observed = Vec::new();
    let mut x = step.layer("stem", |step| {
        let x = convolution(step, "stem.conv", images, settings.channels, Filter::around(7, 2), false);
        let x = batch_norm(step, "stem.norm", x, &mut observed);
        let x = relu(step, x);
        max_pool(step, x)
    });
    for (group, blocks) in groups.into_iter().enumerate() {
        for index in 0..blocks {
            let name = format!("groups.{group}.{index}");
            let channels = settings.channels << group;
            let stride = if group > 0 && index == 0 { 2 } else { 1 };
            x = step.layer(&name, |step| {
                let rows = kind.rows(step.settings, channels, stride);
                block(step, &name, x, &rows, &mut observed)
            });
        }
    }
    step.scoped("statistics", |step| keep_running(step, &observed));
    let loss = step.scoped("head", |step| {
        let stored = step.stored_dtype();
        let wide = step.builder.convert(x, stored);
        let pooled = step.builder.mean(wide, &[1, 2]);
        let pooled = step.builder.convert(pooled, settings.dtype);
        let logits = linear(step, "head", pooled, settings.classes, true);
        cross_entropy(step, logits, labels)
    });
    step.finish(loss)
}

/// What a block is made of.
#[derive(Clone, Copy)]
enum Kind {
    /// Two convolutions of 3x3.
    Basic,
    /// One of 3x3 between two of 1x1, the last four times as wide.
    Bottleneck,
}

impl Kind {
    /// The outputs and the filter of each convolution.
    fn rows(self, settings: &Settings, channels: usize, stride: usize) -> Vec<(usize, Filter)> {
        let wide = channels * settings.width;
        match self {
            Kind::Basic => vec![(wide, Filter::around(3, stride)), (channels, Filter::around(3, 1))],
            Kind::Bottleneck => vec![
                (channels, Filter::around(1, 1)),
                (wide, Filter::around(3, stride)),
                (4 * channels, Filter::around(1, 1)),
            ],
        }
    }
}

/// Blocks of each of the four groups: those of the published depths, and small networks for tests,
/// of which `layers` is the number of blocks in every group.
fn group_sizes(layers: usize) -> Result<(Kind, [usize; 4]), String> {
    match layers {
        1..=8 => Ok((Kind::Bottleneck, [layers; 4])),
        18 => Ok((Kind::Basic, [2, 2, 2, 2])),
        34 => Ok((Kind::Basic, [3, 4, 6, 3])),
        50 => Ok((Kind::Bottleneck, [3, 4, 6, 3])),
        101 => Ok((Kind::Bottleneck, [3, 4, 23, 3])),
        152 => Ok((Kind::Bottleneck, [3, 8, 36, 3])),
        _ => Err(format!(
            "`layers` = {layers} is none of 18, 34, 50, 101, 152, or 1 to 8 for as many blocks in each group"
        )),
    }
}

/// Convolutions by rows of outputs and filter, beside a shortcut.
fn block(
    step: &mut Step<'_>,
    name: &str,
    x: ValueId,
    rows: &[(usize, Filter)],
    observed: &mut Vec<Observed>,
) -> ValueId {
    let last = rows.len() - 1;
    let mut y = x;
    for (index, &(outputs, filter)) in rows.iter().enumerate() {
        y = convolution(step, &format!("{name}.conv{index}"), y, outputs, filter, false);
        y = batch_norm(step, &format!("{name}.norm{index}"), y, observed);
        if index < last {
            y = relu(step, y);
        }
    }
    let mut shortcut = x;
    if step.builder.shape(x) != step.builder.shape(y) {
        let stride = rows.iter().map(|(_, filter)| filter.stride).product();
        let filter = Filter::around(1, stride);
        shortcut = convolution(step, &format!("{name}.shortcut.conv"), x, rows[last].0, filter, false);
        shortcut = batch_norm(step, &format!("{name}.shortcut.norm"), shortcut, observed);
    }
    let sum = step.builder.plus(shortcut, y);
    relu(step, sum)
}

/// A statistic of this batch, and the name of its running average.
struct Observed {
    name: String,
    value: ValueId,
}

/// Takes out mean and variance of the batch, or of groups of its examples, in `f32` or wider; both are added to
/// `observed`. Parameters `name.scale` and `name.bias`.
fn batch_norm(step: &mut Step<'_>, name: &str, x: ValueId, observed: &mut Vec<Observed>) -> ValueId {
    step.function(name, "batch_norm", |step| {
        let dtype = step.builder.dtype(x);
        let stored = step.stored_dtype();
        let channels = step.builder.shape(x)[3];
        let wide = step.builder.convert(x, stored);
        let scale = step.stored_parameter(&format!("{name}.scale"), &[channels]);
        let bias = step.stored_parameter(&format!("{name}.bias"), &[channels]);
        let [normal, mean, variance] = if step.settings.norm_group == step.settings.batch {
            let norm = BatchNorm { epsilon: EPSILON, feature_dim: 3 };
            let results = step.builder.op(Op::BatchNormTraining(norm), &[wide, scale, bias], &[]);
            [results[0], results[1], results[2]]
        } else {
            norm_groups(step, wide, scale, bias)
        };
        observed.push(Observed { name: format!("{name}.mean"), value: mean });
        observed.push(Observed { name: format!("{name}.variance"), value: variance });
        step.builder.convert(normal, dtype)
    })
}

/// What is added to a variance.
const EPSILON: f32 = 1e-5;

/// A batch norm of every group of examples, and the means of their means and variances. Accumulating gradients over
/// microbatches comes to this where each is a group.
fn norm_groups(step: &mut Step<'_>, x: ValueId, scale: ValueId, bias: ValueId) -> [ValueId; 3] {
    let (group, b) = (step.settings.norm_group, &mut step.builder);
    let whole = b.shape(x);
    let grouped = [whole[0] / group, group, whole[1], whole[2], whole[3]];
    let x = b.reshape(x, &grouped);
    let mean = b.mean(x, &[1, 2, 3]);
    let spread = b.broadcast(mean, &grouped, &[0, 4]);
    let centered = b.minus(x, spread);
    let square = b.times(centered, centered);
    let variance = b.mean(square, &[1, 2, 3]);
    let sum = b.plus_number(variance, f64::from(EPSILON));
    let factor = b.unary(Unary::Rsqrt, sum);
    let factor = b.broadcast(factor, &grouped, &[0, 4]);
    let normal = b.times(centered, factor);
    let scale = b.broadcast_last(scale, &grouped);
    let bias = b.broadcast_last(bias, &grouped);
    let scaled = b.times(normal, scale);
    let shifted = b.plus(scaled, bias);
    [b.reshape(shifted, &whole), b.mean(mean, &[0]), b.mean(variance, &[0])]
}

/// Moves the running averages, which training does not read. Outside of the layers, so that a
/// recomputed layer does not compute them again.
fn keep_running(step: &mut Step<'_>, observed: &[Observed]) {
    for Observed { name, value } in observed {
        let ty = step.builder.ty(*value);
        let before = step.state(name, ty);
        let old = step.builder.times_number(before, MOMENTUM);
        let new = step.builder.times_number(*value, 1.0 - MOMENTUM);
        let next = step.builder.plus(old, new);
        step.keep(name, before, next);
    }
}

/// The largest of 3x3 around every second position.
fn max_pool(step: &mut Step<'_>, x: ValueId) -> ValueId {
    let window = Window {
        sizes: smallvec![1, 3, 3, 1],
        strides: smallvec![1, 2, 2, 1],
        base_dilation: smallvec![1; 4],
        window_dilation: smallvec![1; 4],
        padding: smallvec![(0, 0), (1, 1), (1, 1), (0, 0)],
    };
    let dtype = step.builder.dtype(x);
    let lowest = step.builder.scalar(dtype, f64::NEG_INFINITY);
    let region = step.builder.reducer(Binary::Maximum, dtype);
    step.builder.scoped("max_pool", |b| b.op(Op::ReduceWindow(Box::new(window)), &[x, lowest], &[region])[0])
}

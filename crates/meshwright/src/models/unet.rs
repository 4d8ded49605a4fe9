//! A UNet that predicts the noise in images of a diffusion process.

use super::layers::{Filter, convolution, dropout, linear, self_attention, silu};
use super::loss::distance;
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Program, Type, Unary, ValueId};

/// Channels at each resolution, as multiples of `channels`; each resolution is half the one before.
const MULTIPLIERS: [usize; 4] = [1, 2, 2, 2];
/// The resolutions from this one on have attention.
const FIRST_ATTENDED: usize = MULTIPLIERS.len() - 2;
/// Groups of channels that are normalized together.
const GROUPS: usize = 32;
/// The longest wave of the embedding of times.
const LONGEST: f64 = 10_000.0;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    check(settings)?;
    let mut step = Step::new("unet", settings);
    let ty = Type::new(settings.dtype, &[settings.batch, settings.image, settings.image, 3]);
    let images = step.input("images", ty.clone());
    let times = step.input("times", Type::new(DType::I32, &[settings.batch]));
    let noise = step.input("noise", ty);
    let time = step.scoped("time", |step| embed_times(step, times));
    let found = network(&mut step, images, time);
    let loss = step.scoped("loss", |step| distance(step, found, noise));
    step.finish(loss)
}

fn check(settings: &Settings) -> Result<(), String> {
    let halvings = MULTIPLIERS.len() - 1;
    if !settings.image.is_multiple_of(1 << halvings) {
        return Err(format!("`image` = {} cannot be halved {halvings} times", settings.image));
    }
    if !settings.channels.is_multiple_of(GROUPS) {
        return Err(format!("`channels` = {} is no multiple of the {GROUPS} groups of a norm", settings.channels));
    }
    let attended = MULTIPLIERS[FIRST_ATTENDED] * settings.channels;
    if !attended.is_multiple_of(settings.heads) {
        return Err(format!("`heads` = {} does not divide the {attended} channels that attend", settings.heads));
    }
    Ok(())
}

/// Sines and cosines of the times at waves of growing length, through two dense layers.
fn embed_times(step: &mut Step<'_>, times: ValueId) -> ValueId {
    let (batch, channels, dtype) = (step.settings.batch, step.settings.channels, step.settings.dtype);
    let half = channels / 2;
    let stored = step.stored_dtype();
    let b = &mut step.builder;
    let position = b.iota(&Type::new(stored, &[half]), 0);
    let exponent = b.times_number(position, -LONGEST.ln() / half as f64);
    let frequency = b.unary(Unary::Exponential, exponent);
    let frequency = b.broadcast_last(frequency, &[batch, half]);
    let times = b.convert(times, stored);
    let times = b.broadcast_along(times, &[batch, half], 1);
    let angle = b.times(times, frequency);
    let [sine, cosine] = [Unary::Sine, Unary::Cosine].map(|wave| b.unary(wave, angle));
    let waves = b.concatenate(&[sine, cosine], 1);
    let waves = b.convert(waves, dtype);
    let hidden = linear(step, "time.0", waves, 4 * channels, true);
    let hidden = silu(step, hidden);
    let embedded = linear(step, "time.1", hidden, 4 * channels, true);
    // Every block applies the function to it first.
    silu(step, embedded)
}

/// Down to the lowest resolution and up again, where each block reads what the one opposite kept.
fn network(step: &mut Step<'_>, images: ValueId, time: ValueId) -> ValueId {
    let settings = step.settings;
    let mut x = convolution(step, "input", images, settings.channels, Filter::around(3, 1), true);
    let mut kept = vec![x];
    for (level, multiplier) in MULTIPLIERS.into_iter().enumerate() {
        let channels = multiplier * settings.channels;
        for block in 0..settings.layers {
            let name = format!("down.{level}.{block}");
            x = step.layer(&name, |step| stage(step, &name, x, time, channels, level >= FIRST_ATTENDED));
            kept.push(x);
        }
        if level + 1 < MULTIPLIERS.len() {
            let name = format!("down.{level}.halve");
            x = step.layer(&name, |step| convolution(step, &name, x, channels, Filter::around(3, 2), true));
            kept.push(x);
        }
    }
    let lowest = step.builder.shape(x)[3];
    x = step.layer("middle.0", |step| stage(step, "middle.0", x, time, lowest, true));
    x = step.layer("middle.1", |step| stage(step, "middle.1", x, time, lowest, false));
    let mut kept = kept.into_iter().rev();
    for (level, multiplier) in MULTIPLIERS.into_iter().enumerate().rev() {
        let channels = multiplier * settings.channels;
        // One block for each that was kept at this resolution, with the one that led to it.
        for (block, opposite) in kept.by_ref().take(settings.layers + 1).enumerate() {
            let name = format!("up.{level}.{block}");
            x = step.layer(&name, |step| {
                let joint = step.builder.concatenate(&[x, opposite], 3);
                stage(step, &name, joint, time, channels, level >= FIRST_ATTENDED)
            });
        }
        if level > 0 {
            let name = format!("up.{level}.double");
            x = step.layer(&name, |step| {
                let doubled = double(step, x);
                convolution(step, &name, doubled, channels, Filter::around(3, 1), true)
            });
        }
    }
    step.layer("output", |step| {
        let normal = group_norm(step, "output.norm", x);
        let bent = silu(step, normal);
        convolution(step, "output.conv", bent, 3, Filter::around(3, 1), true)
    })
}

/// A residual block and, where asked for, attention.
fn stage(step: &mut Step<'_>, name: &str, x: ValueId, time: ValueId, channels: usize, attends: bool) -> ValueId {
    let x = residual(step, name, x, time, channels);
    if attends { step.scoped("attn", |step| attend(step, &format!("{name}.attn"), x)) } else { x }
}

fn residual(step: &mut Step<'_>, name: &str, x: ValueId, time: ValueId, channels: usize) -> ValueId {
    let y = group_norm(step, &format!("{name}.norm1"), x);
    let y = silu(step, y);
    let y = convolution(step, &format!("{name}.conv1"), y, channels, Filter::around(3, 1), true);
    let shape = step.builder.shape(y);
    let offset = linear(step, &format!("{name}.time"), time, channels, true);
    let offset = step.builder.broadcast(offset, &shape, &[0, 3]);
    let y = step.builder.plus(y, offset);
    let y = group_norm(step, &format!("{name}.norm2"), y);
    let y = silu(step, y);
    let y = dropout(step, name, y);
    let y = convolution(step, &format!("{name}.conv2"), y, channels, Filter::around(3, 1), true);
    let is_wider = step.builder.shape(x) != shape;
    let shortcut = if is_wider {
        convolution(step, &format!("{name}.shortcut"), x, channels, Filter::around(1, 1), true)
    } else {
        x
    };
    step.builder.plus(shortcut, y)
}

/// Every position attends to all others.
fn attend(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let shape = step.builder.shape(x);
    let normal = group_norm(step, &format!("{name}.norm"), x);
    let positions = step.builder.reshape(normal, &[shape[0], shape[1] * shape[2], shape[3]]);
    let mixed = self_attention(step, name, positions, step.settings.heads);
    let mixed = step.builder.reshape(mixed, &shape);
    step.builder.plus(x, mixed)
}

/// Mean and variance over an image and a group of channels taken out, then scale and offset.
/// Computed in `f32` or wider. Parameters `name.scale` and `name.bias`.
fn group_norm(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let (dtype, stored) = (step.builder.dtype(x), step.stored_dtype());
    let shape = step.builder.shape(x);
    let scale = step.stored_parameter(&format!("{name}.scale"), &[shape[3]]);
    let bias = step.stored_parameter(&format!("{name}.bias"), &[shape[3]]);
    let b = &mut step.builder;
    let wide = b.convert(x, stored);
    let grouped_shape = [shape[0], shape[1], shape[2], GROUPS, shape[3] / GROUPS];
    let grouped = b.reshape(wide, &grouped_shape);
    let mean = b.mean(grouped, &[1, 2, 4]);
    let mean = b.broadcast(mean, &grouped_shape, &[0, 3]);
    let centered = b.minus(grouped, mean);
    let square = b.times(centered, centered);
    let variance = b.mean(square, &[1, 2, 4]);
    let variance = b.plus_number(variance, 1e-5);
    let factor = b.unary(Unary::Rsqrt, variance);
    let factor = b.broadcast(factor, &grouped_shape, &[0, 3]);
    let normal = b.times(centered, factor);
    let normal = b.reshape(normal, &shape);
    let scale = b.broadcast_last(scale, &shape);
    let scaled = b.times(normal, scale);
    let bias = b.broadcast_last(bias, &shape);
    let result = b.plus(scaled, bias);
    b.convert(result, dtype)
}

/// Twice the height and width, each position four times.
fn double(step: &mut Step<'_>, x: ValueId) -> ValueId {
    let shape = step.builder.shape(x);
    let [batch, height, width, channels] = [shape[0], shape[1], shape[2], shape[3]];
    let repeated = step.builder.broadcast(x, &[batch, height, 2, width, 2, channels], &[0, 1, 3, 5]);
    step.builder.reshape(repeated, &[batch, 2 * height, 2 * width, channels])
}

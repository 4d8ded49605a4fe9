//! Llama: decoder-only, with rotary positions and keys and values that heads share.

use super::layers::{attention, dropout, linear, linear_heads, logits, merge_heads, rms_norm, silu};
use super::loss::cross_entropy;
use super::settings::Settings;
use super::step::Step;
use crate::program::{Binary, DType, Program, Type, Unary, ValueId};

pub(super) const EPSILON: f64 = 1e-5;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    build_with("llama", settings, feed)
}

/// A decoder whose layers attend as Llama's do and go on with `feed`, which takes the name of the
/// layer and its input and gives its output.
pub(super) fn build_with(
    name: &str,
    settings: &Settings,
    feed: fn(&mut Step<'_>, &str, ValueId) -> ValueId,
) -> Result<Program, String> {
    check(settings)?;
    let mut step = Step::new(name, settings);
    let tokens_type = Type::new(DType::I32, &[settings.batch, settings.seq]);
    let tokens = step.input("tokens", tokens_type.clone());
    let targets = step.input("targets", tokens_type);
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);
    let mut x = step.scoped("embed", |step| step.builder.take_rows(embedding, tokens));
    let rotation = step.scoped("rotary", Rotation::new);
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| {
            let attended = attend(step, &name, x, rotation);
            feed(step, &name, attended)
        });
    }
    let x = rms_norm(&mut step, "norm", x, EPSILON);
    let loss = step.scoped("head", |step| {
        let logits = logits(step, x, embedding);
        cross_entropy(step, logits, targets)
    });
    step.finish(loss)
}

fn check(settings: &Settings) -> Result<(), String> {
    if settings.head_width % 2 == 1 {
        return Err(format!("`head_width` = {} is odd: rotary positions turn its two halves", settings.head_width));
    }
    if settings.rope_theta == 0.0 {
        return Err("`rope_theta` is 0, must be more than 0".to_owned());
    }
    Ok(())
}

/// The part of a layer that looks at other tokens, added to its input.
fn attend(step: &mut Step<'_>, name: &str, x: ValueId, rotation: Rotation) -> ValueId {
    let settings = step.settings;
    let attended = step.scoped("attn", |step| {
        let normal = rms_norm(step, &format!("{name}.norm1"), x, EPSILON);
        let query = linear_heads(step, &format!("{name}.attn.query"), normal, settings.heads, false);
        let key = linear_heads(step, &format!("{name}.attn.key"), normal, settings.kv_heads, false);
        let value = linear_heads(step, &format!("{name}.attn.value"), normal, settings.kv_heads, false);
        let query = rotation.apply(step, query);
        let key = rotation.apply(step, key);
        let mixed = attention(step, query, key, value, true);
        let mixed = merge_heads(step, mixed);
        let out = linear(step, &format!("{name}.attn.out"), mixed, settings.hidden, false);
        dropout(step, &format!("{name}.attn"), out)
    });
    step.builder.plus(x, attended)
}

/// The part of a layer that looks at one token at a time, added to its input.
fn feed(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let settings = step.settings;
    let fed = step.scoped("mlp", |step| {
        let normal = rms_norm(step, &format!("{name}.norm2"), x, EPSILON);
        let gate = linear(step, &format!("{name}.mlp.gate"), normal, settings.ffn, false);
        let gate = silu(step, gate);
        let up = linear(step, &format!("{name}.mlp.up"), normal, settings.ffn, false);
        let gated = step.builder.times(gate, up);
        let down = linear(step, &format!("{name}.mlp.down"), gated, settings.hidden, false);
        dropout(step, &format!("{name}.mlp"), down)
    });
    step.builder.plus(x, fed)
}

/// Rotary positions: element `i` of a head's first half and element `i` of its second half are turned
/// together by the angle `position / theta^(2 i / width)`.
#[derive(Clone, Copy)]
struct Rotation {
    /// Of (seq, width / 2), in the type of computation, made of angles in `f32` or wider.
    cosine: ValueId,
    sine: ValueId,
}

impl Rotation {
    fn new(step: &mut Step<'_>) -> Rotation {
        let settings = step.settings;
        let ty = Type::new(step.stored_dtype(), &[settings.seq, settings.head_width / 2]);
        let b = &mut step.builder;
        let position = b.iota(&ty, 0);
        let element = b.iota(&ty, 1);
        let exponent = b.times_number(element, -2.0 / settings.head_width as f64);
        let theta = b.full(&ty, settings.rope_theta);
        let frequency = b.binary(Binary::Power, theta, exponent);
        let angle = b.times(position, frequency);
        let cosine = b.unary(Unary::Cosine, angle);
        let sine = b.unary(Unary::Sine, angle);
        Rotation { cosine: b.convert(cosine, settings.dtype), sine: b.convert(sine, settings.dtype) }
    }

    /// Turns (batch, heads, seq, width).
    fn apply(self, step: &mut Step<'_>, x: ValueId) -> ValueId {
        let b = &mut step.builder;
        let width = b.shape(x)[3];
        let first = b.slice_dim(x, 3, 0, width / 2);
        let second = b.slice_dim(x, 3, width / 2, width);
        let shape = b.shape(first);
        let cosine = b.broadcast_last(self.cosine, &shape);
        let sine = b.broadcast_last(self.sine, &shape);
        let first_by_cosine = b.times(first, cosine);
        let second_by_sine = b.times(second, sine);
        let second_by_cosine = b.times(second, cosine);
        let first_by_sine = b.times(first, sine);
        let turned_first = b.minus(first_by_cosine, second_by_sine);
        let turned_second = b.plus(second_by_cosine, first_by_sine);
        b.concatenate(&[turned_first, turned_second], 3)
    }
}

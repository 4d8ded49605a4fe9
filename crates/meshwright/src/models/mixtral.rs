//! Mixtral: a decoder like Llama's in which every layer has a mixture of gated experts.
//!
//! Experts have `capacity` places for the tokens of a group, as in [`experts`](super::experts): shapes
//! are known and no expert computes more than its places. The published model leaves no token out,
//! which is what `capacity_factor` equal to `experts` computes, at the cost of every token at every
//! expert; less room leaves out choices that find their expert full. There is no term for even shares.

use super::experts::{check, expert_linear, grouped, route};
use super::layers::{attention, cross_entropy, dropout, linear, merge_heads, rms_norm, silu, split_heads};
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Program, Type, Unary, ValueId};

const NORM_EPSILON: f64 = 1e-5;
/// The longest wave of rotary positions, in units of `2 pi` tokens.
const ROTARY_BASE: f64 = 1e6;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    check(settings)?;
    if !settings.head_width.is_multiple_of(2) {
        return Err(format!("`head_width` = {} must be even, for rotary positions", settings.head_width));
    }
    let mut step = Step::new("mixtral", settings);
    let tokens_type = Type::new(DType::I32, &[settings.batch, settings.seq]);
    let tokens = step.input("tokens", tokens_type.clone());
    let targets = step.input("targets", tokens_type);
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);
    let mut x = step.scoped("embed", |step| step.builder.take_rows(embedding, tokens));
    let waves = step.scoped("rotary", waves);
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| block(step, &name, x, waves));
    }
    let x = rms_norm(&mut step, "norm", x, NORM_EPSILON);
    let loss = step.scoped("head", |step| {
        let logits = if settings.tied {
            let dtype = step.builder.dtype(x);
            step.builder.dot(x, embedding, [&[], &[]], [&[2], &[1]], dtype)
        } else {
            linear(step, "head", x, settings.vocab, false)
        };
        cross_entropy(step, logits, targets)
    });
    step.finish(loss)
}

fn block(step: &mut Step<'_>, name: &str, x: ValueId, waves: [ValueId; 2]) -> ValueId {
    let settings = step.settings;
    let attended = step.scoped("attn", |step| {
        let normal = rms_norm(step, &format!("{name}.norm1"), x, NORM_EPSILON);
        let width = settings.head_width;
        let [query, key, value] = [("query", settings.heads), ("key", settings.kv_heads), ("value", settings.kv_heads)]
            .map(|(part, heads)| {
                let projected = linear(step, &format!("{name}.attn.{part}"), normal, heads * width, false);
                split_heads(step, projected, heads)
            });
        let query = rotate(step, query, waves);
        let key = rotate(step, key, waves);
        let mixed = attention(step, query, key, value, true);
        let mixed = merge_heads(step, mixed);
        let out = linear(step, &format!("{name}.attn.out"), mixed, settings.hidden, false);
        dropout(step, &format!("{name}.attn"), out)
    });
    let x = step.builder.plus(x, attended);
    let fed = step.scoped("moe", |step| {
        let normal = rms_norm(step, &format!("{name}.norm2"), x, NORM_EPSILON);
        let tokens = grouped(step, normal);
        let name = format!("{name}.moe");
        let routing = route(step, &name, tokens);
        let made = routing.apply(step, tokens, |step, x| {
            let gate = expert_linear(step, &format!("{name}.gate"), x, settings.ffn);
            let gate = silu(step, gate);
            let up = expert_linear(step, &format!("{name}.up"), x, settings.ffn);
            let product = step.builder.times(gate, up);
            expert_linear(step, &format!("{name}.down"), product, settings.hidden)
        });
        let fed = step.builder.reshape(made, &[settings.batch, settings.seq, settings.hidden]);
        dropout(step, &name, fed)
    });
    step.builder.plus(x, fed)
}

/// Cosines and sines of (seq, head width / 2): position `p` turns pair `i` by `p * base^(-2i / width)`.
fn waves(step: &mut Step<'_>) -> [ValueId; 2] {
    let (wide, dtype) = (step.stored_dtype(), step.settings.dtype);
    let width = step.settings.head_width;
    let b = &mut step.builder;
    let ty = Type::new(wide, &[step.settings.seq, width / 2]);
    let positions = b.iota(&ty, 0);
    let pairs = b.iota(&ty, 1);
    let exponents = b.times_number(pairs, -2.0 / width as f64 * ROTARY_BASE.ln());
    let speeds = b.unary(Unary::Exponential, exponents);
    let angles = b.times(positions, speeds);
    [Unary::Cosine, Unary::Sine].map(|unary| {
        let wave = b.unary(unary, angles);
        b.convert(wave, dtype)
    })
}

/// Turns the pairs of (batch, heads, seq, width), which are an element of the first half and the one
/// at the same place of the second.
fn rotate(step: &mut Step<'_>, x: ValueId, waves: [ValueId; 2]) -> ValueId {
    let b = &mut step.builder;
    let mut shape = b.shape(x);
    let width = shape[3];
    let [first, second] = [0, width / 2].map(|start| b.slice_dim(x, 3, start, start + width / 2));
    shape[3] = width / 2;
    let [cosine, sine] = waves.map(|wave| b.broadcast_last(wave, &shape));
    let (kept, taken) = (b.times(first, cosine), b.times(second, sine));
    let turned_first = b.minus(kept, taken);
    let (kept, added) = (b.times(second, cosine), b.times(first, sine));
    let turned_second = b.plus(kept, added);
    b.concatenate(&[turned_first, turned_second], 3)
}

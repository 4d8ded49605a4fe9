//! BERT, trained to fill in masked tokens.

use super::layers::{attention, dropout, exact_gelu, layer_norm_with, linear, linear_heads, logits, merge_heads};
use super::loss::label_losses;
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Program, Type, ValueId};

/// The first and the second sentence of an example.
const SEGMENTS: usize = 2;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    let mut step = Step::new("bert", settings);
    let shape = [settings.batch, settings.seq];
    let tokens = step.input("tokens", Type::new(DType::I32, &shape));
    let segments = step.input("segments", Type::new(DType::I32, &shape));
    let targets = step.input("targets", Type::new(DType::I32, &shape));
    // How much a position counts: 1 where the token is masked, else 0.
    let mask_type = Type::new(step.stored_dtype(), &shape);
    let mask = step.input("mask", mask_type);
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);
    let mut x = step.scoped("embed", |step| embed(step, embedding, tokens, segments));
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| block(step, &name, x));
    }
    let loss = step.scoped("head", |step| {
        let transformed = linear(step, "head.transform", x, settings.hidden, true);
        let bent = exact_gelu(step, transformed);
        let normal = norm(step, "head.norm", bent);
        let scores = step.scoped("linear", |step| {
            let scores = logits(step, normal, embedding);
            let bias = step.parameter("head.bias", &[settings.vocab]);
            let shape = step.builder.shape(scores);
            let bias = step.builder.broadcast_last(bias, &shape);
            step.builder.plus(scores, bias)
        });
        let losses = label_losses(step, scores, targets);
        let counted = step.builder.times(losses, mask);
        let sum = step.builder.sum(counted, &[0, 1]);
        let count = step.builder.sum(mask, &[0, 1]);
        step.builder.over(sum, count)
    });
    step.finish(loss)
}

fn embed(step: &mut Step<'_>, embedding: ValueId, tokens: ValueId, segments: ValueId) -> ValueId {
    let settings = step.settings;
    let x = step.builder.take_rows(embedding, tokens);
    let shape = step.builder.shape(x);
    let positions = step.parameter("positions", &[settings.seq, settings.hidden]);
    let positions = step.builder.broadcast_last(positions, &shape);
    let x = step.builder.plus(x, positions);
    let kinds = step.parameter("segments", &[SEGMENTS, settings.hidden]);
    let kinds = step.builder.take_rows(kinds, segments);
    let x = step.builder.plus(x, kinds);
    let normal = norm(step, "norm", x);
    dropout(step, "embed", normal)
}

/// Norms come after the sums, not before the parts.
fn block(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let settings = step.settings;
    let attended = step.scoped("attn", |step| {
        let [query, key, value] = ["query", "key", "value"]
            .map(|part| linear_heads(step, &format!("{name}.attn.{part}"), x, settings.heads, true));
        let mixed = attention(step, query, key, value, false);
        let mixed = merge_heads(step, mixed);
        let out = linear(step, &format!("{name}.attn.out"), mixed, settings.hidden, true);
        let out = dropout(step, &format!("{name}.attn"), out);
        let sum = step.builder.plus(x, out);
        norm(step, &format!("{name}.norm1"), sum)
    });
    step.scoped("mlp", |step| {
        let up = linear(step, &format!("{name}.mlp.up"), attended, settings.ffn, true);
        let bent = exact_gelu(step, up);
        let down = linear(step, &format!("{name}.mlp.down"), bent, settings.hidden, true);
        let down = dropout(step, &format!("{name}.mlp"), down);
        let sum = step.builder.plus(attended, down);
        norm(step, &format!("{name}.norm2"), sum)
    })
}

fn norm(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    layer_norm_with(step, name, x, true, 1e-12)
}

//! Decoder-only transformers: GPT, and the transformer of PartIR's experiments.

use super::layers::{attention, dropout, gelu, joint_heads, layer_norm, linear, logits, merge_heads};
use super::loss::cross_entropy;
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Program, Type, ValueId};

/// What differs between the two.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Biases of norms and of the joint projection of queries, keys and values.
    pub(super) all_biases: bool,
    /// Learned positions.
    pub(super) positions: bool,
}

pub(super) const GPT: Style = Style { all_biases: true, positions: true };

/// Nine parameters a layer: four matrices, the scales of two norms, the biases of three matrices.
pub(super) const PARTIR: Style = Style { all_biases: false, positions: false };

pub(super) fn build(settings: &Settings, style: Style) -> Result<Program, String> {
    let mut step = Step::new("gpt", settings);
    let tokens_type = Type::new(DType::I32, &[settings.batch, settings.seq]);
    let tokens = step.input("tokens", tokens_type.clone());
    let targets = step.input("targets", tokens_type);
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);
    let mut x = embed(&mut step, embedding, tokens, style);
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| {
            let x = attend(step, &name, x, style);
            feed(step, &name, x, style)
        });
    }
    let loss = head(&mut step, embedding, x, targets, style);
    step.finish(loss)
}

/// The rows of tokens, with learned positions where the style has them.
pub(super) fn embed(step: &mut Step<'_>, embedding: ValueId, tokens: ValueId, style: Style) -> ValueId {
    step.scoped("embed", |step| {
        let x = step.builder.take_rows(embedding, tokens);
        if !style.positions {
            return x;
        }
        let positions = step.parameter("positions", &[step.settings.seq, step.settings.hidden]);
        let shape = step.builder.shape(x);
        let positions = step.builder.broadcast_last(positions, &shape);
        step.builder.plus(x, positions)
    })
}

/// The cross entropy of the next tokens.
pub(super) fn head(step: &mut Step<'_>, embedding: ValueId, x: ValueId, targets: ValueId, style: Style) -> ValueId {
    let x = layer_norm(step, "norm", x, style.all_biases);
    step.scoped("head", |step| {
        let logits = logits(step, x, embedding);
        cross_entropy(step, logits, targets)
    })
}

/// The part of a layer that looks at other tokens, added to its input.
pub(super) fn attend(step: &mut Step<'_>, name: &str, x: ValueId, style: Style) -> ValueId {
    attend_by(step, name, x, style, |step, [query, key, value]| attention(step, query, key, value, true))
}

/// The same, where `mix` makes (batch, heads, seq, width) out of queries, keys and values of that shape.
pub(super) fn attend_by(
    step: &mut Step<'_>,
    name: &str,
    x: ValueId,
    style: Style,
    mix: impl FnOnce(&mut Step<'_>, [ValueId; 3]) -> ValueId,
) -> ValueId {
    let settings = step.settings;
    let attended = step.scoped("attn", |step| {
        let normal = layer_norm(step, &format!("{name}.norm1"), x, style.all_biases);
        let parts = joint_heads(step, &format!("{name}.attn.qkv"), normal, settings.heads, style.all_biases);
        let mixed = mix(step, parts);
        let mixed = merge_heads(step, mixed);
        let out = linear(step, &format!("{name}.attn.out"), mixed, settings.hidden, true);
        dropout(step, &format!("{name}.attn"), out)
    });
    step.builder.plus(x, attended)
}

/// The part of a layer that looks at one token at a time, added to its input.
pub(super) fn feed(step: &mut Step<'_>, name: &str, x: ValueId, style: Style) -> ValueId {
    let fed = step.scoped("mlp", |step| {
        let normal = layer_norm(step, &format!("{name}.norm2"), x, style.all_biases);
        let up = linear(step, &format!("{name}.mlp.up"), normal, step.settings.ffn, true);
        let bent = gelu(step, up);
        let down = linear(step, &format!("{name}.mlp.down"), bent, step.settings.hidden, true);
        dropout(step, &format!("{name}.mlp"), down)
    });
    step.builder.plus(x, fed)
}

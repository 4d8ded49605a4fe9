//! Decoder-only transformers: GPT, and the transformer of PartIR's experiments.

use super::layers::{attention, cross_entropy, dropout, gelu, layer_norm, linear, logits, merge_heads, split_heads};
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
    let mut x = step.scoped("embed", |step| {
        let x = step.builder.take_rows(embedding, tokens);
        if !style.positions {
            return x;
        }
        let positions = step.parameter("positions", &[settings.seq, settings.hidden]);
        let shape = step.builder.shape(x);
        let positions = step.builder.broadcast_last(positions, &shape);
        step.builder.plus(x, positions)
    });
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| block(step, &name, x, style));
    }
    let x = layer_norm(&mut step, "norm", x, style.all_biases);
    let loss = step.scoped("head", |step| {
        let logits = logits(step, x, embedding);
        cross_entropy(step, logits, targets)
    });
    step.finish(loss)
}

fn block(step: &mut Step<'_>, name: &str, x: ValueId, style: Style) -> ValueId {
    let settings = step.settings;
    let attended = step.scoped("attn", |step| {
        let normal = layer_norm(step, &format!("{name}.norm1"), x, style.all_biases);
        let joint = linear(step, &format!("{name}.attn.qkv"), normal, 3 * settings.hidden, style.all_biases);
        let parts = [0, 1, 2].map(|part| {
            let part = step.builder.slice_dim(joint, 2, part * settings.hidden, (part + 1) * settings.hidden);
            split_heads(step, part, settings.heads)
        });
        let mixed = attention(step, parts[0], parts[1], parts[2], true);
        let mixed = merge_heads(step, mixed);
        let out = linear(step, &format!("{name}.attn.out"), mixed, settings.hidden, true);
        dropout(step, &format!("{name}.attn"), out)
    });
    let x = step.builder.plus(x, attended);
    let fed = step.scoped("mlp", |step| {
        let normal = layer_norm(step, &format!("{name}.norm2"), x, style.all_biases);
        let up = linear(step, &format!("{name}.mlp.up"), normal, settings.ffn, true);
        let bent = gelu(step, up);
        let down = linear(step, &format!("{name}.mlp.down"), bent, settings.hidden, true);
        dropout(step, &format!("{name}.mlp"), down)
    });
    step.builder.plus(x, fed)
}

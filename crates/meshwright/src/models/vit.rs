//! Vision transformers: patches of an image as tokens, and one more token for its class.

use super::divides;
use super::layers::{Filter, convolution, dropout, exact_gelu, layer_norm_with, linear, self_attention};
use super::loss::cross_entropy;
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Program, Type, ValueId};

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    divides("patch", settings.patch, "image", settings.image)?;
    let mut step = Step::new("vit", settings);
    let images = Type::new(settings.dtype, &[settings.batch, settings.image, settings.image, 3]);
    let images = step.input("images", images);
    let labels = step.input("labels", Type::new(DType::I32, &[settings.batch]));
    let mut x = step.scoped("embed", |step| embed(step, images));
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| block(step, &name, x));
    }
    let loss = step.scoped("head", |step| {
        let class = step.builder.slice_dim(x, 1, 0, 1);
        let class = step.builder.reshape(class, &[settings.batch, settings.hidden]);
        let class = norm(step, "norm", class);
        let logits = linear(step, "head", class, settings.classes, true);
        cross_entropy(step, logits, labels)
    });
    step.finish(loss)
}

/// The token of the class, then one token for each patch, row by row.
fn embed(step: &mut Step<'_>, images: ValueId) -> ValueId {
    let settings = step.settings;
    let (batch, hidden) = (settings.batch, settings.hidden);
    let count = (settings.image / settings.patch).pow(2);
    let filter = Filter { size: settings.patch, stride: settings.patch, padding: 0 };
    let patches = convolution(step, "patch", images, hidden, filter, true);
    let patches = step.builder.reshape(patches, &[batch, count, hidden]);
    let class = step.parameter("class", &[hidden]);
    let class = step.builder.broadcast_last(class, &[batch, 1, hidden]);
    let tokens = step.builder.concatenate(&[class, patches], 1);
    let positions = step.parameter("positions", &[count + 1, hidden]);
    let positions = step.builder.broadcast_last(positions, &[batch, count + 1, hidden]);
    let tokens = step.builder.plus(tokens, positions);
    dropout(step, "embed", tokens)
}

fn block(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let settings = step.settings;
    let attended = step.scoped("attn", |step| {
        let normal = norm(step, &format!("{name}.norm1"), x);
        let mixed = self_attention(step, &format!("{name}.attn"), normal, settings.heads);
        dropout(step, &format!("{name}.attn"), mixed)
    });
    let x = step.builder.plus(x, attended);
    let fed = step.scoped("mlp", |step| {
        let normal = norm(step, &format!("{name}.norm2"), x);
        let up = linear(step, &format!("{name}.mlp.up"), normal, settings.ffn, true);
        let bent = exact_gelu(step, up);
        let down = linear(step, &format!("{name}.mlp.down"), bent, settings.hidden, true);
        dropout(step, &format!("{name}.mlp"), down)
    });
    step.builder.plus(x, fed)
}

/// With the term in the variance that torchvision's have.
fn norm(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    layer_norm_with(step, name, x, true, 1e-6)
}

//! A stack of dense layers.

use super::layers::{linear, relu};
use super::loss::distance;
use super::settings::Settings;
use super::step::Step;
use crate::program::{Program, Type};

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    let mut step = Step::new("mlp", settings);
    let ty = Type::new(settings.dtype, &[settings.batch, settings.hidden]);
    let inputs = step.input("inputs", ty.clone());
    let targets = step.input("targets", ty);
    let mut x = inputs;
    for layer in 0..settings.layers {
        x = step.layer(&format!("layers.{layer}"), |step| {
            let y = linear(step, &format!("layers.{layer}"), x, settings.hidden, true);
            if layer + 1 < settings.layers { relu(step, y) } else { y }
        });
    }
    let loss = step.scoped("loss", |step| distance(step, x, targets));
    step.finish(loss)
}

//! Mixtral: a decoder like Llama's in which every layer has a mixture of gated experts.
//!
//! Experts have `capacity` places for the tokens of a group, as in [`experts`](super::experts): shapes
//! are known and no expert computes more than its places. The published model leaves no token out,
//! which is what `capacity_factor` equal to `experts` computes, at the cost of every token at every
//! expert; less room leaves out choices that find their expert full. There is no term for even shares.

use super::experts::{check, expert_linear, grouped, route};
use super::layers::{dropout, rms_norm, silu};
use super::llama;
use super::settings::Settings;
use super::step::Step;
use crate::program::{Program, ValueId};

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    check(settings)?;
    llama::build_with("mixtral", settings, feed)
}

/// The experts, added to their input.
fn feed(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let settings = step.settings;
    let fed = step.scoped("moe", |step| {
        let normal = rms_norm(step, &format!("{name}.norm2"), x, llama::EPSILON);
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

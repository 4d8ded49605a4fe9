//! GShard: a GPT in which every second layer has a mixture of experts for its feed-forward part.

use super::experts::{check, expert_linear, grouped, route};
use super::gpt::{GPT, attend, embed, feed, head};
use super::layers::{dropout, gelu, layer_norm};
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Program, Type, ValueId};

/// What uneven shares of experts count beside the cross entropy.
const BALANCE_WEIGHT: f64 = 0.01;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    check(settings)?;
    let mut step = Step::new("moe", settings);
    let tokens_type = Type::new(DType::I32, &[settings.batch, settings.seq]);
    let tokens = step.input("tokens", tokens_type.clone());
    let targets = step.input("targets", tokens_type);
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);
    let mut x = embed(&mut step, embedding, tokens, GPT);
    let mut balances = Vec::new();
    for layer in 0..settings.layers {
        let name = format!("layers.{layer}");
        x = step.layer(&name, |step| {
            let x = attend(step, &name, x, GPT);
            if layer % 2 == 0 {
                return feed(step, &name, x, GPT);
            }
            let (x, balance) = feed_to_experts(step, &name, x);
            balances.push(balance);
            x
        });
    }
    let mut loss = head(&mut step, embedding, x, targets, GPT);
    for balance in balances {
        let term = step.builder.times_number(balance, BALANCE_WEIGHT);
        loss = step.builder.plus(loss, term);
    }
    step.finish(loss)
}

/// The mixture of experts, added to its input, and how unevenly it was used.
fn feed_to_experts(step: &mut Step<'_>, name: &str, x: ValueId) -> (ValueId, ValueId) {
    let settings = step.settings;
    let (fed, balance) = step.scoped("moe", |step| {
        let normal = layer_norm(step, &format!("{name}.norm2"), x, true);
        let tokens = grouped(step, normal);
        let name = format!("{name}.moe");
        let routing = route(step, &name, tokens);
        let made = routing.apply(step, tokens, |step, x| {
            let up = expert_linear(step, &format!("{name}.up"), x, settings.ffn);
            let bent = gelu(step, up);
            expert_linear(step, &format!("{name}.down"), bent, settings.hidden)
        });
        let fed = step.builder.reshape(made, &[settings.batch, settings.seq, settings.hidden]);
        (dropout(step, &name, fed), routing.balance)
    });
    (step.builder.plus(x, fed), balance)
}

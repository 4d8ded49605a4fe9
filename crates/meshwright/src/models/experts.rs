//! Mixtures of experts: which expert gets which token, and what comes back.
//!
//! Tokens are dispatched in groups of `expert_group`, as GShard does it: each expert has room for
//! `capacity` tokens of a group, and one-hot tensors of (group, token, expert, place) bring tokens to
//! their places and results back. All first choices are placed before all second ones, each in the
//! order of tokens; a choice that finds its expert full is left out. With `capacity_factor` equal to
//! `experts` there is room for all, and nothing is left out.

use smallvec::SmallVec;

use super::layers::softmax;
use super::settings::Settings;
use super::step::Step;
use crate::program::{Binary, Builder, DType, Direction, Op, Shape, Type, ValueId, Window};

/// How the tokens of all groups go to experts and come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routing {
    /// (groups, tokens, experts, places): 1 where a token stands.
    dispatch: ValueId,
    /// The same shape: the weight of what the expert makes of the token.
    combine: ValueId,
    /// GShard's term that is least when experts get even shares: the mean over groups and experts of
    /// (mean gate) * (share of first choices), times the square of the number of experts.
    pub(super) balance: ValueId,
}

/// An error unless the settings of experts go together.
pub(super) fn check(settings: &Settings) -> Result<(), String> {
    if settings.experts_per_token > settings.experts {
        let (chosen, experts) = (settings.experts_per_token, settings.experts);
        return Err(format!("`experts_per_token` = {chosen} is more than `experts` = {experts}"));
    }
    let tokens = settings.batch * settings.seq;
    super::divides("expert_group", settings.expert_group, "batch * seq", tokens)
}

/// Places of an expert for the tokens of one group.
fn capacity(settings: &Settings) -> usize {
    let share = settings.capacity_factor * settings.expert_group as f64 / settings.experts as f64;
    (share.ceil() as usize).clamp(1, settings.expert_group)
}

/// The tokens of (batch, seq, hidden) by groups: (groups, tokens, hidden).
pub(super) fn grouped(step: &mut Step<'_>, x: ValueId) -> ValueId {
    let settings = step.settings;
    let groups = settings.batch * settings.seq / settings.expert_group;
    step.builder.reshape(x, &[groups, settings.expert_group, settings.hidden])
}

/// Chooses experts for grouped tokens by a softmax in `f32` or wider. The weights of several choices
/// are scaled to a sum of 1, which makes them the softmax over the chosen alone; that of a single
/// choice is left as it is. Parameter `name.router.weight`.
pub(super) fn route(step: &mut Step<'_>, name: &str, x: ValueId) -> Routing {
    step.scoped("router", |step| {
        let settings = step.settings;
        let stored = step.stored_dtype();
        let wide = step.builder.convert(x, stored);
        let weight = step.stored_parameter(&format!("{name}.router.weight"), &[settings.hidden, settings.experts]);
        let logits = step.builder.matmul(wide, weight);
        let gates = softmax(step, logits);
        let choices = choose(step, gates);
        let mut combine = place(step, &choices[0]);
        for choice in &choices[1..] {
            let placed = place(step, choice);
            combine = step.builder.plus(combine, placed);
        }
        let zero = step.builder.full_like(combine, 0.0);
        let stands = step.builder.compare(Direction::NotEqual, combine, zero);
        let dispatch = step.builder.convert(stands, settings.dtype);
        let balance = balance(step, gates, choices[0].mask);
        let combine = step.builder.convert(combine, settings.dtype);
        Routing { dispatch, combine, balance }
    })
}

/// One choice of every token.
struct Choice {
    /// (groups, tokens, experts), true for the expert that is chosen.
    mask: ValueId,
    /// (groups, tokens): the weight of the choice.
    weight: ValueId,
    /// (groups, tokens): the place at the expert, of integers; outside the capacity where it is full.
    place: ValueId,
}

fn choose(step: &mut Step<'_>, gates: ValueId) -> Vec<Choice> {
    let count = step.settings.experts_per_token;
    let b = &mut step.builder;
    let shape = b.shape(gates);
    let chosen = b.op(Op::TopK { k: count }, &[gates], &[])[1];
    let numbers = b.iota(&Type::new(DType::I32, &shape), 2);
    let zeros = b.full_like(gates, 0.0);
    let mut taken: Option<ValueId> = None;
    let mut choices = Vec::new();
    for index in 0..count {
        let expert = b.slice_dim(chosen, 2, index, index + 1);
        let expert = b.broadcast(expert, &shape, &[0, 1, 2]);
        let mask = b.compare(Direction::Equal, numbers, expert);
        let gate = b.select(mask, gates, zeros);
        let weight = b.sum(gate, &[2]);
        // The place is the number of tokens before this one that chose the same, now or with an
        // earlier choice.
        let ones = b.convert(mask, DType::I32);
        let before = running_sum(b, ones);
        let mut before = b.minus(before, ones);
        if let Some(taken) = taken {
            let taken = b.broadcast_along(taken, &shape, 1);
            before = b.plus(before, taken);
        }
        let total = b.sum(ones, &[1]);
        taken = Some(taken.map_or(total, |taken| b.plus(taken, total)));
        let place = b.times(before, ones);
        let place = b.sum(place, &[2]);
        choices.push(Choice { mask, weight, place });
    }
    if count > 1 {
        let sum = choices[1..].iter().fold(choices[0].weight, |sum, choice| b.plus(sum, choice.weight));
        for choice in &mut choices {
            choice.weight = b.over(choice.weight, sum);
        }
    }
    choices
}

/// Sums along the tokens, each with its own element in.
fn running_sum(b: &mut Builder, ones: ValueId) -> ValueId {
    let tokens = b.shape(ones)[1];
    let window = Window {
        sizes: Shape::from_slice(&[1, tokens, 1]),
        strides: Shape::from_slice(&[1; 3]),
        base_dilation: Shape::from_slice(&[1; 3]),
        window_dilation: Shape::from_slice(&[1; 3]),
        padding: SmallVec::from_slice(&[(0, 0), (tokens as i64 - 1, 0), (0, 0)]),
    };
    let dtype = b.dtype(ones);
    let zero = b.scalar(dtype, 0.0);
    let region = b.reducer(Binary::Add, dtype);
    b.op(Op::ReduceWindow(Box::new(window)), &[ones, zero], &[region])[0]
}

/// The weight of a choice at its expert and place, zeros elsewhere.
fn place(step: &mut Step<'_>, choice: &Choice) -> ValueId {
    let capacity = capacity(step.settings);
    let b = &mut step.builder;
    let by_expert = b.shape(choice.mask);
    let shape = [by_expert[0], by_expert[1], by_expert[2], capacity];
    let weight = b.broadcast_along(choice.weight, &by_expert, 2);
    let zeros = b.full_like(weight, 0.0);
    let weight = b.select(choice.mask, weight, zeros);
    let by_place = [shape[0], shape[1], capacity];
    let numbers = b.iota(&Type::new(DType::I32, &by_place), 2);
    let place = b.broadcast_along(choice.place, &by_place, 2);
    let is_place = b.compare(Direction::Equal, numbers, place);
    let is_place = b.broadcast_along(is_place, &shape, 2);
    let weight = b.broadcast_along(weight, &shape, 3);
    let zeros = b.full_like(weight, 0.0);
    b.select(is_place, weight, zeros)
}

fn balance(step: &mut Step<'_>, gates: ValueId, first: ValueId) -> ValueId {
    let b = &mut step.builder;
    let dtype = b.dtype(gates);
    let first = b.convert(first, dtype);
    let share = b.mean(first, &[1]);
    let gate = b.mean(gates, &[1]);
    let product = b.times(share, gate);
    let mean = b.mean(product, &[0, 1]);
    let experts = step.settings.experts as f64;
    step.builder.times_number(mean, experts * experts)
}

impl Routing {
    /// What `expert` makes of (experts, groups, places, hidden), brought back to grouped tokens.
    pub(super) fn apply(
        self,
        step: &mut Step<'_>,
        x: ValueId,
        expert: impl FnOnce(&mut Step<'_>, ValueId) -> ValueId,
    ) -> ValueId {
        let dtype = step.builder.dtype(x);
        // (groups, experts, places, hidden)
        let sent = step.builder.dot(self.dispatch, x, [&[0], &[0]], [&[1], &[1]], dtype);
        let sent = step.builder.transpose(sent, &[1, 0, 2, 3]);
        let made = expert(step, sent);
        step.builder.dot(self.combine, made, [&[0], &[1]], [&[2, 3], &[0, 2]], dtype)
    }
}

/// `x w`, with weights for each expert: (experts, groups, places, inputs) to (experts, groups, places,
/// outputs). Parameter `name.weight`.
pub(super) fn expert_linear(step: &mut Step<'_>, name: &str, x: ValueId, outputs: usize) -> ValueId {
    let shape = step.builder.shape(x);
    let weight = step.parameter(&format!("{name}.weight"), &[shape[0], shape[3], outputs]);
    let dtype = step.builder.dtype(x);
    step.builder.dot(x, weight, [&[0], &[0]], [&[3], &[1]], dtype)
}

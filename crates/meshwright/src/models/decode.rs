//! Decoding with PartIR's transformer: one token at a time, by a loop that keeps keys and values.
//!
//! From a start token each, `steps` tokens are made, each the one of the largest logit. What a layer
//! made of earlier tokens stays in its caches of (batch, heads, seq, head width), which start as zeros;
//! a token sees what stands up to its own position.

use super::gpt::{PARTIR, attend_by, embed, feed};
use super::layers::layer_norm;
use super::settings::Settings;
use super::step::Step;
use crate::program::{Attention, Binary, DType, Direction, Op, Program, Type, ValueId};

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    if settings.steps > settings.seq {
        let (steps, seq) = (settings.steps, settings.seq);
        return Err(format!("`steps` = {steps} must be at most `seq` = {seq}, the room of the caches"));
    }
    if settings.dropout > 0.0 {
        return Err(format!("`dropout` is {}, must be 0 for decoding", settings.dropout));
    }
    let mut step = Step::inference("decode", settings);
    let start = step.input("tokens", Type::new(DType::I32, &[settings.batch, 1]));
    let made = step.builder.full(&Type::new(DType::I32, &[settings.batch, settings.steps]), 0.0);
    let width = settings.hidden / settings.heads;
    let cache_type = Type::new(settings.dtype, &[settings.batch, settings.heads, settings.seq, width]);
    let empty = step.builder.full(&cache_type, 0.0);
    let mut carried = vec![start, made];
    carried.extend((0..2 * settings.layers).map(|_| empty));
    let carried = counted_loop(&mut step, settings.steps, &carried, |step, position, carried| {
        let caches: Vec<[ValueId; 2]> = carried[2..].chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        let (next, caches) = one_step(step, position, carried[0], &caches);
        let zero = step.builder.scalar(DType::I32, 0.0);
        let made = step.builder.op(Op::DynamicUpdateSlice, &[carried[1], next, zero, position], &[])[0];
        let mut results = vec![next, made];
        results.extend(caches.into_iter().flatten());
        results
    });
    let mut results = vec![("tokens".to_owned(), carried[1])];
    for (layer, pair) in carried[2..].chunks_exact(2).enumerate() {
        results.push((format!("cache.layers.{layer}.key"), pair[0]));
        results.push((format!("cache.layers.{layer}.value"), pair[1]));
    }
    step.finish_with(results)
}

/// The tokens after `tokens`, which stand at `position`, and the caches with them in.
fn one_step(
    step: &mut Step<'_>,
    position: ValueId,
    tokens: ValueId,
    caches: &[[ValueId; 2]],
) -> (ValueId, Vec<[ValueId; 2]>) {
    let settings = step.settings;
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);
    let mut x = embed(step, embedding, tokens, PARTIR);
    let is_seen = seen(step, position);
    let mut next_caches = Vec::new();
    for (layer, &cache) in caches.iter().enumerate() {
        let name = format!("layers.{layer}");
        x = step.scoped(&name, |step| {
            let x = attend_by(step, &name, x, PARTIR, |step, [query, key, value]| {
                let [keys, values] = [(cache[0], key), (cache[1], value)].map(|(cache, new)| {
                    let zero = step.builder.scalar(DType::I32, 0.0);
                    step.builder.op(Op::DynamicUpdateSlice, &[cache, new, zero, zero, position, zero], &[])[0]
                });
                next_caches.push([keys, values]);
                let width = step.builder.shape(query)[3];
                let scale = 1.0 / (width as f64).sqrt();
                let attention = Attention { scale, causal: false, bias: true, statistics: false };
                step.builder.attention(&[query, keys, values, is_seen], attention)[0]
            });
            feed(step, &name, x, PARTIR)
        });
    }
    let x = layer_norm(step, "norm", x, PARTIR.all_biases);
    let next = step.scoped("head", |step| {
        let wide = step.stored_dtype();
        let logits = if settings.tied {
            step.builder.dot(x, embedding, [&[], &[]], [&[2], &[1]], wide)
        } else {
            let head = step.parameter("head.weight", &[settings.hidden, settings.vocab]);
            step.builder.dot(x, head, [&[], &[]], [&[2], &[0]], wide)
        };
        largest(step, logits)
    });
    (next, next_caches)
}

/// Which positions of a cache a token at `position` sees: (1, 1, 1, seq).
fn seen(step: &mut Step<'_>, position: ValueId) -> ValueId {
    let b = &mut step.builder;
    let ty = Type::new(DType::I32, &[1, 1, 1, step.settings.seq]);
    let numbers = b.iota(&ty, 3);
    let position = b.broadcast(position, &ty.shape, &[]);
    b.compare(Direction::LessOrEqual, numbers, position)
}

/// The position of the largest along the last dimension, the first where there are several. Two
/// plain reductions, so that the dimension can be cut.
fn largest(step: &mut Step<'_>, logits: ValueId) -> ValueId {
    let b = &mut step.builder;
    let shape = b.shape(logits);
    let last = shape.len() - 1;
    let maximum = b.maximum(logits, &[last]);
    let maximum = b.broadcast_along(maximum, &shape, last);
    let is_largest = b.compare(Direction::Equal, logits, maximum);
    let ty = Type::new(DType::I32, &shape);
    let numbers = b.iota(&ty, last);
    let end = shape[last] as f64 - 1.0;
    let ends = b.full(&ty, end);
    let candidates = b.select(is_largest, numbers, ends);
    b.reduce(Binary::Minimum, candidates, end, &[last])
}

/// `while` from 0 below `trips`: `build` makes the next carried values from the counter and these.
fn counted_loop<'s>(
    step: &mut Step<'s>,
    trips: usize,
    start: &[ValueId],
    build: impl FnOnce(&mut Step<'s>, ValueId, &[ValueId]) -> Vec<ValueId>,
) -> Vec<ValueId> {
    let mut operands = vec![step.builder.scalar(DType::I32, 0.0)];
    operands.extend(start);
    let types: Vec<Type> = operands.iter().map(|&value| step.builder.ty(value)).collect();
    let program = &mut step.builder.program;
    let [condition, body] = [(); 2].map(|()| program.add_region());
    let [in_condition, in_body] = [condition, body].map(|region| -> Vec<ValueId> {
        types.iter().map(|ty| program.add_region_argument(region, ty.clone())).collect()
    });
    let goes_on = step.inside(condition, |step| {
        let limit = step.builder.scalar(DType::I32, trips as f64);
        step.builder.compare(Direction::Less, in_condition[0], limit)
    });
    step.builder.program.regions[condition].results = vec![goes_on];
    let results = step.inside(body, |step| {
        let made = build(step, in_body[0], &in_body[1..]);
        let one = step.builder.scalar(DType::I32, 1.0);
        let mut results = vec![step.builder.plus(in_body[0], one)];
        results.extend(made);
        results
    });
    step.builder.program.regions[body].results = results;
    step.builder.op(Op::While, &operands, &[condition, body])[1..].to_vec()
}

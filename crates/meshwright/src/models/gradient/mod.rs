//! Reverse-mode differentiation over a Program.
//!
//! The rules are in `rules`, one row per op. Here is what calls them: from the loss backwards, each
//! op turns the gradients of its results into gradients of its operands.

mod control;
mod convolution;
mod elementwise;
mod index;
mod rules;
mod window;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::program::{Builder, OpId, Program, RegionId, ValueId};

/// Adds to the end of the body what computes the gradients of `loss` with respect to `of`.
///
/// The error names the op that has no gradient, or is the one that the builder holds.
pub fn gradients(builder: &mut Builder, loss: ValueId, of: &[ValueId]) -> Result<Vec<ValueId>, String> {
    builder.check()?;
    let body = builder.program.body;
    let ops = builder.program.regions[body].ops.clone();
    let active = active_values_of_body(builder, &ops, of);
    let mut gradients = Gradients::new(active);
    let one = builder.full_like(loss, 1.0);
    gradients.add(builder, loss, one);
    propagate_blocks(builder, &ops, &mut gradients)?;
    Ok(of.iter().map(|&value| gradients.take_or_zero(builder, value)).collect())
}

/// The gradients of `of` from the gradient of `made`, which ops of the body from `start` on make of them. What is added
/// stands where the builder does.
pub(crate) fn pullback(
    builder: &mut Builder,
    start: usize,
    made: ValueId,
    gradient: ValueId,
    of: &[ValueId],
) -> Result<Vec<ValueId>, String> {
    let ops = builder.program.body().ops[start..].to_vec();
    let mut gradients = Gradients::new(active_values(&builder.program, &ops, of));
    gradients.add(builder, made, gradient);
    for &op in ops.iter().rev() {
        let operation = builder.program.ops[op].clone();
        let known: Vec<Option<ValueId>> =
            operation.results.iter().map(|result| gradients.known.get(result).copied()).collect();
        if known.iter().any(Option::is_some) {
            rules::apply(builder, &operation, &known, &mut gradients)?;
            builder.check()?;
        }
    }
    Ok(of.iter().map(|&value| gradients.take_or_zero(builder, value)).collect())
}

/// The gradients known so far, by value.
struct Gradients {
    known: FxHashMap<ValueId, ValueId>,
    /// The values that depend on what is differentiated by; others need no gradient.
    active: FxHashSet<ValueId>,
}

impl Gradients {
    fn new(active: FxHashSet<ValueId>) -> Gradients {
        Gradients { known: FxHashMap::default(), active }
    }

    fn add(&mut self, builder: &mut Builder, value: ValueId, gradient: ValueId) {
        if !self.active.contains(&value) {
            return;
        }
        let sum = match self.known.get(&value) {
            Some(&other) => builder.plus(other, gradient),
            None => gradient,
        };
        self.known.insert(value, sum);
    }

    fn take_or_zero(&mut self, builder: &mut Builder, value: ValueId) -> ValueId {
        self.known.remove(&value).unwrap_or_else(|| builder.full_like(value, 0.0))
    }
}

/// The float values of the body that depend on some of `of`, but for those no gradient goes through.
fn active_values_of_body(builder: &Builder, ops: &[OpId], of: &[ValueId]) -> FxHashSet<ValueId> {
    spread(&builder.program, ops, of, |value| !builder.is_stopped(value))
}

/// The float values that depend on some of `of`.
fn active_values(program: &Program, ops: &[OpId], of: &[ValueId]) -> FxHashSet<ValueId> {
    spread(program, ops, of, |_| true)
}

fn spread(
    program: &Program,
    ops: &[OpId],
    of: &[ValueId],
    may_be_active: impl Fn(ValueId) -> bool,
) -> FxHashSet<ValueId> {
    let mut active: FxHashSet<ValueId> = of.iter().copied().collect();
    for &op in ops {
        let operation = &program.ops[op];
        if program.outer_reads(op).iter().any(|value| active.contains(value)) {
            let floats = operation.results.iter().copied().filter(|&result| program.dtype(result).is_float());
            active.extend(floats.filter(|&result| may_be_active(result)));
        }
    }
    active
}

/// The values that a region reads from around it, each once, in order of first use.
fn captures(program: &Program, region: RegionId) -> Vec<ValueId> {
    let mut inside: FxHashSet<ValueId> = FxHashSet::default();
    let mut found: Vec<ValueId> = Vec::new();
    collect_captures(program, region, &mut inside, &mut found);
    found
}

fn collect_captures(program: &Program, region: RegionId, inside: &mut FxHashSet<ValueId>, found: &mut Vec<ValueId>) {
    let region = &program.regions[region];
    inside.extend(&region.arguments);
    for &op in &region.ops {
        let operation = &program.ops[op];
        for operand in &operation.operands {
            if !inside.contains(operand) && !found.contains(operand) {
                found.push(*operand);
            }
        }
        for &inner in &operation.regions {
            collect_captures(program, inner, inside, found);
        }
        inside.extend(&operation.results);
    }
    for result in &region.results {
        if !inside.contains(result) && !found.contains(result) {
            found.push(*result);
        }
    }
}

/// Goes backwards over ops, through recomputed blocks as a whole.
fn propagate_blocks(builder: &mut Builder, ops: &[OpId], gradients: &mut Gradients) -> Result<(), String> {
    let mut end = ops.len();
    for block in builder.blocks().into_iter().rev() {
        propagate(builder, &ops[block.end..end], gradients)?;
        recompute(builder, &ops[block.start..block.end], gradients)?;
        end = block.start;
    }
    propagate(builder, &ops[..end], gradients)
}

/// Goes backwards over ops.
fn propagate(builder: &mut Builder, ops: &[OpId], gradients: &mut Gradients) -> Result<(), String> {
    for &op in ops.iter().rev() {
        let operation = builder.program.ops[op].clone();
        let known: Vec<Option<ValueId>> =
            operation.results.iter().map(|result| gradients.known.get(result).copied()).collect();
        if known.iter().all(Option::is_none) {
            continue;
        }
        let location = builder.backward_location(operation.location);
        builder.located(location, |builder| rules::apply(builder, &operation, &known, gradients))?;
        builder.check()?;
    }
    Ok(())
}

/// Goes backwards over a block whose values are made again from its inputs, so that they need not be
/// kept. The inputs come through a barrier together with the gradients of what the block made:
/// nothing is made again before these are there, and engines drop from a barrier what nobody reads there.
fn recompute(builder: &mut Builder, ops: &[OpId], gradients: &mut Gradients) -> Result<(), String> {
    let inputs = block_inputs(&builder.program, ops);
    let location = ops.first().map(|&op| builder.program.ops[op].location).unwrap_or(Program::UNKNOWN_LOCATION);
    let location = builder.backward_location(location);
    let results: Vec<ValueId> = ops.iter().flat_map(|&op| builder.program.ops[op].results.clone()).collect();
    let awaited: Vec<ValueId> = results.iter().copied().filter(|result| gradients.known.contains_key(result)).collect();
    let known = awaited.iter().map(|result| gradients.known[result]);
    let values: Vec<ValueId> = inputs.iter().copied().chain(known).collect();
    let held = builder.located(location, |builder| builder.barrier(&values));
    let (held_inputs, held_gradients) = held.split_at(inputs.len());
    gradients.known.extend(awaited.into_iter().zip(held_gradients.iter().copied()));
    let mut map: FxHashMap<ValueId, ValueId> = inputs.iter().copied().zip(held_inputs.iter().copied()).collect();
    let copies = copy_ops(builder, ops, &mut map);
    // What was active in the block is active in its copy.
    for &old in inputs.iter().chain(&results) {
        if gradients.active.contains(&old) {
            gradients.active.insert(map[&old]);
        }
    }
    for &result in &results {
        if let Some(gradient) = gradients.known.remove(&result) {
            gradients.add(builder, map[&result], gradient);
        }
    }
    propagate(builder, &copies, gradients)?;
    for input in inputs {
        if let Some(gradient) = gradients.known.remove(&map[&input]) {
            gradients.add(builder, input, gradient);
        }
    }
    Ok(())
}

/// The values that a run of ops reads and does not make, each once, in order of first use.
fn block_inputs(program: &Program, ops: &[OpId]) -> Vec<ValueId> {
    let made: FxHashSet<ValueId> = ops.iter().flat_map(|&op| program.ops[op].results.iter().copied()).collect();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    let mut inputs = Vec::new();
    for &op in ops {
        for value in program.outer_reads(op) {
            if !made.contains(&value) && seen.insert(value) {
                inputs.push(value);
            }
        }
    }
    inputs
}

/// Copies ops to where the builder stands. `map` says what values become, and learns the results.
fn copy_ops(builder: &mut Builder, ops: &[OpId], map: &mut FxHashMap<ValueId, ValueId>) -> Vec<OpId> {
    let renamed = |map: &FxHashMap<ValueId, ValueId>, value: ValueId| map.get(&value).copied().unwrap_or(value);
    let mut copies = Vec::with_capacity(ops.len());
    for &op in ops {
        let operation = builder.program.ops[op].clone();
        let operands: Vec<ValueId> = operation.operands.iter().map(|&operand| renamed(map, operand)).collect();
        let mut regions = Vec::with_capacity(operation.regions.len());
        for &region in &operation.regions {
            let source = builder.program.regions[region].clone();
            let copy = builder.program.add_region();
            for &argument in &source.arguments {
                let ty = builder.ty(argument);
                let value = builder.program.add_region_argument(copy, ty);
                map.insert(argument, value);
            }
            builder.inside(copy, |builder| copy_ops(builder, &source.ops, map));
            builder.program.regions[copy].results = source.results.iter().map(|&value| renamed(map, value)).collect();
            regions.push(copy);
        }
        let location = builder.backward_location(operation.location);
        let (copy, results) = builder.located(location, |builder| builder.add(operation.op, &operands, &regions));
        map.extend(operation.results.iter().copied().zip(results));
        copies.extend(copy);
    }
    copies
}

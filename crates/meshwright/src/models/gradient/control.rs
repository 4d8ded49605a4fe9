//! Gradients of branches and loops.

use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::Rule;
use super::{Gradients, active_values, captures, copy_ops, propagate};
use crate::program::{
    Binary, Builder, CountedLoop, DType, Definition, Direction, Op, OpId, RegionId, Role, Type, Value, ValueId,
};

pub(super) fn if_else(rule: &mut Rule<'_>) -> Result<(), String> {
    branches(rule, Op::If)
}

pub(super) fn case(rule: &mut Rule<'_>) -> Result<(), String> {
    branches(rule, Op::Case)
}

/// The same choice again: each branch computes the gradients of what the branches read from outside.
fn branches(rule: &mut Rule<'_>, op: Op) -> Result<(), String> {
    let sources = rule.operation.regions.clone();
    let mut read: Vec<ValueId> = Vec::new();
    for &source in &sources {
        for value in captures(&rule.builder.program, source) {
            if rule.gradients.active.contains(&value) && !read.contains(&value) {
                read.push(value);
            }
        }
    }
    let mut regions = Vec::new();
    for &source in &sources {
        let region = rule.builder.program.add_region();
        let source = rule.builder.program.regions[source].clone();
        let known = rule.known;
        let results = rule.builder.inside(region, |builder| {
            let mut map = FxHashMap::default();
            let copies = copy_ops(builder, &source.ops, &mut map);
            let active = active_values(&builder.program, &copies, &read);
            let mut gradients = Gradients::new(active);
            for (result, gradient) in source.results.iter().zip(known) {
                if let Some(gradient) = gradient {
                    gradients.add(builder, map.get(result).copied().unwrap_or(*result), *gradient);
                }
            }
            propagate(builder, &copies, &mut gradients)?;
            Ok::<_, String>(read.iter().map(|&value| gradients.take_or_zero(builder, value)).collect::<Vec<_>>())
        })?;
        rule.builder.program.regions[region].results = results;
        regions.push(region);
    }
    if read.is_empty() {
        return Ok(());
    }
    let choice = rule.operand(0);
    let results = rule.builder.op(op, &[choice], &regions);
    for (value, gradient) in read.into_iter().zip(results) {
        rule.gradients.add(rule.builder, value, gradient);
    }
    Ok(())
}

/// A counted loop: the forward loop keeps what changes from trip to trip, and a loop in the other
/// order makes each trip again from it and goes backwards over it.
pub(super) fn while_loop(rule: &mut Rule<'_>) -> Result<(), String> {
    let op = producer_of(rule);
    let Some(counted) = rule.builder.program.counted_loop(op) else {
        return Err(rule.refusal(" where the number of trips is not known"));
    };
    let body = rule.operation.regions[1];
    let outside: Vec<ValueId> = captures(&rule.builder.program, body)
        .into_iter()
        .filter(|value| rule.gradients.active.contains(value))
        .collect();
    let active = active_arguments(rule, body, &outside);
    let kept = keep_carried(rule.builder, op, &counted);
    let backward = Backward { counted: &counted, body, kept: &kept, active: &active, outside: &outside };
    let gradients = backward.run(rule)?;
    for (index, gradient) in gradients.carried {
        let operand = rule.operand(index);
        rule.gradients.add(rule.builder, operand, gradient);
    }
    for (&value, gradient) in outside.iter().zip(gradients.outside) {
        rule.gradients.add(rule.builder, value, gradient);
    }
    Ok(())
}

fn producer_of(rule: &Rule<'_>) -> OpId {
    match rule.builder.program.values[rule.result(0)].definition {
        Definition::Result { op, .. } => op,
        Definition::Argument { .. } => unreachable!("a result is made by an op"),
    }
}

/// Which carried values need gradients: those that start active or become so in some trip.
fn active_arguments(rule: &Rule<'_>, body: RegionId, outside: &[ValueId]) -> Vec<bool> {
    let program = &rule.builder.program;
    let region = &program.regions[body];
    let mut active: Vec<bool> = (0..region.arguments.len()).map(|index| rule.wants(index)).collect();
    loop {
        let starts = region.arguments.iter().zip(&active).filter(|(_, active)| **active).map(|(value, _)| *value);
        let starts: Vec<ValueId> = starts.chain(outside.iter().copied()).collect();
        let reached = active_values(program, &region.ops, &starts);
        let next: Vec<bool> =
            region.results.iter().zip(&active).map(|(result, &active)| active || reached.contains(result)).collect();
        if next == active {
            return active;
        }
        active = next;
    }
}

/// Makes the loop stack the value of every carried value at the start of each trip; gives the stacks
/// by the number of the carried value.
fn keep_carried(builder: &mut Builder, op: OpId, counted: &CountedLoop) -> FxHashMap<usize, ValueId> {
    let mut kept = FxHashMap::default();
    let [condition, body] = [0, 1].map(|index| builder.program.ops[op].regions[index]);
    let changing = counted.roles.iter().enumerate().filter(|(_, role)| **role == Role::Carried);
    let changing: Vec<usize> = changing.map(|(index, _)| index).collect();
    for index in changing {
        let argument = builder.program.regions[body].arguments[index];
        let ty = builder.ty(argument);
        let mut shape = vec![counted.trips];
        shape.extend(&ty.shape);
        let stacked = ty.with_shape(&shape);
        // Before the loop: the op stands in the region of the builder, so the empty stack is made
        // there and moved in front of it.
        let empty = builder.made_before(op, |builder| builder.full(&stacked, 0.0));
        builder.program.add_region_argument(condition, stacked.clone());
        let stack = builder.program.add_region_argument(body, stacked.clone());
        let written = builder.inside(body, |builder| {
            let counter = builder.program.regions[body].arguments[counted.counter];
            let trip = trip_of(builder, counter, counted);
            let mut row = vec![1];
            row.extend(&ty.shape);
            let row = builder.reshape(argument, &row);
            let zero = builder.scalar(DType::I32, 0.0);
            let mut operands = vec![stack, row, trip];
            operands.extend(ty.shape.iter().map(|_| zero));
            builder.op(Op::DynamicUpdateSlice, &operands, &[])[0]
        });
        builder.program.regions[body].results.push(written);
        let position = builder.program.ops[op].results.len() as u32;
        let definition = Definition::Result { op, index: position };
        let result = builder.program.values.push(Value { ty: stacked, definition });
        builder.program.ops[op].operands.push(empty);
        builder.program.ops[op].results.push(result);
        kept.insert(index, result);
    }
    kept
}

/// The number of the trip, from the counter.
fn trip_of(builder: &mut Builder, counter: ValueId, counted: &CountedLoop) -> ValueId {
    let counter = builder.convert(counter, DType::I32);
    if counted.start == 0 && counted.step == 1 {
        return counter;
    }
    let start = builder.scalar(DType::I32, counted.start as f64);
    let step = builder.scalar(DType::I32, counted.step as f64);
    let passed = builder.minus(counter, start);
    builder.over(passed, step)
}

struct Backward<'b> {
    counted: &'b CountedLoop,
    body: RegionId,
    kept: &'b FxHashMap<usize, ValueId>,
    active: &'b [bool],
    outside: &'b [ValueId],
}

struct LoopGradients {
    carried: Vec<(usize, ValueId)>,
    outside: Vec<ValueId>,
}

impl Backward<'_> {
    fn run(&self, rule: &mut Rule<'_>) -> Result<LoopGradients, String> {
        let carried: Vec<usize> = (0..self.active.len()).filter(|&index| self.active[index]).collect();
        let builder = &mut *rule.builder;
        let mut starts = vec![builder.scalar(DType::I32, 0.0)];
        for &index in &carried {
            let known = rule.known.get(index).copied().flatten();
            starts.push(known.unwrap_or_else(|| builder.full_like(rule.operation.operands[index], 0.0)));
        }
        for &value in self.outside {
            starts.push(builder.full_like(value, 0.0));
        }
        let types: Vec<Type> = starts.iter().map(|&start| builder.ty(start)).collect();
        let condition = self.condition(builder, &types);
        let body = builder.program.add_region();
        let arguments: Vec<ValueId> =
            types.iter().map(|ty| builder.program.add_region_argument(body, ty.clone())).collect();
        let operands = rule.operation.operands.clone();
        let results = builder.inside(body, |builder| self.trip(builder, &operands, &carried, &arguments))?;
        builder.program.regions[body].results = results;
        let made = builder.op(Op::While, &starts, &[condition, body]);
        Ok(LoopGradients {
            carried: carried.iter().copied().zip(made[1..].iter().copied()).collect(),
            outside: made[1 + carried.len()..].to_vec(),
        })
    }

    fn condition(&self, builder: &mut Builder, types: &[Type]) -> RegionId {
        let region = builder.program.add_region();
        let arguments: Vec<ValueId> =
            types.iter().map(|ty| builder.program.add_region_argument(region, ty.clone())).collect();
        let goes_on = builder.inside(region, |builder| {
            let trips = builder.scalar(DType::I32, self.counted.trips as f64);
            builder.compare(Direction::Less, arguments[0], trips)
        });
        builder.program.regions[region].results = vec![goes_on];
        region
    }

    /// One trip, made again and gone over backwards.
    fn trip(
        &self,
        builder: &mut Builder,
        operands: &[ValueId],
        carried: &[usize],
        arguments: &[ValueId],
    ) -> Result<Vec<ValueId>, String> {
        let source = builder.program.regions[self.body].clone();
        let last = builder.scalar(DType::I32, self.counted.trips as f64 - 1.0);
        let trip = builder.minus(last, arguments[0]);
        let count = self.counted.roles.len();
        let mut map: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let in_trip: Vec<ValueId> = operands[..count]
            .iter()
            .enumerate()
            .map(|(index, &operand)| self.value_in_trip(builder, index, operand, trip))
            .collect();
        // The stacks that the forward loop was given are not made again.
        let ops: Vec<OpId> = source.ops.iter().copied().filter(|op| !self.writes_stack(builder, *op)).collect();
        // An operand that the loop passes on is seen from here as itself; its gradient in one trip is
        // that of a stand-in, so that it is not mixed up with what the trip reads from outside.
        let held = builder.told_apart(&in_trip);
        map.extend(source.arguments.iter().copied().zip(held.iter().copied()));
        let copies = copy_ops(builder, &ops, &mut map);
        let starts: Vec<ValueId> =
            carried.iter().map(|&index| held[index]).chain(self.outside.iter().copied()).collect();
        let mut active = active_values(&builder.program, &copies, &starts);
        active.extend(starts.iter().copied().collect::<FxHashSet<_>>());
        let mut gradients = Gradients::new(active);
        for (position, &index) in carried.iter().enumerate() {
            if source.results[index] != source.arguments[index] {
                let result = map.get(&source.results[index]).copied().unwrap_or(source.results[index]);
                gradients.add(builder, result, arguments[1 + position]);
            }
        }
        propagate(builder, &copies, &mut gradients)?;
        let one = builder.scalar(DType::I32, 1.0);
        let mut results = vec![builder.plus(arguments[0], one)];
        for (position, &index) in carried.iter().enumerate() {
            let gradient = gradients.known.remove(&held[index]);
            let passes_on = source.results[index] == source.arguments[index];
            let before = arguments[1 + position];
            results.push(match (gradient, passes_on) {
                (Some(gradient), true) => builder.plus(before, gradient),
                (None, true) => before,
                (Some(gradient), false) => gradient,
                (None, false) => builder.full_like(before, 0.0),
            });
        }
        for (position, &value) in self.outside.iter().enumerate() {
            let before = arguments[1 + carried.len() + position];
            let gradient = gradients.known.remove(&value);
            results.push(gradient.map_or(before, |gradient| builder.plus(before, gradient)));
        }
        Ok(results)
    }

    /// What a carried value was at the start of a trip.
    fn value_in_trip(&self, builder: &mut Builder, index: usize, operand: ValueId, trip: ValueId) -> ValueId {
        let ty = builder.ty(operand);
        match self.counted.roles[index] {
            Role::Invariant | Role::StackedInput { .. } => operand,
            // Only written: its value does not matter.
            Role::StackedOutput { .. } => builder.full(&ty, 0.0),
            Role::Counter => {
                let step = builder.scalar(DType::I32, self.counted.step as f64);
                let start = builder.scalar(DType::I32, self.counted.start as f64);
                let passed = builder.binary(Binary::Multiply, trip, step);
                let counter = builder.plus(passed, start);
                builder.convert(counter, ty.dtype)
            }
            Role::Carried => {
                let zero = builder.scalar(DType::I32, 0.0);
                let mut slice = vec![self.kept[&index], trip];
                slice.extend(ty.shape.iter().map(|_| zero));
                let mut sizes = crate::program::Shape::from_slice(&[1]);
                sizes.extend(ty.shape.iter().copied());
                let row = builder.op(Op::DynamicSlice { sizes }, &slice, &[])[0];
                builder.reshape(row, &ty.shape)
            }
        }
    }

    /// Whether an op of the body writes one of the stacks that were added to it.
    fn writes_stack(&self, builder: &Builder, op: OpId) -> bool {
        let program = &builder.program;
        let added = &program.regions[self.body].arguments[self.counted.roles.len()..];
        let operation = &program.ops[op];
        operation.op == Op::DynamicUpdateSlice && added.contains(&operation.operands[0])
    }
}

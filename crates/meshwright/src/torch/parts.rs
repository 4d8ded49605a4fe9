//! Where a step is cut into functions.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::values::Form;
use super::writer::Writer;
use crate::program::{Id, Op, OpId, Program, ValueId, is_heavy};

/// A function of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) ops: Vec<OpId>,
    /// What earlier functions leave to it, in the order of `saves` of the one before; gradients come first.
    pub(super) takes: Vec<ValueId>,
    /// Numbers of the results that it gives.
    pub(super) gives: Vec<usize>,
    /// What it leaves to the next function.
    pub(super) saves: Vec<ValueId>,
    /// Arguments that it overwrites, and the results that they become.
    pub(super) writes: Vec<(usize, usize)>,
}

/// The whole program as one function.
pub(super) fn whole(writer: &Writer<'_>) -> Vec<Part> {
    let program = writer.program;
    let gives = (0..program.results.len()).collect();
    vec![Part { name: "run", ops: program.body().ops.clone(), gives, ..Part::default() }]
}

/// When results are there: with the loss, with the gradients, or after the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Forward,
    Backward,
    Update,
}

fn time(name: &str) -> Time {
    let root = name.split('.').next().unwrap_or_default();
    match root {
        "loss" | "buffers" => Time::Forward,
        "grads" => Time::Backward,
        _ => Time::Update,
    }
}

/// `forward`, `backward` and `update`. An op runs in the first function that needs it. The update starts from the
/// gradients as they are given to the user, who may change them.
pub(super) fn step_parts(writer: &Writer<'_>) -> Vec<Part> {
    let program = writer.program;
    let numbers = |wanted: Time| -> Vec<usize> {
        let results = program.results.iter().enumerate();
        results.filter(|(_, result)| time(&result.name) == wanted).map(|(number, _)| number).collect()
    };
    let values = |numbers: &[usize]| -> Vec<ValueId> {
        let results = &program.body().results;
        numbers.iter().map(|&number| results[number]).collect()
    };
    let (first, second, third) = (numbers(Time::Forward), numbers(Time::Backward), numbers(Time::Update));
    let gradients = values(&second);
    let forward = Needs::of(writer, &values(&first), &|_| false, &FxHashSet::default());
    let backward = Needs::of(writer, &gradients, &|op| forward.ops.contains(&op), &FxHashSet::default());
    let is_early = |op: OpId| forward.ops.contains(&op) || backward.ops.contains(&op);
    let light = light_ops(program);
    let is_left = |op: OpId| is_early(op) && !light.contains(&op);
    let update = Needs::of(writer, &values(&third), &is_left, &gradients.iter().copied().collect());

    let from_forward = |value: &ValueId| program.producer(*value).is_some_and(|op| forward.ops.contains(&op));
    let kept: Vec<ValueId> = update.left.iter().copied().filter(|value| !gradients.contains(value)).collect();
    let mut saved = backward.left.clone();
    saved.extend(kept.iter().filter(|value| from_forward(value)));
    let saved: Vec<ValueId> = saved.into_iter().collect();
    let takes: Vec<ValueId> = gradients.iter().chain(&kept).copied().collect();
    let writes = third.iter().filter_map(|&result| Some((alias(program, result)?, result))).collect();
    let parts = vec![
        Part { name: "forward", ops: forward.in_order(program), gives: first, saves: saved.clone(), ..Part::default() },
        Part {
            name: "backward",
            ops: backward.in_order(program),
            takes: saved,
            gives: second,
            saves: kept,
            ..Part::default()
        },
        Part {
            name: "update",
            ops: update.by_result(program, &values(&by_parameter(program, &third))),
            takes,
            writes,
            ..Part::default()
        },
    ];
    parts
}

/// Results of an update with all that belongs to a parameter together: `params.layer.weight` and `opt.exp_avg.layer.weight`.
fn by_parameter(program: &Program, numbers: &[usize]) -> Vec<usize> {
    let path = |number: usize| {
        let name = &program.results[number].name;
        name.strip_prefix("params.").or_else(|| name.splitn(3, '.').nth(2)).unwrap_or(name)
    };
    let mut first: FxHashMap<&str, usize> = FxHashMap::default();
    numbers.iter().for_each(|&number| _ = first.entry(path(number)).or_insert(number));
    let mut ordered = numbers.to_vec();
    ordered.sort_by_key(|&number| (first[path(number)], number));
    ordered
}

/// The argument whose next value a result is.
fn alias(program: &Program, result: usize) -> Option<usize> {
    let name = &program.results[result].name;
    program.arguments.iter().position(|argument| argument.alias == Some(result) || argument.name == *name)
}

/// What some values are made by.
struct Needs {
    ops: FxHashSet<OpId>,
    /// What ops that are left to others make of it.
    left: BTreeSet<ValueId>,
}

impl Needs {
    /// Ops that are left to others are not followed; what is nothing but numbers is made again wherever it is read.
    fn of(
        writer: &Writer<'_>,
        targets: &[ValueId],
        is_left: &dyn Fn(OpId) -> bool,
        given: &FxHashSet<ValueId>,
    ) -> Needs {
        let program = writer.program;
        let mut wanted: FxHashSet<ValueId> = targets.iter().copied().filter(|value| !given.contains(value)).collect();
        let mut needs = Needs { ops: FxHashSet::default(), left: BTreeSet::new() };
        for &op in program.body().ops.iter().rev() {
            let results = &program.ops[op].results;
            if !results.iter().any(|result| wanted.contains(result)) {
                continue;
            }
            let is_number = results.iter().all(|&result| writer.form(result) != &Form::Tensor);
            if is_left(op) && !is_number {
                needs.left.extend(results.iter().filter(|result| wanted.contains(result)));
                continue;
            }
            needs.ops.insert(op);
            wanted.extend(program.outer_reads(op).into_iter().filter(|value| !given.contains(value)));
        }
        needs
    }

    /// All that one result needs, then what the next needs besides. Much of an update needs no gradient and stands at the
    /// start of a program; in that order it would be there for all parameters at once.
    fn by_result(&self, program: &Program, results: &[ValueId]) -> Vec<OpId> {
        let mut order = Vec::with_capacity(self.ops.len());
        let mut known: FxHashSet<OpId> = FxHashSet::default();
        // Ops to come to, the last first; the second time all that they read is there.
        let mut open: Vec<(OpId, bool)> = Vec::new();
        let maker = |value: ValueId| program.producer(value).filter(|op| self.ops.contains(op));
        for &result in results {
            open.extend(maker(result).map(|op| (op, false)));
            while let Some((op, is_ready)) = open.pop() {
                if is_ready {
                    order.push(op);
                } else if known.insert(op) {
                    open.push((op, true));
                    open.extend(program.outer_reads(op).into_iter().rev().filter_map(maker).map(|op| (op, false)));
                }
            }
        }
        order
    }

    fn in_order(&self, program: &Program) -> Vec<OpId> {
        program.body().ops.iter().copied().filter(|op| self.ops.contains(op)).collect()
    }
}

/// Ops that arguments alone decide and that cost little, such as the transpose of a parameter: an update makes them again.
fn light_ops(program: &Program) -> FxHashSet<OpId> {
    let mut light = FxHashSet::default();
    for &op in &program.body().ops {
        let operation = &program.ops[op];
        let is_plain = operation.regions.is_empty() && !operation.op.is_collective() && !is_heavy(&operation.op);
        let is_random = matches!(operation.op, Op::Rng { .. } | Op::RngBitGenerator { .. });
        let reads_light = operation.operands.iter().all(|&value| match program.producer(value) {
            Some(producer) => light.contains(&producer),
            None => true,
        });
        if is_plain && !is_random && !operation.op.has_side_effect() && reads_light {
            light.insert(op);
        }
    }
    light
}

/// For every value the arguments that it may be a view of.
pub(super) fn roots(program: &Program) -> Vec<Vec<ValueId>> {
    let mut roots: Vec<Vec<ValueId>> = vec![Vec::new(); program.values.len()];
    for &argument in &program.body().arguments {
        roots[argument.index()].push(argument);
    }
    for &op in &program.body().ops {
        let operation = &program.ops[op];
        let may_be_view = matches!(
            operation.op,
            Op::BroadcastInDim(_)
                | Op::Case
                | Op::Convert { .. }
                | Op::DynamicSlice { .. }
                | Op::If
                | Op::OptimizationBarrier
                | Op::Pad(_)
                | Op::Reshape { .. }
                | Op::Select
                | Op::Slice(_)
                | Op::Transpose { .. }
                | Op::While
        );
        if may_be_view {
            let mut found: Vec<ValueId> =
                program.outer_reads(op).iter().flat_map(|value| roots[value.index()].clone()).collect();
            found.sort_unstable();
            found.dedup();
            operation.results.iter().for_each(|result| roots[result.index()].clone_from(&found));
        }
    }
    roots
}

//! Recomputation: values that are computed again where they are needed late, instead of kept.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Copier, Id, Op, OpId, Program, RegionId, Type, ValueId};

/// What is computed again at one time, and read by late ops from then on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// In program order.
    pub(crate) ops: Vec<OpId>,
    /// What late ops, and groups, read of it.
    pub(crate) read: BTreeSet<ValueId>,
    /// A late value that must be there before anything is computed again; where there is none, an operand of
    /// the first reader.
    pub(crate) after: Option<ValueId>,
}

/// What is done late that could be done early.
pub(crate) struct Recomputation<'a> {
    /// Whether an op reads what is computed again, where there is such a thing.
    pub(crate) is_late: &'a dyn Fn(OpId) -> bool,
    pub(crate) groups: Vec<Group>,
    /// Late ops and the operands that engines must not prepare for them before they can run.
    pub(crate) delayed: FxHashSet<(OpId, ValueId)>,
}

/// The program with every group computed again before the first late op that reads of it, behind a barrier
/// that keeps engines from merging the two, and from beginning before a gradient is there. Gives for each op the one
/// of the program given that it is, once or again.
pub(crate) fn recompute(program: &Program, recomputation: Recomputation<'_>) -> (Program, Vec<Option<OpId>>) {
    let Recomputation { is_late, groups, delayed } = recomputation;
    let mut copier = Copier::new(program);
    let body = copier.new.body;
    let (waiting, values) = (FxHashMap::default(), FxHashMap::default());
    let is_constant = constants(program);
    let mut again = Again { is_late, delayed, groups: Vec::new(), waiting, values, is_constant };
    groups.into_iter().for_each(|group| again.add(group));
    copier.copy_arguments(program.body, body);
    for &op in &program.body().ops {
        if is_late(op) {
            again.copy_late(&mut copier, op, body);
        } else {
            copier.copy_whole(op, body);
        }
    }
    copier.copy_results(program.body, body);
    copier.finish()
}

/// Groups that are still to be computed again, and the values that have been.
struct Again<'a> {
    is_late: &'a dyn Fn(OpId) -> bool,
    delayed: FxHashSet<(OpId, ValueId)>,
    /// `None` once it has been computed again.
    groups: Vec<Option<Group>>,
    /// The group that makes a value again.
    waiting: FxHashMap<ValueId, usize>,
    values: FxHashMap<ValueId, ValueId>,
    is_constant: Vec<bool>,
}

impl Again<'_> {
    fn add(&mut self, group: Group) {
        let number = self.groups.len();
        self.waiting.extend(group.read.iter().map(|&value| (value, number)));
        self.groups.push(Some(group));
    }

    /// Copies a late op, which reads what was computed again.
    fn copy_late(&mut self, copier: &mut Copier<'_>, op: OpId, to: RegionId) {
        let mut read = copier.old.outer_reads(op);
        read.sort_unstable();
        read.dedup();
        self.make(copier, &read, op, to);
        let delayed: Vec<ValueId> = read.iter().copied().filter(|&value| self.delayed.contains(&(op, value))).collect();
        let latest: Vec<ValueId> = delayed.iter().map(|&value| self.latest(copier, value)).collect();
        let mut now: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        if !delayed.is_empty() {
            let fenced = self.fence(copier, &latest, op, None, to);
            now.extend(delayed.into_iter().zip(fenced));
        }
        let meaning = |value: &ValueId| now.get(value).or(self.values.get(value)).copied();
        let meanings: Vec<(ValueId, ValueId)> =
            read.iter().filter_map(|value| Some((*value, meaning(value)?))).collect();
        with_meanings(copier, &meanings, |copier| _ = copier.copy_whole(op, to));
    }

    /// Computes the groups again that make some values, for an op that is about to read them.
    fn make(&mut self, copier: &mut Copier<'_>, values: &[ValueId], reader: OpId, to: RegionId) {
        for value in values {
            let Some(group) = self.waiting.get(value).and_then(|&number| self.groups[number].take()) else { continue };
            // What the program has yet to compute is computed again later.
            let (now, later): (Vec<OpId>, Vec<OpId>) = group.ops.iter().partition(|&&other| other < reader);
            self.recompute(copier, &now, &group, reader, to);
            if !later.is_empty() {
                let made: FxHashSet<ValueId> = results(copier.old, &later).collect();
                let read = group.read.iter().copied().filter(|value| made.contains(value)).collect();
                self.add(Group { ops: later, read, after: group.after });
            }
        }
    }

    /// What a value is to late ops.
    fn latest(&self, copier: &Copier<'_>, value: ValueId) -> ValueId {
        self.values.get(&value).copied().unwrap_or_else(|| copier.value(value))
    }

    fn recompute(&mut self, copier: &mut Copier<'_>, ops: &[OpId], group: &Group, reader: OpId, to: RegionId) {
        let inputs = self.inputs(copier.old, ops);
        self.make(copier, &inputs, reader, to);
        let latest: Vec<ValueId> = inputs.iter().map(|&value| self.latest(copier, value)).collect();
        let fenced = self.fence(copier, &latest, reader, group.after, to);
        let made: Vec<ValueId> = results(copier.old, ops).collect();
        let firsts: Vec<(ValueId, ValueId)> = made.iter().map(|&value| (value, copier.value(value))).collect();
        let meanings: Vec<(ValueId, ValueId)> = inputs.into_iter().zip(fenced).collect();
        with_meanings(copier, &meanings, |copier| ops.iter().for_each(|&op| _ = copier.copy_whole(op, to)));
        for (value, first) in firsts {
            if group.read.contains(&value) {
                self.values.insert(value, copier.value(value));
            }
            copier.set_value(value, first);
        }
    }

    /// What ops read that must come through a barrier, or engines would see that nothing is new. Constants cost
    /// nothing. Arguments are there anyway, and need no barrier unless an op reads nothing else.
    fn inputs(&self, program: &Program, ops: &[OpId]) -> Vec<ValueId> {
        let made: FxHashSet<ValueId> = results(program, ops).collect();
        let is_argument = |value: &ValueId| program.producer(*value).is_none();
        let mut inputs = BTreeSet::new();
        for &op in ops {
            let mut reads = program.outer_reads(op);
            reads.retain(|value| !self.is_constant[value.index()]);
            let all_arguments = reads.iter().all(is_argument);
            let is_input = |value: &ValueId| !made.contains(value) && (all_arguments || !is_argument(value));
            inputs.extend(reads.into_iter().filter(is_input));
        }
        inputs.into_iter().collect()
    }

    /// Lets values through together with a gradient that the reader waits for, so that nothing is
    /// computed again before it is there. All that reads the gradient from here on reads it behind the barrier:
    /// engines drop from a barrier what nobody reads there.
    fn fence(
        &self,
        copier: &mut Copier<'_>,
        values: &[ValueId],
        reader: OpId,
        after: Option<ValueId>,
        to: RegionId,
    ) -> Vec<ValueId> {
        let program = copier.old;
        let is_there = |value: &ValueId| program.producer(*value).is_some_and(|op| op < reader);
        let is_gradient = |value: &&ValueId| program.producer(**value).is_some_and(|op| (self.is_late)(op));
        let gradient =
            after.filter(is_there).or_else(|| program.ops[reader].operands.iter().find(is_gradient).copied());
        let awaited = gradient.map(|value| copier.value(value));
        let operands: Vec<ValueId> = values.iter().copied().chain(awaited).collect();
        let types: Vec<Type> = operands.iter().map(|&value| copier.new.ty(value).clone()).collect();
        let location = copier.location(program.ops[reader].location);
        let op = copier.new.add_op_with_types(to, Op::OptimizationBarrier, &operands, &[], types, location);
        let (fenced, behind) = copier.new.ops[op].results.split_at(values.len());
        let fenced = fenced.to_vec();
        if let (Some(gradient), Some(&behind)) = (gradient, behind.first()) {
            copier.set_value(gradient, behind);
        }
        fenced
    }
}

/// Does something while values of the old program mean others, then lets them mean what they did.
fn with_meanings(copier: &mut Copier<'_>, meanings: &[(ValueId, ValueId)], act: impl FnOnce(&mut Copier<'_>)) {
    let firsts: Vec<ValueId> = meanings.iter().map(|&(value, _)| copier.value(value)).collect();
    meanings.iter().for_each(|&(value, meaning)| copier.set_value(value, meaning));
    act(copier);
    meanings.iter().zip(firsts).for_each(|(&(value, _), first)| copier.set_value(value, first));
}

fn results(program: &Program, ops: &[OpId]) -> impl Iterator<Item = ValueId> {
    ops.iter().flat_map(|&op| program.ops[op].results.iter().copied())
}

/// For every value whether it is made of constants alone.
fn constants(program: &Program) -> Vec<bool> {
    let mut is_constant = vec![false; program.values.len()];
    for &op in &program.body().ops {
        let operation = &program.ops[op];
        if program.outer_reads(op).iter().all(|read| is_constant[read.index()]) {
            operation.results.iter().for_each(|result| is_constant[result.index()] = true);
        }
    }
    is_constant
}

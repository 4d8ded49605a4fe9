//! Recomputation: scopes whose values are computed again for the backward pass instead of kept.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Pattern;
use crate::program::{Anatomy, Copier, Id, Op, OpId, Program, RegionId, Type, ValueId};

/// The program with what the scopes compute computed again where the backward pass first needs it,
/// behind a barrier that keeps engines from merging the two. What other scopes read is kept.
pub(super) fn remat(program: &Program, patterns: &[&Pattern]) -> Program {
    if patterns.is_empty() {
        return program.clone();
    }
    let anatomy = program.anatomy();
    let groups = find_groups(program, &anatomy, patterns);
    let mut copier = Copier::new(program);
    let body = copier.new.body;
    let mut again = Again { anatomy: &anatomy, groups, values: FxHashMap::default() };
    copier.copy_arguments(program.body, body);
    for &op in &program.body().ops {
        if anatomy.is_forward(op) {
            copy(&mut copier, op, body);
        } else {
            again.copy_backward(&mut copier, op, body);
        }
    }
    copier.copy_results(program.body, body);
    copier.new
}

/// What is computed again together: the ops, in order, and what the backward pass reads of it.
struct Group {
    ops: Vec<OpId>,
    read: FxHashSet<ValueId>,
}

/// Ops of the forward pass by the instance of the scope that they are in, such as `layers/0`, as far
/// as the backward pass needs what they make.
fn find_groups(program: &Program, anatomy: &Anatomy, patterns: &[&Pattern]) -> Vec<Group> {
    let mut numbers: FxHashMap<String, usize> = FxHashMap::default();
    let mut members: Vec<Vec<OpId>> = Vec::new();
    let mut group_of: Vec<Option<usize>> = vec![None; program.ops.len()];
    for &op in &program.body().ops {
        // Constants are kept: there is nothing to them.
        if !anatomy.is_forward(op) || program.ops[op].operands.is_empty() {
            continue;
        }
        let scope = &program.locations[program.ops[op].location].scope;
        let Some(instance) = patterns.iter().find_map(|pattern| pattern.instance(scope)) else { continue };
        let number = *numbers.entry(instance).or_insert(members.len());
        if number == members.len() {
            members.push(Vec::new());
        }
        members[number].push(op);
        group_of[op.index()] = Some(number);
    }
    let mut read: Vec<FxHashSet<ValueId>> = vec![FxHashSet::default(); members.len()];
    let mut kept: FxHashSet<ValueId> = program.body().results.iter().copied().collect();
    for &op in &program.body().ops {
        for value in program.reads(op) {
            let made_in = program.producer(value).and_then(|maker| group_of[maker.index()]);
            match made_in {
                Some(group) if !anatomy.is_forward(op) => _ = read[group].insert(value),
                Some(_) if made_in != group_of[op.index()] => _ = kept.insert(value),
                _ => {}
            }
        }
    }
    let groups = members.iter().zip(read);
    groups.filter_map(|(ops, read)| needed(program, ops, read, &kept)).collect()
}

/// The part of a group that the backward pass needs, if it needs any.
fn needed(program: &Program, ops: &[OpId], mut read: FxHashSet<ValueId>, kept: &FxHashSet<ValueId>) -> Option<Group> {
    read.retain(|value| !kept.contains(value));
    // Backward from what is read to what it takes, as far as that is not kept.
    let mut wanted = read.clone();
    let mut needed = Vec::new();
    for &op in ops.iter().rev() {
        let makes = program.ops[op].results.iter().any(|result| wanted.contains(result) && !kept.contains(result));
        if makes {
            needed.push(op);
            wanted.extend(program.reads(op));
        }
    }
    needed.reverse();
    (!needed.is_empty()).then_some(Group { ops: needed, read })
}

fn copy(copier: &mut Copier<'_>, op: OpId, to: RegionId) -> OpId {
    let location = copier.location(copier.old.ops[op].location);
    copier.copy_op(op, to, location, &mut copy_region)
}

fn copy_region(copier: &mut Copier<'_>, from: RegionId, to: RegionId) {
    copier.copy_arguments(from, to);
    for &op in &copier.old.regions[from].ops {
        copy(copier, op, to);
    }
    copier.copy_results(from, to);
}

/// Groups that are still to be computed again, and the values that have been.
struct Again<'a> {
    anatomy: &'a Anatomy,
    groups: Vec<Group>,
    values: FxHashMap<ValueId, ValueId>,
}

impl Again<'_> {
    /// Copies an op of the backward pass, which reads what was computed again.
    fn copy_backward(&mut self, copier: &mut Copier<'_>, op: OpId, to: RegionId) {
        let read = copier.old.reads(op);
        let needs = |group: &Group| read.iter().any(|value| group.read.contains(value));
        while let Some(index) = self.groups.iter().position(needs) {
            let group = self.groups.remove(index);
            // What the forward pass has yet to compute is computed again later.
            let (now, later): (Vec<OpId>, Vec<OpId>) = group.ops.iter().partition(|other| other.index() < op.index());
            self.recompute(copier, &now, op, to);
            let rest: FxHashSet<ValueId> =
                later.iter().flat_map(|&op| copier.old.ops[op].results.iter().copied()).collect();
            if !later.is_empty() {
                let read = group.read.intersection(&rest).copied().collect();
                self.groups.push(Group { ops: later, read });
            }
        }
        let before: Vec<(ValueId, ValueId)> = read
            .iter()
            .filter_map(|&value| self.values.get(&value).map(|&again| (value, again)))
            .map(|(value, again)| {
                let first = copier.value(value);
                copier.set_value(value, again);
                (value, first)
            })
            .collect();
        copy(copier, op, to);
        // In reverse, so that a value that is read twice gets its first meaning back.
        for (value, first) in before.into_iter().rev() {
            copier.set_value(value, first);
        }
    }

    fn recompute(&mut self, copier: &mut Copier<'_>, ops: &[OpId], reader: OpId, to: RegionId) {
        let program = copier.old;
        let made: FxHashSet<ValueId> = ops.iter().flat_map(|&op| program.ops[op].results.iter().copied()).collect();
        let mut inputs: Vec<ValueId> = ops.iter().flat_map(|&op| program.reads(op)).collect();
        let is_constant =
            |value: &ValueId| program.producer(*value).is_some_and(|op| program.ops[op].operands.is_empty());
        // Arguments are there anyway, and the backward pass reads them too.
        let is_argument = |value: &ValueId| program.producer(*value).is_none();
        let is_outer = |value: &ValueId| {
            is_in_body(program, *value) && !made.contains(value) && !is_constant(value) && !is_argument(value)
        };
        inputs.retain(is_outer);
        inputs.sort_unstable_by_key(|value| value.index());
        inputs.dedup();
        let firsts: Vec<ValueId> = inputs.iter().map(|&value| copier.value(value)).collect();
        let fenced = self.fence(copier, &firsts, reader, to);
        let results = ops.iter().flat_map(|&op| &program.ops[op].results);
        let results: Vec<(ValueId, ValueId)> = results.map(|&value| (value, copier.value(value))).collect();
        for (&value, &again) in inputs.iter().zip(&fenced) {
            copier.set_value(value, again);
        }
        for &op in ops {
            copy(copier, op, to);
        }
        for (value, first) in results {
            self.values.insert(value, copier.value(value));
            copier.set_value(value, first);
        }
        for (&value, &first) in inputs.iter().zip(&firsts) {
            copier.set_value(value, first);
        }
    }

    /// Lets values through together with a gradient that the reader waits for, so that nothing is
    /// computed again before it is there.
    fn fence(&self, copier: &mut Copier<'_>, values: &[ValueId], reader: OpId, to: RegionId) -> Vec<ValueId> {
        let program = copier.old;
        let is_gradient = |value: &&ValueId| {
            is_in_body(program, **value) && program.producer(**value).is_some_and(|op| !self.anatomy.is_forward(op))
        };
        let gradient = program.ops[reader].operands.iter().find(is_gradient).map(|&value| copier.value(value));
        let operands: Vec<ValueId> = values.iter().copied().chain(gradient).collect();
        let types: Vec<Type> = operands.iter().map(|&value| copier.new.ty(value).clone()).collect();
        let location = copier.location(program.ops[reader].location);
        let op = copier.new.add_op_with_types(to, Op::OptimizationBarrier, &operands, &[], types, location);
        copier.new.ops[op].results[..values.len()].to_vec()
    }
}

/// Whether a value is made in the body itself, not inside of an op.
fn is_in_body(program: &Program, value: ValueId) -> bool {
    match program.values[value].definition {
        crate::program::Definition::Argument { region, .. } => region == program.body,
        crate::program::Definition::Result { op, .. } => program.body().ops.binary_search(&op).is_ok(),
    }
}

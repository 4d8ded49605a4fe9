//! Recomputation: scopes whose values are computed again for the backward pass instead of kept.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Pattern;
use crate::program::{Anatomy, Group, Id, OpId, Phase, Program, Recomputation, ValueId, recompute};

/// The program with what the scopes compute computed again where the backward pass first needs it,
/// behind a barrier that keeps engines from merging the two. What other scopes read is kept, and so is what
/// updates read: statistics may be updated long before the backward pass.
pub(super) fn remat(program: &Program, patterns: &[&Pattern]) -> Program {
    if patterns.is_empty() {
        return program.clone();
    }
    let anatomy = program.anatomy();
    let groups = scope_groups(program, &anatomy, patterns);
    let is_late = |op: OpId| anatomy.phase(op) == Phase::Backward;
    recompute(program, Recomputation { is_late: &is_late, groups, delayed: FxHashSet::default() }).0
}

/// Ops of the forward pass by the instance of the scope that they are in, such as `layers/0`, as far
/// as the backward pass needs what they make.
pub(crate) fn scope_groups(program: &Program, anatomy: &Anatomy, patterns: &[&Pattern]) -> Vec<Group> {
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
    let mut read: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); members.len()];
    let mut kept: FxHashSet<ValueId> = program.body().results.iter().copied().collect();
    for &op in &program.body().ops {
        for value in program.reads(op) {
            let made_in = program.producer(value).and_then(|maker| group_of[maker.index()]);
            match made_in {
                Some(group) if anatomy.phase(op) == Phase::Backward => _ = read[group].insert(value),
                Some(_) if made_in != group_of[op.index()] => _ = kept.insert(value),
                _ => {}
            }
        }
    }
    let groups = members.iter().zip(read);
    groups.filter_map(|(ops, read)| needed(program, ops, read, &kept)).collect()
}

/// The part of a group that the backward pass needs, if it needs any.
fn needed(program: &Program, ops: &[OpId], mut read: BTreeSet<ValueId>, kept: &FxHashSet<ValueId>) -> Option<Group> {
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
    (!needed.is_empty()).then_some(Group { ops: needed, read, after: None })
}

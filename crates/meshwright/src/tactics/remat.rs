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
    let numbers = scope_numbers(program, anatomy, patterns);
    let kept = shared_values(program, anatomy, &numbers);
    let count = numbers.iter().flatten().max().map_or(0, |most| most + 1);
    let mut members: Vec<Vec<OpId>> = vec![Vec::new(); count];
    let mut read: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); count];
    for &op in &program.body().ops {
        if let Some(number) = numbers[op.index()] {
            members[number].push(op);
        }
        if anatomy.phase(op) == Phase::Backward {
            for value in program.reads(op) {
                let made_in = program.producer(value).and_then(|maker| numbers[maker.index()]);
                made_in.into_iter().for_each(|number| _ = read[number].insert(value));
            }
        }
    }
    let groups = members.iter().zip(read);
    groups.filter_map(|(ops, read)| needed(program, ops, read, &kept)).collect()
}

/// For every op of the forward pass the instance of the scope that it is in, by number.
pub(crate) fn scope_numbers(program: &Program, anatomy: &Anatomy, patterns: &[&Pattern]) -> Vec<Option<usize>> {
    let mut numbers: FxHashMap<String, usize> = FxHashMap::default();
    let mut found = vec![None; program.ops.len()];
    for &op in &program.body().ops {
        // Constants are kept: there is nothing to them.
        if !anatomy.is_forward(op) || program.ops[op].operands.is_empty() {
            continue;
        }
        let scope = &program.locations[program.ops[op].location].scope;
        let Some(instance) = patterns.iter().find_map(|pattern| pattern.instance(scope)) else { continue };
        let next = numbers.len();
        found[op.index()] = Some(*numbers.entry(instance).or_insert(next));
    }
    found
}

/// What others than the backward pass read of scopes, and what the program gives back.
fn shared_values(program: &Program, anatomy: &Anatomy, numbers: &[Option<usize>]) -> FxHashSet<ValueId> {
    let mut shared: FxHashSet<ValueId> = program.body().results.iter().copied().collect();
    for &op in program.body().ops.iter().filter(|&&op| anatomy.phase(op) != Phase::Backward) {
        for value in program.reads(op) {
            let made_in = program.producer(value).and_then(|maker| numbers[maker.index()]);
            if made_in.is_some() && made_in != numbers[op.index()] {
                shared.insert(value);
            }
        }
    }
    shared
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

//! Dead code dropped, the rest numbered in the order in which it is printed.

use super::{Copier, Id, OpId, Program, RegionId};

impl Program {
    /// The same program without ops that nobody needs, its tables numbered in print order: an op,
    /// its results, then the arguments and ops of its regions.
    pub fn compact(&self) -> Program {
        self.compact_with_origins().0
    }

    /// The same, with the op that each op of it was.
    pub(crate) fn compact_with_origins(&self) -> (Program, Vec<Option<OpId>>) {
        let live = find_live(self);
        let mut copier = Copier::new(self);
        let body = copier.new.body;
        copy_live(&mut copier, &live, self.body, body);
        copier.finish()
    }
}

fn copy_live(copier: &mut Copier<'_>, live: &Live, from: RegionId, to: RegionId) {
    let old = copier.old;
    copier.copy_arguments(from, to);
    for &op in &old.regions[from].ops {
        if live.ops[op.index()] {
            let location = copier.location(old.ops[op].location);
            copier.copy_op(op, to, location, &mut |copier, from, to| copy_live(copier, live, from, to));
        }
    }
    copier.copy_results(from, to);
}

/// Which ops are needed: those with side effects and all that these and the results depend on.
struct Live {
    ops: Vec<bool>,
    values: Vec<bool>,
}

fn find_live(program: &Program) -> Live {
    let mut live = Live { ops: vec![false; program.ops.len()], values: vec![false; program.values.len()] };
    let effects = find_effects(program);
    mark_region(program, program.body, &effects, &mut live);
    live
}

/// Ops that have side effects, or contain one that has.
fn find_effects(program: &Program) -> Vec<bool> {
    let mut effects = vec![false; program.ops.len()];
    // Ops inside a region may have larger or smaller ids than the op around it, so two steps: mark
    // the ops themselves, then carry the marks outward.
    let mut around: Vec<Option<OpId>> = vec![None; program.ops.len()];
    for (id, operation) in program.ops.iter() {
        for &region in &operation.regions {
            for &inner in &program.regions[region].ops {
                around[inner.index()] = Some(id);
            }
        }
    }
    for (id, operation) in program.ops.iter() {
        let mut next = operation.op.has_side_effect().then_some(id);
        while let Some(op) = next {
            if std::mem::replace(&mut effects[op.index()], true) {
                break;
            }
            next = around[op.index()];
        }
    }
    effects
}

/// Walks backwards, so that every use is seen before its definition.
fn mark_region(program: &Program, region: RegionId, effects: &[bool], live: &mut Live) {
    for &result in &program.regions[region].results {
        live.values[result.index()] = true;
    }
    for &op in program.regions[region].ops.iter().rev() {
        let operation = &program.ops[op];
        let needed = effects[op.index()] || operation.results.iter().any(|result| live.values[result.index()]);
        if !needed {
            continue;
        }
        live.ops[op.index()] = true;
        for &operand in &operation.operands {
            live.values[operand.index()] = true;
        }
        for &inner in &operation.regions {
            mark_region(program, inner, effects, live);
        }
    }
}

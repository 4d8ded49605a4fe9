//! Which ops belong to the forward pass.

use crate::program::{Id, Op, OpId, Program, RegionId, ValueId};

/// For every op, whether a loss depends on it. Where there is no loss, everything is forward.
///
/// A loss is a scalar result that is no argument's next value.
pub(crate) fn forward_ops(program: &Program) -> Vec<bool> {
    let mut is_state = vec![false; program.results.len()];
    for result in program.state_pairs().into_iter().flatten() {
        is_state[result] = true;
    }
    let body = program.body();
    let mut needed = vec![false; program.values.len()];
    let mut any = false;
    for (index, &value) in body.results.iter().enumerate() {
        let ty = program.ty(value);
        if !is_state[index] && ty.rank() == 0 && ty.dtype.is_float() {
            needed[value.index()] = true;
            any = true;
        }
    }
    let mut forward = vec![!any; program.ops.len()];
    if any {
        mark(program, &body.ops, &mut needed, &mut forward);
    }
    forward
}

/// Walks backwards, so that every use is seen before its definition.
fn mark(program: &Program, ops: &[OpId], needed: &mut Vec<bool>, forward: &mut Vec<bool>) {
    for &op in ops.iter().rev() {
        let operation = &program.ops[op];
        if !operation.results.iter().any(|result| needed[result.index()]) {
            continue;
        }
        forward[op.index()] = true;
        let need = |value: &ValueId, needed: &mut Vec<bool>| needed[value.index()] = true;
        operation.operands.iter().for_each(|operand| need(operand, needed));
        let is_control = matches!(operation.op, Op::Case | Op::If | Op::While);
        for &region in &operation.regions {
            let RegionId(_) = region;
            program.regions[region].results.iter().for_each(|result| need(result, needed));
            if is_control {
                mark(program, &program.regions[region].ops, needed, forward);
            }
        }
    }
}

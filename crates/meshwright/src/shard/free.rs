//! Values that cost nothing to make again.

use crate::program::{Id, Op, OpId, Program};

/// Chains of free ops longer than this are computed like any other.
const MAXIMUM_DEPTH: u8 = 16;

/// For every value, whether it is made anew wherever it is used: constants, positions, broadcast
/// scalars and what is computed from those alone, element by element. Each use gets them cut as it
/// needs them, and no sharding spreads from one use to another.
pub(super) fn free_values(program: &Program, order: &[OpId]) -> Vec<bool> {
    // How many ops lead to a free value; 0 for values that are not free.
    let mut depths = vec![0u8; program.values.len()];
    for &op in order {
        let operation = &program.ops[op];
        let depth = match &operation.op {
            Op::Constant(_) | Op::Iota { .. } => 1,
            Op::BroadcastInDim(_) if program.shape(operation.operands[0]).is_empty() => 1,
            Op::Binary(_)
            | Op::BroadcastInDim(_)
            | Op::Clamp
            | Op::Compare { .. }
            | Op::Convert { .. }
            | Op::Reshape { .. }
            | Op::Select
            | Op::Transpose { .. }
            | Op::Unary(_) => {
                let operands = operation.operands.iter().map(|operand| depths[operand.index()]);
                let is_free = operands.clone().all(|depth| depth > 0);
                if is_free { operands.max().unwrap_or(0) + 1 } else { 0 }
            }
            _ => 0,
        };
        if depth <= MAXIMUM_DEPTH {
            for &result in &operation.results {
                depths[result.index()] = depth;
            }
        }
    }
    depths.into_iter().map(|depth| depth > 0).collect()
}

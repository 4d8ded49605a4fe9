//! Gradients of parameters that several chunks use: each chunk adds its own up over the microbatches, and
//! the sums meet once, after the last.

use crate::program::{Id, OpId};
use crate::shard::{Carried, Layout, Reduction, Sharding, Strategy};

/// Lets ops that join gradients of several chunks work on finished sums. The layout carries sums through them
/// unfinished, which is cheapest on one stage, but would send every microbatch's part to another.
pub(super) fn finish_before_joins(layout: &mut Layout<'_>, joins: &[bool]) {
    for op in late_ops(layout, joins).into_iter().rev() {
        let program = layout.program;
        let operation = &program.ops[op];
        let &[result] = operation.results.as_slice() else { continue };
        let lies = layout.sharding(result).finished();
        let rule = layout.rule(op).clone();
        let strategy = Strategy::from_result(&rule, &layout.mesh, &rule.results[0], &lies);
        for (&operand, labels) in operation.operands.iter().zip(&rule.operands) {
            if !layout.sharding(operand).partial.is_empty() {
                let wanted: Sharding = strategy.sharding(&rule, &layout.mesh, labels);
                layout.set_sharding(operand, &wanted);
            }
        }
        layout.set_sharding(result, &lies);
        layout.set_strategy(op, strategy);
        layout.set_carried(op, Carried { pieces: Default::default(), reduction: Reduction::Sum });
    }
}

/// Ops that join, and ops after them that carry sums over time on.
fn late_ops(layout: &Layout<'_>, joins: &[bool]) -> Vec<OpId> {
    let program = layout.program;
    let mut is_late = vec![false; program.ops.len()];
    for &op in &program.body().ops {
        let carries = || layout.carried(op).is_some_and(|c| c.pieces.iter().any(|&p| layout.mesh.is_temporal(p)));
        let reads_late = || {
            let makers = program.ops[op].operands.iter().filter_map(|&value| program.producer(value));
            makers.into_iter().any(|maker| is_late[maker.index()])
        };
        is_late[op.index()] = joins[op.index()] || reads_late() && carries();
    }
    program.body().ops.iter().copied().filter(|op| is_late[op.index()]).collect()
}

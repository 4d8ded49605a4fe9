//! Where two decisions want the same axis.

use super::layout::Layout;
use super::pieces::Piece;
use super::rule::Kind;
use crate::program::{ArgumentClass, Id, Op, OpId, ValueId};

/// A value that is cut one way while an op that sees it is cut another way by the same axis. Nothing
/// spreads across; the value is resharded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub op: OpId,
    pub value: ValueId,
    pub dim: usize,
    pub piece: Piece,
    /// The tactic that cut the value, and the one that put the axis to another use in the op.
    pub wanted_by: u16,
    pub taken_by: u16,
}

impl Layout<'_> {
    /// All conflicts, one per op and axis. Stored state that is gathered where it is used is no
    /// conflict, nor is a partial result that is cut as soon as it is finished.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let is_state = self.derived_from_state();
        let mut conflicts: Vec<Conflict> = Vec::new();
        for &op in self.ops() {
            let operation = &self.program.ops[op];
            let (rule, used) = (self.rule(op), self.strategy(op).used());
            if used.is_empty() {
                continue;
            }
            let operands = operation.operands.iter().zip(&rule.operands).map(|(&value, labels)| (value, labels, false));
            let results = operation.results.iter().zip(&rule.results).map(|(&value, labels)| (value, labels, true));
            for (value, labels, is_result) in operands.chain(results) {
                if is_state[value.index()] || self.is_free(value) {
                    continue;
                }
                let follows = self.strategy(op).sharding(rule, &self.mesh, labels);
                for (dim, pieces) in self.sharding(value).dims.iter().enumerate() {
                    let lost = pieces.iter().copied().find(|piece| {
                        let is_finished = is_result && self.is_reduced(op, *piece);
                        let is_blocked = labels[dim].iter().any(|&factor| self.blocked_on(op, factor).contains(*piece));
                        used.contains(*piece) && !follows.dims[dim].contains(piece) && !is_finished && !is_blocked
                    });
                    let Some(piece) = lost else { continue };
                    let axis = self.mesh.axis_of(piece);
                    let is_known = |known: &Conflict| known.op == op && self.mesh.axis_of(known.piece) == axis;
                    if conflicts.last().is_some_and(is_known) {
                        continue;
                    }
                    let wanted_by = self.cause(value, piece).unwrap_or(0);
                    conflicts.push(Conflict { op, value, dim, piece, wanted_by, taken_by: self.taker(op, piece) });
                }
            }
        }
        conflicts
    }

    fn is_reduced(&self, op: OpId, piece: Piece) -> bool {
        let factors = self.rule(op).factors.iter().zip(&self.strategy(op).factors);
        factors.into_iter().any(|(factor, pieces)| matches!(factor.kind, Kind::Reduced(_)) && pieces.contains(&piece))
    }

    /// The earliest tactic that brought a piece to a value that the op follows.
    fn taker(&self, op: OpId, piece: Piece) -> u16 {
        let (rule, operation) = (self.rule(op), &self.program.ops[op]);
        let values = operation.operands.iter().chain(&operation.results);
        let follows = |labels| self.strategy(op).sharding(rule, &self.mesh, labels);
        values
            .zip(rule.tensors())
            .filter(|(value, labels)| {
                let lies = &self.sharding(**value).dims;
                follows(labels).dims.iter().zip(lies).any(|(have, lies)| have.contains(&piece) && lies.contains(&piece))
            })
            .filter_map(|(&value, _)| self.cause(value, piece))
            .min()
            .unwrap_or(0)
    }

    /// Which values are computed from stored state alone.
    fn derived_from_state(&self) -> Vec<bool> {
        let program = self.program;
        let mut derived = vec![false; program.values.len()];
        for (&argument, class) in program.body().arguments.iter().zip(&self.anatomy.classes) {
            derived[argument.index()] = *class != ArgumentClass::Input;
        }
        for &op in self.ops() {
            let operation = &program.ops[op];
            if operation.op == Op::OptimizationBarrier {
                for (operand, result) in operation.operands.iter().zip(&operation.results) {
                    derived[result.index()] = derived[operand.index()];
                }
                continue;
            }
            let is_state = |value: &ValueId| derived[value.index()] || self.is_free(*value);
            if !operation.operands.is_empty() && operation.operands.iter().all(is_state) {
                for &result in &operation.results {
                    derived[result.index()] = true;
                }
            }
        }
        derived
    }
}

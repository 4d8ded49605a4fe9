//! Ops that compute the same, computed once.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::{Copier, Op, OpId, Program, ValueId};

impl Program {
    /// The same program in which no two ops of the body compute the same of the same values. Engines merge
    /// such ops anyway; here it shows who reads what in the end.
    pub fn merge_twins(&self) -> Program {
        let mut copier = Copier::new(self);
        let body = copier.new.body;
        let mut known: FxHashMap<u64, SmallVec<[OpId; 2]>> = FxHashMap::default();
        copier.copy_arguments(self.body, body);
        for &op in &self.body().ops {
            let operands = copier.values(&self.ops[op].operands);
            let twins = known.entry(twin_key(&self.ops[op].op, &operands)).or_default();
            match twins.iter().find(|&&twin| is_twin(&copier, twin, op, &operands)) {
                Some(&twin) => {
                    for index in 0..self.ops[op].results.len() {
                        let value = copier.new.ops[twin].results[index];
                        copier.set_value(self.ops[op].results[index], value);
                    }
                }
                None => twins.push(copier.copy_whole(op, body)),
            }
        }
        copier.copy_results(self.body, body);
        copier.new.compact()
    }
}

/// Whether an op of the copy computes what an op of the old program does on operands.
fn is_twin(copier: &Copier<'_>, twin: OpId, op: OpId, operands: &[ValueId]) -> bool {
    let (left, right) = (&copier.new.ops[twin], &copier.old.ops[op]);
    let is_function = match (left.regions.as_slice(), right.regions.as_slice()) {
        ([], []) => true,
        (&[left], &[right]) => {
            let applied = copier.new.applied_binary(left);
            applied.is_some() && applied == copier.old.applied_binary(right)
        }
        _ => false,
    };
    is_function && left.op == right.op && left.operands[..] == *operands && is_pure(&left.op)
}

/// Whether an op makes the same of the same, and nobody cares how often.
pub(crate) fn is_pure(op: &Op) -> bool {
    !op.has_side_effect() && !matches!(op, Op::CustomCall(_) | Op::OptimizationBarrier | Op::Rng { .. })
}

/// Equal for ops that could be twins, whatever stands for their operands.
pub(crate) fn twin_key(op: &Op, operands: &[impl Hash]) -> u64 {
    let mut hasher = FxHasher::default();
    std::mem::discriminant(op).hash(&mut hasher);
    operands.hash(&mut hasher);
    if let Op::Constant(literal) = op {
        (literal.as_splat(), &literal.ty).hash(&mut hasher);
    }
    hasher.finish()
}

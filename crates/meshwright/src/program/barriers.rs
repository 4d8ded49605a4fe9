//! Arguments and barriers: what needs no waiting for.

use rustc_hash::FxHashMap;

use super::{Copier, DType, Id, Op, OpId, Program, Type, ValueId, Values};

impl Program {
    /// The same program in which arguments of the body go around barriers and are cast once. Behind a barrier,
    /// weights would be cast and gathered again in every trip of a loop over time. What is larger than they are,
    /// such as a bias for every token, is still made again.
    pub(crate) fn free_arguments(&self) -> Program {
        self.free_arguments_with_origins().0
    }

    /// The same, with the op that each op of it was.
    pub(crate) fn free_arguments_with_origins(&self) -> (Program, Vec<Option<OpId>>) {
        let is_held = |op: &OpId| matches!(self.ops[*op].op, Op::OptimizationBarrier);
        if !self.body().ops.iter().any(is_held) {
            return (self.clone(), self.ops.ids().map(Some).collect());
        }
        let is_argument = self.arguments_seen_otherwise();
        let mut copier = Copier::new(self);
        let body = copier.new.body;
        copier.copy_arguments(self.body, body);
        let mut casts: FxHashMap<(ValueId, DType), ValueId> = FxHashMap::default();
        for &op in &self.body().ops {
            match self.ops[op].op {
                Op::OptimizationBarrier => copy_barrier(&mut copier, op, &is_argument),
                Op::Convert { dtype } => {
                    let (operand, result) = (copier.value(self.ops[op].operands[0]), self.ops[op].results[0]);
                    match casts.get(&(operand, dtype)).filter(|_| copier.new.producer(operand).is_none()) {
                        Some(&cast) => copier.set_value(result, cast),
                        None => {
                            copier.copy_whole(op, body);
                            casts.insert((operand, dtype), copier.value(result));
                        }
                    }
                }
                // All others are made where they are.
                _ => {
                    copier.copy_whole(op, body);
                }
            }
        }
        copier.copy_results(self.body, body);
        let (freed, first) = copier.finish();
        let (compact, second) = freed.compact_with_origins();
        let origins = second.into_iter().map(|op| op.and_then(|op| first[op.index()])).collect();
        (compact, origins)
    }

    /// For every value whether it is an argument, perhaps of another type or shape.
    fn arguments_seen_otherwise(&self) -> Vec<bool> {
        let mut is_argument = vec![false; self.values.len()];
        self.body().arguments.iter().for_each(|argument| is_argument[argument.index()] = true);
        for &op in &self.body().ops {
            let operation = &self.ops[op];
            let arranges = matches!(operation.op, Op::Convert { .. } | Op::Reshape { .. } | Op::Transpose { .. });
            if arranges && operation.operands.iter().all(|operand| is_argument[operand.index()]) {
                operation.results.iter().for_each(|result| is_argument[result.index()] = true);
            }
        }
        is_argument
    }
}

fn copy_barrier(copier: &mut Copier<'_>, op: OpId, is_argument: &[bool]) {
    let operation = &copier.old.ops[op];
    let mut held: Vec<(ValueId, ValueId)> = Vec::new();
    for (&operand, &result) in operation.operands.iter().zip(&operation.results) {
        let value = copier.value(operand);
        if is_argument[operand.index()] {
            copier.set_value(result, value);
        } else {
            held.push((value, result));
        }
    }
    let operands: Values = held.iter().map(|(value, _)| *value).collect();
    let types: Vec<Type> = operands.iter().map(|&value| copier.new.ty(value).clone()).collect();
    let (location, body) = (copier.location(operation.location), copier.new.body);
    let new = copier.new.add_op_with_types(body, Op::OptimizationBarrier, &operands, &[], types, location);
    for (index, (_, result)) in held.into_iter().enumerate() {
        let value = copier.new.ops[new].results[index];
        copier.set_value(result, value);
    }
}

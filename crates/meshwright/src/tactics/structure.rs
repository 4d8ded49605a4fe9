//! What tensors are for, found from how they are used.

use crate::lower::forward_ops;
use crate::program::{ArgumentClass, Id, Op, OpId, Program, ValueId};
use crate::shard::{Kind, Layout};

/// What a preset wants to know of a program.
pub(super) struct Structure<'p> {
    pub(super) program: &'p Program,
    pub(super) classes: Vec<ArgumentClass>,
    forward: Vec<bool>,
    /// Per value, the parameter that it is computed from alone, if it is from one.
    sources: Vec<Option<ValueId>>,
    readers: Vec<Vec<(OpId, usize)>>,
}

/// A dimension of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) value: ValueId,
    pub(super) dim: usize,
}

impl<'p> Structure<'p> {
    pub(super) fn new(layout: &Layout<'p>) -> Structure<'p> {
        let program = layout.program;
        let classes = program.argument_classes(&program.state_pairs());
        let mut sources = vec![None; program.values.len()];
        for (&argument, class) in program.body().arguments.iter().zip(&classes) {
            // Where nothing is updated, all that is large is a parameter: see `weights`.
            let is_weight = *class == ArgumentClass::Parameter || *class == ArgumentClass::Input;
            if is_weight && program.dtype(argument).is_float() {
                sources[argument.index()] = Some(argument);
            }
        }
        let mut readers = vec![Vec::new(); program.values.len()];
        for &op in layout.ops() {
            let operation = &program.ops[op];
            for (index, &operand) in operation.operands.iter().enumerate() {
                readers[operand.index()].push((op, index));
            }
            let is_passed_on = matches!(
                operation.op,
                Op::Convert { .. } | Op::OptimizationBarrier | Op::Transpose { .. } | Op::Reshape { .. }
            );
            if is_passed_on {
                for (&operand, &result) in operation.operands.iter().zip(&operation.results) {
                    sources[result.index()] = sources[operand.index()];
                }
            }
        }
        let forward = forward_ops(program);
        let mut structure = Structure { program, classes, forward, sources, readers };
        structure.forget_inputs();
        structure
    }

    /// Inputs are weights only where nothing is a parameter, as in programs that do not train.
    fn forget_inputs(&mut self) {
        if !self.classes.contains(&ArgumentClass::Parameter) {
            return;
        }
        let inputs: Vec<ValueId> = self.arguments(ArgumentClass::Input);
        for source in &mut self.sources {
            if source.is_some_and(|value| inputs.contains(&value)) {
                *source = None;
            }
        }
    }

    pub(super) fn arguments(&self, class: ArgumentClass) -> Vec<ValueId> {
        let arguments = self.program.body().arguments.iter().zip(&self.classes);
        arguments.filter(|(_, of)| **of == class).map(|(&value, _)| value).collect()
    }

    pub(super) fn is_weight(&self, value: ValueId) -> bool {
        self.sources[value.index()].is_some()
    }

    /// The ops of the forward pass that multiply by a weight, each with the operand that is it.
    pub(super) fn weighted(&self, layout: &Layout<'_>) -> Vec<(OpId, usize)> {
        let mut found = Vec::new();
        for &op in layout.ops() {
            let operation = &self.program.ops[op];
            let multiplies = matches!(operation.op, Op::Convolution(_) | Op::DotGeneral(_));
            if !multiplies || !self.forward[op.index()] {
                continue;
            }
            for (index, &operand) in operation.operands.iter().enumerate() {
                let other = operation.operands[1 - index];
                if self.is_weight(operand) && !self.is_weight(other) {
                    found.push((op, index));
                }
            }
        }
        found
    }

    /// Whether everything computed along a dimension ends in products with weights that sum over it,
    /// so that cutting it costs one reduction and nothing else.
    pub(super) fn ends_in_weights(&self, layout: &Layout<'_>, start: Place) -> bool {
        let mut seen = vec![start];
        let mut next = 0;
        let mut ends = false;
        while next < seen.len() {
            let Place { value, dim } = seen[next];
            next += 1;
            for &(op, operand) in &self.readers[value.index()] {
                if !self.forward[op.index()] {
                    continue;
                }
                match self.pass(layout, op, operand, dim) {
                    Passage::Stops => return false,
                    Passage::Ends => ends = true,
                    Passage::Goes(places) => {
                        let new: Vec<Place> = places.into_iter().filter(|place| !seen.contains(place)).collect();
                        seen.extend(new);
                    }
                }
            }
        }
        ends
    }

    fn pass(&self, layout: &Layout<'_>, op: OpId, operand: usize, dim: usize) -> Passage {
        let (rule, operation) = (layout.rule(op), &self.program.ops[op]);
        if operation.op == Op::OptimizationBarrier {
            return Passage::Goes(vec![Place { value: operation.results[operand], dim }]);
        }
        let Some(&factor) = rule.operands[operand][dim].first() else { return Passage::Stops };
        let multiplies = matches!(operation.op, Op::Convolution(_) | Op::DotGeneral(_));
        match rule.factors[usize::from(factor)].kind {
            Kind::Whole => Passage::Stops,
            Kind::Reduced(_) if multiplies && self.is_weight(operation.operands[1 - operand]) => Passage::Ends,
            Kind::Reduced(_) => Passage::Stops,
            Kind::Parallel => {
                let mut places = Vec::new();
                for (&value, labels) in operation.results.iter().zip(&rule.results) {
                    let position = labels.iter().position(|factors| factors.first() == Some(&factor));
                    match position {
                        Some(dim) => places.push(Place { value, dim }),
                        None => return Passage::Stops,
                    }
                }
                Passage::Goes(places)
            }
        }
    }
}

/// What becomes of a dimension in an op.
enum Passage {
    /// It cannot be cut here, or cutting it needs more than a reduction.
    Stops,
    /// It is summed over with a weight.
    Ends,
    /// It is a dimension of the results.
    Goes(Vec<Place>),
}

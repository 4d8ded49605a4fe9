//! What tensors are for, found from how they are used.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::program::{Anatomy, ArgumentClass, Id, Op, OpId, Program, ValueId};
use crate::shard::{FactorId, Kind, Labels, Layout, Rule};

/// What a preset wants to know of a program.
pub(super) struct Structure<'p> {
    pub(super) program: &'p Program,
    pub(super) classes: Vec<ArgumentClass>,
    anatomy: Arc<Anatomy>,
    /// Per value, whether it is a parameter, perhaps converted or reordered.
    weights: Vec<bool>,
    readers: Vec<Vec<(OpId, usize)>>,
}

/// A dimension of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) value: ValueId,
    pub(super) dim: usize,
}

impl<'p> Structure<'p> {
    pub(super) fn new(layout: &Layout<'p>) -> Structure<'p> {
        let program = layout.program;
        let mut classes = layout.anatomy.classes.clone();
        let mut readers = vec![Vec::new(); program.values.len()];
        for &op in layout.ops() {
            let operation = &program.ops[op];
            for (index, &operand) in operation.operands.iter().enumerate() {
                readers[operand.index()].push((op, index));
            }
        }
        if !classes.contains(&ArgumentClass::Parameter) {
            find_weights(layout, &mut classes);
        }
        let is_parameter = |&index: &usize| classes[index] == ArgumentClass::Parameter;
        let weights = layout.anatomy.origins.iter().map(|origin| origin.filter(is_parameter).is_some()).collect();
        Structure { program, anatomy: layout.anatomy.clone(), weights, readers, classes }
    }

    pub(super) fn arguments(&self, class: ArgumentClass) -> Vec<ValueId> {
        let arguments = self.program.body().arguments.iter().zip(&self.classes);
        arguments.filter(|(_, of)| **of == class).map(|(&value, _)| value).collect()
    }

    pub(super) fn is_weight(&self, value: ValueId) -> bool {
        self.weights[value.index()]
    }

    /// The ops of the forward pass that multiply by a weight, each with the operand that is it.
    pub(super) fn weighted(&self, layout: &Layout<'_>) -> Vec<(OpId, usize)> {
        let mut found = Vec::new();
        for &op in layout.ops() {
            let operation = &self.program.ops[op];
            let multiplies = matches!(operation.op, Op::Convolution(_) | Op::DotGeneral(_));
            if !multiplies || !self.anatomy.is_forward(op) {
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
                if !self.anatomy.is_forward(op) {
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

    /// Follows dimensions through the whole program, forward and backward, as far as they are batches
    /// of products. Gives the products in which they are something else, with the factor.
    pub(super) fn ends_of_batches(&self, layout: &Layout<'_>, starts: &[Place]) -> Vec<(OpId, FactorId)> {
        let mut pending: Vec<Place> = starts.to_vec();
        let mut seen: FxHashSet<Place> = starts.iter().copied().collect();
        let mut ends = Vec::new();
        while let Some(Place { value, dim }) = pending.pop() {
            let readers = self.readers[value.index()].iter().map(|&(op, _)| op);
            for op in readers.chain(self.program.producer(value)) {
                let (rule, operation) = (layout.rule(op), &self.program.ops[op]);
                let tensors = || operation.operands.iter().chain(&operation.results).copied().zip(rule.tensors());
                for (_, labels) in tensors().filter(|(tensor, _)| *tensor == value) {
                    let Some(&factor) = labels[dim].first() else { continue };
                    if is_sum_or_output(&operation.op, rule, factor) {
                        ends.push((op, factor));
                        continue;
                    }
                    for (tensor, labels) in tensors() {
                        let dims = (0..labels.len()).filter(|&dim| labels[dim].first() == Some(&factor));
                        let new = dims.map(|dim| Place { value: tensor, dim });
                        pending.extend(new.filter(|&place| !layout.is_free(tensor) && seen.insert(place)));
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

/// In a program that updates nothing, parameters are the inputs that are looked up in, spread, or
/// multiplied with something that is computed; of two inputs that are multiplied, the second.
fn find_weights(layout: &Layout<'_>, classes: &mut [ArgumentClass]) {
    let program = layout.program;
    for &op in layout.ops() {
        let operation = &program.ops[op];
        let origin = |operand: usize| layout.anatomy.origins[operation.operands[operand].index()];
        let weight = match operation.op {
            // A vector that is spread over a larger tensor is a bias or a scale.
            Op::BroadcastInDim(_) => {
                let ty = program.ty(operation.operands[0]);
                origin(0).filter(|_| ty.dtype.is_float() && ty.rank() == 1)
            }
            Op::Gather(_) => origin(0).filter(|_| program.dtype(operation.operands[0]).is_float()),
            Op::Convolution(_) | Op::DotGeneral(_) => origin(1).or(origin(0)),
            _ => None,
        };
        if let Some(index) = weight.filter(|&index| classes[index] == ArgumentClass::Input) {
            classes[index] = ArgumentClass::Parameter;
        }
    }
}

/// Whether a factor of a product is not a batch: not one that both operands and the result have.
fn is_sum_or_output(op: &Op, rule: &Rule, factor: FactorId) -> bool {
    let has = |labels: &Labels| labels.iter().flatten().any(|&label| label == factor);
    matches!(op, Op::DotGeneral(_)) && !rule.tensors().all(has)
}

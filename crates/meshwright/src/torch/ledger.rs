//! What a source has in memory while it runs, noted as it is written: an op takes memory for what it makes, views lie
//! where others do, and memory goes with the last name of what is in it.

use rustc_hash::FxHashMap;

use super::scratch::{bytes_made, of_collectives, of_experts, of_op};
use super::values::Form;
use crate::profile::{Buffer, Class, Holds, Memory, Shared, Step, Strides, contiguous, made, view};
use crate::program::{Anatomy, Id, Op, OpId, Phase, Program, Region, ValueId};

pub(super) struct Ledger<'p> {
    program: &'p Program,
    /// Where values lie that have a name. What lies nowhere is the caller's.
    places: FxHashMap<ValueId, usize>,
    /// What views of the caller's values are views of.
    of_caller: FxHashMap<ValueId, ValueId>,
    strides: FxHashMap<ValueId, Strides>,
    held: Vec<Held>,
    /// What runs, and what it needs meanwhile.
    steps: Vec<(OpId, usize)>,
    /// The op that runs, for what is made on the way to it.
    op: Option<OpId>,
}

/// A piece of memory.
struct Held {
    op: OpId,
    bytes: usize,
    start: usize,
    /// Where nothing holds it any more.
    end: Option<usize>,
    names: usize,
    readers: Vec<OpId>,
}

impl<'p> Ledger<'p> {
    pub(super) fn new(program: &'p Program) -> Ledger<'p> {
        let (places, of_caller, strides) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Ledger { program, places, of_caller, strides, held: Vec::new(), steps: Vec::new(), op: None }
    }

    /// An op that stands by itself; its result may take the place of an operand.
    pub(super) fn run(&mut self, op: OpId, over: Option<ValueId>, forms: &[Form]) {
        let operation = &self.program.ops[op];
        self.begin(op);
        for &result in operation.results.iter().filter(|result| forms[result.index()] == Form::Tensor) {
            if let Some(operand) = over {
                self.lie(result, operand, self.strides_of(operand));
            } else if let Some((operand, strides)) = self.viewed(op, forms) {
                self.lie(result, operand, strides);
            } else if !matches!(operation.op, Op::Constant(_)) {
                self.make(result, self.made(op, result));
            }
        }
        let scratch = of_op(self.program, op, &|value| self.strides_of(value));
        self.steps.push((op, scratch));
    }

    /// Collectives that are one.
    pub(super) fn run_together(&mut self, ops: &[OpId]) {
        for &op in ops {
            self.begin(op);
            self.make_all(op);
        }
        let scratch = of_collectives(self.program, ops, &|value| self.strides_of(value));
        self.steps.push((ops[0], scratch));
    }

    /// An op that does without the result of another.
    pub(super) fn run_experts(&mut self, maker: OpId, op: OpId) {
        self.begin(maker);
        self.begin(op);
        self.make_all(op);
        self.steps.push((op, of_experts(self.program, maker, op)));
    }

    fn begin(&mut self, op: OpId) {
        self.op = Some(op);
        for value in self.program.outer_reads(op) {
            if let Some(&place) = self.places.get(&value) {
                self.held[place].readers.push(op);
            }
        }
    }

    fn make_all(&mut self, op: OpId) {
        for &result in &self.program.ops[op].results {
            self.take(result, contiguous(self.program.shape(result)), self.program.ty(result).bytes());
        }
    }

    /// A name for new memory.
    fn make(&mut self, value: ValueId, strides: Strides) {
        self.take(value, strides, bytes_made(self.program, value));
    }

    fn take(&mut self, value: ValueId, strides: Strides, bytes: usize) {
        let Some(op) = self.op else { return };
        self.forget(value);
        self.places.insert(value, self.held.len());
        self.strides.insert(value, strides);
        self.held.push(Held { op, bytes, start: self.steps.len(), end: None, names: 1, readers: Vec::new() });
    }

    /// A name for something that has one.
    fn lie(&mut self, value: ValueId, other: ValueId, strides: Strides) {
        let place = self.places.get(&other).copied();
        if let Some(place) = place {
            self.held[place].names += 1;
        }
        self.forget(value);
        self.strides.insert(value, strides);
        match place {
            Some(place) => {
                self.places.insert(value, place);
            }
            None => {
                self.of_caller.insert(value, self.source(other));
            }
        }
    }

    /// What a value that lies nowhere is a view of.
    fn source(&self, value: ValueId) -> ValueId {
        self.of_caller.get(&value).copied().unwrap_or(value)
    }

    /// What a loop or a barrier calls by another name; numbers are filled into new memory.
    pub(super) fn bind(&mut self, op: OpId, value: ValueId, other: ValueId, forms: &[Form]) {
        self.op = Some(op);
        if forms[other.index()] == Form::Tensor {
            self.lie(value, other, self.strides_of(other));
        } else {
            self.make(value, contiguous(self.program.shape(value)));
        }
    }

    /// What somebody else holds until the end.
    pub(super) fn hold(&mut self, value: ValueId) {
        if let Some(&place) = self.places.get(&value) {
            self.held[place].names += 1;
        }
    }

    /// How much has run.
    pub(super) fn steps_so_far(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn delete(&mut self, values: &[ValueId]) {
        values.iter().for_each(|&value| self.forget(value));
    }

    fn forget(&mut self, value: ValueId) {
        self.of_caller.remove(&value);
        if let Some(place) = self.places.remove(&value) {
            let held = &mut self.held[place];
            held.names -= 1;
            held.end = (held.names == 0).then_some(self.steps.len());
        }
    }

    /// How something new lies.
    fn made(&self, op: OpId, result: ValueId) -> Strides {
        let shape = self.program.shape(result);
        match &self.program.ops[op].op {
            Op::Convolution(convolution) => {
                let spatial = convolution.output_spatial.iter().copied();
                let order = [convolution.output_batch, convolution.output_feature].into_iter().chain(spatial);
                let order: Vec<usize> = order.collect();
                let straight = contiguous(&order.iter().map(|&dim| shape[dim]).collect::<Vec<usize>>());
                let mut strides = straight.clone();
                order.iter().zip(straight).for_each(|(&dim, stride)| strides[dim] = stride);
                strides
            }
            // One line, seen again and again.
            Op::Iota { dim, .. } => (0..shape.len()).map(|other| usize::from(other == *dim)).collect(),
            _ => made(self.program, op, result, |value| self.strides_of(value)),
        }
    }

    /// The operand in whose memory the results of an op lie, and how.
    fn viewed(&self, op: OpId, forms: &[Form]) -> Option<(ValueId, Strides)> {
        let operation = &self.program.ops[op];
        let &operand = operation.operands.first().filter(|value| forms[value.index()] == Form::Tensor)?;
        let strides = self.strides_of(operand);
        let same = self.program.ty(operand) == self.program.ty(*operation.results.first()?);
        let strides = match operation.op {
            Op::BitcastConvert { .. } | Op::Convert { .. } | Op::Pad(_) if same => strides,
            Op::DynamicSlice { .. } => strides,
            _ => view(self.program, op, &strides)?,
        };
        Some((operand, strides))
    }

    /// The bytes that each of some values takes by itself: none where it lies in the place of another, or of the caller's.
    pub(super) fn own_bytes(&self, values: &[ValueId], forms: &[Form]) -> Vec<usize> {
        let mut seen: Vec<usize> = Vec::new();
        let bytes = |value: &ValueId| match self.places.get(value) {
            Some(place) if seen.contains(place) => 0,
            Some(&place) => {
                seen.push(place);
                self.held[place].bytes
            }
            None if forms[value.index()] == Form::Tensor => 0,
            None => self.program.ty(*value).bytes(),
        };
        values.iter().map(bytes).collect()
    }

    /// Results that lie in the memory of an argument, or of a result before them.
    pub(super) fn shared(&self, region: &Region) -> Vec<(usize, Shared)> {
        let place = |value: ValueId| self.places.get(&value);
        let shared = |(number, &value): (usize, &ValueId)| match place(value) {
            Some(own) => {
                let first = region.results.iter().position(|&other| place(other) == Some(own))?;
                (first < number).then_some((number, Shared::Result(first)))
            }
            None => {
                let source = self.source(value);
                let argument = region.arguments.iter().position(|&argument| argument == source)?;
                Some((number, Shared::Argument(argument)))
            }
        };
        region.results.iter().enumerate().filter_map(shared).collect()
    }

    /// Everything as it was over time.
    pub(super) fn memory(self, anatomy: &Anatomy) -> Memory {
        let mut memory = Memory::default();
        let bytes = |values: &[ValueId]| values.iter().map(|&value| self.program.ty(value).bytes()).sum();
        for (time, &(op, scratch)) in self.steps.iter().enumerate() {
            let operation = &self.program.ops[op];
            let [bytes_read, bytes_written] = [bytes(&operation.operands), bytes(&operation.results)];
            memory.steps.push(Step { op, phase: anatomy.phase(op), bytes_read, bytes_written });
            let class = Class::Temporaries;
            memory.buffers.push(Buffer { holds: Holds::Scratch(op), class, bytes: scratch, life: time..time + 1 });
        }
        for held in self.held {
            let readers = held.readers.iter().map(|&reader| anatomy.phase(reader));
            let class = match anatomy.phase(held.op) {
                // Users hold gradients, whether an update reads them or not.
                Phase::Backward if held.end.is_none() => Class::Gradients,
                phase => Class::of_made(phase, readers),
            };
            let life = held.start..held.end.unwrap_or(self.steps.len());
            memory.buffers.push(Buffer { holds: Holds::Made(held.op), class, bytes: held.bytes, life });
        }
        memory.buffers.retain(|buffer| buffer.bytes > 0 && !buffer.life.is_empty());
        memory
    }

    fn strides_of(&self, value: ValueId) -> Strides {
        self.strides.get(&value).cloned().unwrap_or_else(|| contiguous(self.program.shape(value)))
    }
}

//! Arguments made up for a program: each a function of its type, the seed and what the program does
//! with it.
//!
//! Integers that are used as positions lie inside of what they index. Elsewhere a gather would read
//! the same clamped row again and again, and a scatter would leave its updates out.

use rustc_hash::FxHashMap;

use super::tensor::{GOLDEN, Tensor, generate_below, mix};
use crate::program::{Binary, Definition, Gather, Op, OpId, Operation, Program, RegionId, Scatter, ValueId};

/// An argument for each of the program's, from a seed.
pub fn generate_arguments(program: &Program, seed: u64) -> Vec<Tensor> {
    let limits = Limits::of(program);
    let arguments = program.body().arguments.iter().enumerate();
    arguments
        .map(|(index, &value)| {
            // Arguments of one type get different numbers, and so do those of the next seed.
            let seed = mix(seed.wrapping_add((index as u64).wrapping_mul(GOLDEN)));
            generate_below(program.ty(value), seed, limits.known.get(&value).copied())
        })
        .collect()
}

/// What integer values have to be less than, where they become positions.
struct Limits<'p> {
    program: &'p Program,
    known: FxHashMap<ValueId, usize>,
    /// The op that a region belongs to.
    owners: FxHashMap<RegionId, OpId>,
    /// Values whose limit is new: where they come from has it too.
    changed: Vec<ValueId>,
}

impl<'p> Limits<'p> {
    fn of(program: &'p Program) -> Limits<'p> {
        let mut limits =
            Limits { program, known: FxHashMap::default(), owners: FxHashMap::default(), changed: Vec::new() };
        for (id, operation) in program.ops.iter() {
            limits.owners.extend(operation.regions.iter().map(|&region| (region, id)));
        }
        for (_, operation) in program.ops.iter() {
            limits.add_uses(operation);
        }
        while let Some(value) = limits.changed.pop() {
            for source in limits.sources(value) {
                limits.lower(source, limits.known[&value]);
            }
        }
        limits
    }

    fn lower(&mut self, value: ValueId, limit: usize) {
        if self.program.dtype(value).is_integer() && self.known.get(&value).is_none_or(|&known| limit < known) {
            self.known.insert(value, limit);
            self.changed.push(value);
        }
    }

    /// The limits of what an op uses as positions.
    fn add_uses(&mut self, operation: &Operation) {
        let program = self.program;
        let operands = &operation.operands;
        match &operation.op {
            Op::Case => self.lower(operands[0], operation.regions.len()),
            Op::Compare { .. } => {
                // As a one-hot encoding and a mask of positions do it.
                for (value, other) in [(operands[0], operands[1]), (operands[1], operands[0])] {
                    if let Some(size) = iota_size(program, other) {
                        self.lower(value, size);
                    }
                }
            }
            Op::DynamicSlice { sizes } => self.add_starts(operands[0], sizes, &operands[1..]),
            Op::DynamicUpdateSlice => self.add_starts(operands[0], program.shape(operands[1]), &operands[2..]),
            Op::Gather(gather) => {
                let limits = gather_limits(program.shape(operands[0]), gather);
                self.add_vectors(operands[1], gather.index_vector_dim, &limits);
            }
            Op::Scatter(scatter) => {
                let count = operands.len() / 2;
                let shapes = [operands[0], operands[count + 1]].map(|value| program.shape(value));
                let limits = scatter_limits(shapes, scatter);
                self.add_vectors(operands[count], scatter.index_vector_dim, &limits);
            }
            // Nothing else reads positions.
            _ => {}
        }
    }

    fn add_starts(&mut self, operand: ValueId, sizes: &[usize], starts: &[ValueId]) {
        for ((&size, &taken), &start) in self.program.shape(operand).iter().zip(sizes).zip(starts) {
            self.lower(start, places(size, taken));
        }
    }

    /// Limits of vectors of positions, which stand along dimension `dim`.
    fn add_vectors(&mut self, indices: ValueId, dim: usize, limits: &[usize]) {
        let program = self.program;
        let producer = program.producer(indices).map(|op| &program.ops[op]);
        if let Some(Operation { op: Op::Concatenate { dim: joined }, operands, .. }) = producer
            && *joined == dim
        {
            let mut rest = limits;
            for &operand in operands {
                let (own, after) = rest.split_at(program.shape(operand)[dim].min(rest.len()));
                self.lower_to_least(operand, own);
                rest = after;
            }
        } else {
            self.lower_to_least(indices, limits);
        }
    }

    fn lower_to_least(&mut self, value: ValueId, limits: &[usize]) {
        if let Some(&least) = limits.iter().min() {
            self.lower(value, least);
        }
    }

    /// The values that a value's elements come from unchanged.
    fn sources(&self, value: ValueId) -> Vec<ValueId> {
        let program = self.program;
        match program.values[value].definition {
            Definition::Argument { region, index } => match self.owners.get(&region).map(|&op| &program.ops[op]) {
                Some(operation) if operation.op == Op::While => carried_sources(program, operation, index as usize),
                _ => Vec::new(),
            },
            Definition::Result { op, index } => result_sources(program, &program.ops[op], index as usize),
        }
    }
}

fn result_sources(program: &Program, operation: &Operation, index: usize) -> Vec<ValueId> {
    let operands = &operation.operands;
    match &operation.op {
        Op::AllGather(_)
        | Op::AllToAll(_)
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute(_)
        | Op::OptimizationBarrier
        | Op::Sort { .. } => vec![operands[index]],
        Op::Binary(Binary::Maximum | Binary::Minimum) | Op::Concatenate { .. } | Op::Pad(_) => operands.to_vec(),
        Op::BroadcastInDim(_)
        | Op::Convert { .. }
        | Op::DynamicSlice { .. }
        | Op::Gather(_)
        | Op::Reshape { .. }
        | Op::Reverse { .. }
        | Op::Slice(_)
        | Op::Transpose { .. } => vec![operands[0]],
        Op::Case | Op::If => {
            operation.regions.iter().filter_map(|&region| program.regions[region].results.get(index).copied()).collect()
        }
        Op::Clamp => vec![operands[1]],
        Op::DynamicUpdateSlice => operands[..2].to_vec(),
        Op::Select => operands[1..].to_vec(),
        Op::While => carried_sources(program, operation, index),
        op if op.copies_to().is_some() => operands.to_vec(),
        // The others compute something else.
        _ => Vec::new(),
    }
}

/// A carried value is what the loop starts with or what a trip made of it.
fn carried_sources(program: &Program, operation: &Operation, index: usize) -> Vec<ValueId> {
    let made = operation.regions.get(1).and_then(|&body| program.regions[body].results.get(index));
    operation.operands.get(index).into_iter().chain(made).copied().collect()
}

/// How many numbers an iota has that stands behind a value.
fn iota_size(program: &Program, mut value: ValueId) -> Option<usize> {
    loop {
        let operation = &program.ops[program.producer(value)?];
        match &operation.op {
            Op::BroadcastInDim(_) | Op::Convert { .. } | Op::Reshape { .. } | Op::Transpose { .. } => {
                value = operation.operands[0];
            }
            Op::Iota { dim, ty } => return ty.shape.get(*dim).copied(),
            // Whatever else is compared with says nothing of positions.
            _ => return None,
        }
    }
}

/// Where something of one size can begin inside of another.
fn places(size: usize, taken: usize) -> usize {
    size.saturating_sub(taken) + 1
}

fn gather_limits(shape: &[usize], gather: &Gather) -> Vec<usize> {
    gather.start_index_map.iter().map(|&dim| places(shape[dim], gather.slice_sizes[dim])).collect()
}

fn scatter_limits([shape, updates]: [&[usize]; 2], scatter: &Scatter) -> Vec<usize> {
    let mut windows = scatter.update_window_dims.iter();
    let sizes: Vec<usize> = (0..shape.len())
        .map(|dim| {
            let is_single = scatter.inserted_window_dims.contains(&dim) || scatter.input_batching_dims.contains(&dim);
            if is_single { 1 } else { windows.next().map_or(1, |&window| updates[window]) }
        })
        .collect();
    scatter.scatter_dims_to_operand_dims.iter().map(|&dim| places(shape[dim], sizes[dim])).collect()
}

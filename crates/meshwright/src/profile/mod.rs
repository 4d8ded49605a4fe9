//! What a step costs, found without running anything: work, bytes, and memory over time.

mod copies;
mod eager;
mod flops;
mod functions;
mod fuse;
mod fused;
mod graph;
mod kernels;
mod make;
mod memory;
mod modules;
mod pack;
mod peak;
mod place;
mod schedule;
mod symbolic;
mod views;

pub(crate) use eager::{PartMemory, Shared, backward_memory, forward_memory};
pub use flops::{Work, work};
pub(crate) use memory::device_bytes;
pub use memory::{Buffer, ByClass, Class, Holds, Memory, Step};
pub use modules::{Module, module_path};
pub use peak::AtPeak;
pub(crate) use schedule::{ScheduledKernel, schedule, stored};
pub use symbolic::{Polynomial, SymbolicProfile};
pub(crate) use views::{Strides, contiguous, made, reshaped, view};

use functions::Fused;
use std::borrow::Cow;
use std::ops::Range;

use crate::program::{Anatomy, Id, OpId, Operation, Phase, Program, ValueId, expand_attention, expand_batch_norm};
use crate::torch::step_memory;

/// Who gives memory to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryModel {
    /// A compiler that fuses chains of elementwise ops, reuses buffers and honours donation, as XLA does.
    Fused,
    /// The same on accelerators: kernels run in the order of the program, updates as soon as they can, and attention
    /// is one of them.
    Ordered,
    /// An engine that runs op by op, each allocating its result, as PyTorch does.
    Eager,
    /// The same with kernels of its own for losses, norms and gates, which keep nothing but their operands, as
    /// Megatron-Core has them.
    Tuned,
    /// The same with compiled layers, but not losses, as torchtitan has them.
    Compiled,
    /// The same with attention written out, whose scores are kept, as early versions of Megatron-LM have it.
    Plain,
    /// PyTorch that runs a step as it is written for it.
    Written,
}

impl MemoryModel {
    /// Whether pieces of a pipeline are counted as they are compiled: parts of sums are written before they are added,
    /// and an update works on all parameters at once.
    pub(crate) fn counts_pieces(self) -> bool {
        self == MemoryModel::Fused
    }

    /// What an engine that runs op by op fuses all the same.
    pub(crate) fn fuses(self) -> Option<Fused> {
        match self {
            MemoryModel::Fused | MemoryModel::Ordered => None,
            MemoryModel::Eager | MemoryModel::Written => Some(Fused { attention: true, ..Fused::NONE }),
            MemoryModel::Tuned => Some(Fused { functions: true, losses: true, attention: true }),
            MemoryModel::Compiled => Some(Fused { functions: true, losses: false, attention: true }),
            MemoryModel::Plain => Some(Fused::NONE),
        }
    }
}

/// What a step costs.
#[derive(Clone, Debug)]
pub struct Profile<'p> {
    pub memory_model: MemoryModel,
    /// The program that the records are of: where the compiler knows no large ops, they are written out.
    pub program: Cow<'p, Program>,
    pub anatomy: Anatomy,
    /// For every op, also inside of regions.
    pub ops: Vec<OpRecord>,
    pub memory: Memory,
    /// The whole step, with the modules inside.
    pub modules: Module,
}

/// What an op costs in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct OpRecord {
    pub op: OpId,
    pub phase: Phase,
    /// How often it runs.
    pub runs: usize,
    /// Of all runs.
    pub work: Work,
    /// Of operands and results, in all runs, as if it ran alone.
    pub bytes_read: f64,
    pub bytes_written: f64,
    /// What its results are kept for, where they are in memory at all.
    pub class: Option<Class>,
    /// The steps that find its results in memory.
    pub life: Range<usize>,
}

/// Profiles a step, whole or local.
pub fn profile(program: &Program, memory_model: MemoryModel) -> Profile<'_> {
    let program = as_compiled(program, memory_model);
    let anatomy = program.anatomy();
    let memory = memory_of(&program, &anatomy, memory_model);
    let ops = op_records(&program, &anatomy, &memory);
    let modules = modules::modules(&program, &anatomy, &ops, &memory);
    Profile { memory_model, program, anatomy, ops, memory, modules }
}

/// The memory of a step alone, which is most of what simulations ask for, with what is lost between buffers.
pub(crate) fn memory(program: &Program, memory_model: MemoryModel) -> Memory {
    let program = as_compiled(program, memory_model);
    match memory_model {
        MemoryModel::Fused => fused::laid_out(&program, &program.anatomy()),
        _ => memory_of(&program, &program.anatomy(), memory_model),
    }
}

/// A program in the ops that an engine knows.
fn as_compiled(program: &Program, memory_model: MemoryModel) -> Cow<'_, Program> {
    match memory_model {
        MemoryModel::Fused => written_out(program),
        MemoryModel::Ordered => expand_batch_norm(program),
        MemoryModel::Eager | MemoryModel::Tuned | MemoryModel::Compiled | MemoryModel::Plain | MemoryModel::Written => {
            Cow::Borrowed(program)
        }
    }
}

fn memory_of(program: &Program, anatomy: &Anatomy, memory_model: MemoryModel) -> Memory {
    // Steps that are not written for PyTorch are taken as it would run them itself.
    if memory_model == MemoryModel::Written
        && let Some(mut memory) = step_memory(program, anatomy)
    {
        memory.buffers.extend(memory::argument_buffers(program, anatomy, memory.steps.len()));
        return memory;
    }
    match memory_model.fuses() {
        Some(fuses) => eager::eager(program, anatomy, fuses),
        None if memory_model == MemoryModel::Ordered => fused::ordered(program, anatomy),
        None => fused::fused(program, anatomy),
    }
}

pub(crate) fn written_out(program: &Program) -> Cow<'_, Program> {
    match expand_attention(program) {
        Cow::Borrowed(program) => expand_batch_norm(program),
        Cow::Owned(program) => Cow::Owned(expand_batch_norm(&program).into_owned()),
    }
}

fn op_records(program: &Program, anatomy: &Anatomy, memory: &Memory) -> Vec<OpRecord> {
    let trips = program.trips();
    let bytes = |values: &[ValueId]| values.iter().map(|&value| program.ty(value).bytes()).sum::<usize>() as f64;
    let record = |(op, operation): (OpId, &Operation)| {
        let runs = trips.of_op(op);
        OpRecord {
            op,
            phase: anatomy.phase(op),
            runs,
            work: work(program, op).times(runs as f64),
            bytes_read: bytes(&operation.operands) * runs as f64,
            bytes_written: bytes(&operation.results) * runs as f64,
            class: None,
            life: 0..0,
        }
    };
    let mut records: Vec<OpRecord> = program.ops.iter().map(record).collect();
    for buffer in &memory.buffers {
        if let Holds::Made(op) | Holds::Guest(op) = buffer.holds {
            records[op.index()].class = Some(buffer.class);
            records[op.index()].life = buffer.life.clone();
        }
    }
    records
}

impl Profile<'_> {
    /// The work of all ops, or of those of some phase.
    pub fn work(&self, phase: Option<Phase>) -> Work {
        let counted = self.ops.iter().filter(|record| phase.is_none_or(|phase| record.phase == phase));
        counted.fold(Work::default(), |sum, record| sum.plus(record.work))
    }

    /// Floating-point operations as the engine itself counts them: a compiler what it compiled, PyTorch
    /// only products of matrices and convolutions, with what these read of padding.
    pub fn flops(&self, work: Work) -> f64 {
        if self.memory_model.fuses().is_some() { work.padded_matrix } else { work.total() }
    }

    pub fn argument_bytes(&self) -> usize {
        self.bytes(&self.program.body().arguments)
    }

    pub fn output_bytes(&self) -> usize {
        self.bytes(&self.program.body().results)
    }

    fn bytes(&self, values: &[ValueId]) -> usize {
        values.iter().map(|&value| self.program.ty(value).bytes()).sum()
    }

    /// The numbers of the arguments that are weights.
    pub fn weights(&self) -> impl Iterator<Item = usize> {
        (0..self.program.arguments.len())
            .filter(|&argument| Class::of_argument(&self.program, &self.anatomy, argument) == Class::Weights)
    }

    /// How many numbers the weights are.
    pub fn parameters(&self) -> usize {
        self.weights().map(|index| self.program.ty(self.program.body().arguments[index]).elements()).sum()
    }
}

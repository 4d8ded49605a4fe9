//! Memory under an engine that runs op by op, as PyTorch does: each allocates its results when it runs, they
//! go after their last reader, and views take nothing.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::functions::Fused;
use super::kernels::{Kernel, Kernels, Pass, forward_kernels, kernels, score_bytes};
use super::memory::{Buffer, Class, Holds, Memory, Step, argument_buffers};
use crate::program::{
    Anatomy, Convolution, Definition, Given, Id, MemoryKind, Op, OpId, Phase, Program, RegionId, ValueId,
};

pub(super) fn eager(program: &Program, anatomy: &Anatomy, fused: Fused) -> Memory {
    let mut memory = region_memory(program, anatomy, program.body, fused);
    memory.buffers.extend(argument_buffers(program, anatomy, memory.steps.len()));
    memory
}

pub(super) fn region_memory(program: &Program, anatomy: &Anatomy, region: RegionId, fused: Fused) -> Memory {
    let kernels = kernels(program, anatomy, region, fused);
    let readers = readers(program, &program.regions[region].results, &kernels);
    Engine { program, anatomy, fused, readers, kernels }.memory(region)
}

/// What a part of a step needs while it runs, with what it makes, and the bytes of each result that stay.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartMemory {
    pub(crate) most: usize,
    pub(crate) left: Vec<usize>,
    /// Of results that lie in the memory of something else, what that is.
    pub(crate) shared: Vec<(usize, Shared)>,
}

/// What the memory of a result belongs to, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    Argument(usize),
    Result(usize),
}

/// Of a forward pass whose backward pass is another program.
pub(crate) fn forward_memory(program: &Program, fused: Fused) -> PartMemory {
    let anatomy = Anatomy::of_part(program, Phase::Forward, &[]);
    let (kernels, left) = forward_kernels(program, &anatomy, fused);
    let readers = readers(program, &left.values, &kernels);
    let memory = Engine { program, anatomy: &anatomy, fused, readers, kernels }.memory(program.body);
    PartMemory { most: memory.temporary_bytes(), left: left.bytes, shared: Vec::new() }
}

/// Of a backward pass that is a program of its own. Results that are added to sums go as soon as they are made.
pub(crate) fn backward_memory(program: &Program, given: &[Given], is_added: &[bool], fused: Fused) -> PartMemory {
    let anatomy = Anatomy::of_part(program, Phase::Backward, given);
    let kernels = kernels(program, &anatomy, program.body, fused);
    let results = &program.body().results;
    let stays = results.iter().zip(is_added).filter(|(_, is_added)| !**is_added).map(|(&value, _)| value);
    let mut readers = readers(program, &stays.collect::<Vec<_>>(), &kernels);
    let given_on: FxHashSet<ValueId> = results.iter().map(|result| kernels.sources[result.index()]).collect();
    for (index, kernel) in kernels.list.iter().enumerate() {
        // Whoever makes a part of a sum adds it.
        let made = kernel.ops.iter().flat_map(|&op| &program.ops[op].results);
        made.filter(|value| given_on.contains(value)).for_each(|value| readers[value.index()].push(index));
    }
    let memory = Engine { program, anatomy: &anatomy, fused, readers, kernels }.memory(program.body);
    let bytes = results.iter().map(|&result| program.ty(result).bytes());
    PartMemory { most: memory.temporary_bytes(), left: bytes.collect(), shared: Vec::new() }
}

/// For each value, the kernels that read what lies in its storage; what is left is read after all.
fn readers(program: &Program, left: &[ValueId], kernels: &Kernels) -> Vec<SmallVec<[usize; 4]>> {
    let mut readers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); program.values.len()];
    for (index, kernel) in kernels.list.iter().enumerate() {
        let held = kernel.reads.iter().chain(&kernel.holds);
        held.for_each(|read| readers[read.index()].push(index));
    }
    for result in left {
        readers[kernels.sources[result.index()].index()].push(kernels.list.len());
    }
    readers
}

struct Engine<'p> {
    program: &'p Program,
    anatomy: &'p Anatomy,
    fused: Fused,
    kernels: Kernels,
    readers: Vec<SmallVec<[usize; 4]>>,
}

impl Engine<'_> {
    fn memory(&self, region: RegionId) -> Memory {
        let moments: Vec<Vec<Moment>> = self.kernels.list.iter().map(|kernel| self.moments(kernel)).collect();
        // When each kernel starts, and when all are done.
        let mut starts = vec![0];
        for moments in &moments {
            starts.push(starts[starts.len() - 1] + moments.len());
        }
        let overwritten = overwritten(self.program, region);
        let mut memory = Memory::default();
        for (index, (kernel, moments)) in self.kernels.list.iter().zip(&moments).enumerate() {
            let before = memory.buffers.len();
            for (time, moment) in (starts[index]..).zip(moments) {
                let made = moment
                    .ops
                    .iter()
                    .flat_map(|&op| self.program.ops[op].results.iter().map(move |&value| (op, value)));
                let own = made.filter(|(_, value)| !overwritten[value.index()]);
                memory.buffers.extend(own.filter_map(|(op, value)| self.buffer(time, op, value, &starts)));
            }
            let bytes_written = memory.buffers[before..].iter().map(|buffer| buffer.bytes).sum();
            let (op, phase, bytes_read) = (last_op(kernel), kernel.pass.phase(), self.bytes(&kernel.reads));
            let holds = Holds::Scratch(op);
            let class = if kernel.pass == Pass::Forward { Class::Activations } else { Class::Temporaries };
            let life = starts[index]..starts[kernel.kept_until + 1];
            memory.buffers.push(Buffer { holds, class, bytes: kernel.kept_bytes, life });
            for (time, moment) in (starts[index]..).zip(moments) {
                let (class, bytes) = (Class::Temporaries, moment.scratch);
                memory.buffers.push(Buffer { holds, class, bytes, life: time..time + 1 });
                let is_last = time + 1 == starts[index + 1];
                let [bytes_read, bytes_written] = if is_last { [bytes_read, bytes_written] } else { [0; 2] };
                memory.steps.push(Step { op, phase, bytes_read, bytes_written });
            }
        }
        memory.buffers.retain(|buffer| buffer.bytes > 0);
        memory
    }

    fn bytes(&self, values: &[ValueId]) -> usize {
        values.iter().map(|&value| self.program.ty(value).bytes()).sum()
    }

    /// The buffer of what a kernel makes, where somebody reads it.
    fn buffer(&self, time: usize, op: OpId, value: ValueId, starts: &[usize]) -> Option<Buffer> {
        let readers = &self.readers[value.index()];
        let last = *readers.iter().max()?;
        let phase = |&reader: &usize| Some(self.kernels.list.get(reader)?.pass.phase());
        if self.program.ops[op].op.copies_to() == Some(MemoryKind::Host) {
            return None;
        }
        let class = Class::of_made(self.anatomy.phase(op), readers.iter().filter_map(phase));
        let end = starts[(last + 1).min(starts.len() - 1)];
        Some(Buffer { holds: Holds::Made(op), class, bytes: self.program.ty(value).bytes(), life: time..end })
    }

    /// The moments of a kernel, at least one: at each, some of its ops have run and it needs some scratch.
    fn moments(&self, kernel: &Kernel) -> Vec<Moment> {
        let mut moments = vec![Moment::default()];
        for &op in &kernel.ops {
            let operation = &self.program.ops[op];
            let scratches = match &operation.op {
                // Operands are put in order for the kernel, then results back.
                Op::Convolution(convolution) if !is_plain(self.program, op, convolution) => {
                    vec![self.bytes(&operation.operands), self.bytes(&operation.results)]
                }
                // Scores before and after they are made weights, or the gradients of both.
                Op::Attention(_) | Op::AttentionGrad(_) if !self.fused.attention => {
                    vec![2 * score_bytes(self.program, op)]
                }
                Op::While | Op::Case | Op::If => {
                    let inner = |&region: &RegionId| {
                        region_memory(self.program, self.anatomy, region, self.fused).temporary_bytes()
                    };
                    vec![operation.regions.iter().map(inner).max().unwrap_or(0)]
                }
                // All others work with what they read and make.
                _ => Vec::new(),
            };
            let mut open = moments.pop().unwrap_or_default();
            open.ops.push(op);
            moments.push(open);
            // Ops of a function run one after the other.
            for scratch in scratches {
                let open = moments.len() - 1;
                if moments[open].scratch > 0 {
                    moments.push(Moment { ops: Vec::new(), scratch });
                } else {
                    moments[open].scratch = scratch;
                }
            }
        }
        let scratch = self.function_scratch(kernel);
        moments.iter_mut().for_each(|moment| moment.scratch += scratch);
        moments
    }

    fn function_scratch(&self, kernel: &Kernel) -> usize {
        let has_scratch = matches!(kernel.pass, Pass::Backward | Pass::Update);
        let Some((function, _)) = kernel.function.filter(|_| has_scratch) else { return 0 };
        let results = kernel.ops.iter().flat_map(|&op| &self.program.ops[op].results);
        let most = results.map(|&value| self.program.ty(value).bytes()).max().unwrap_or(0);
        // What is rounded at the end is there in both types.
        let is_rounded = matches!(self.program.ops[last_op(kernel)].op, Op::Convert { .. });
        let count = function.scratch + usize::from(function.scratch > 0 && is_rounded);
        count * most
    }
}

/// A time in which a kernel needs other memory than in the next.
#[derive(Debug, Default)]
struct Moment {
    /// The ops that run by then, and not before.
    ops: Vec<OpId>,
    scratch: usize,
}

/// The op that a kernel ends with.
pub(super) fn last_op(kernel: &Kernel) -> OpId {
    *kernel.ops.last().expect("a kernel starts with an op")
}

/// Whether a convolution is a product of matrices as it stands: of single positions, none left out.
fn is_plain(program: &Program, op: OpId, convolution: &Convolution) -> bool {
    let operation = &program.ops[op];
    let [kernel, output] = [program.shape(operation.operands[1]), program.shape(operation.results[0])];
    let is_one = |shape: &[usize], dims: &[usize]| dims.iter().all(|&dim| shape[dim] == 1);
    let steps = [&convolution.strides, &convolution.lhs_dilation, &convolution.rhs_dilation];
    let is_single = is_one(kernel, &convolution.kernel_spatial) || is_one(output, &convolution.output_spatial);
    is_single && steps.iter().all(|steps| steps.iter().all(|&step| step == 1))
}

/// For each value, whether it is written over an argument that the caller gives up for it.
fn overwritten(program: &Program, region: RegionId) -> Vec<bool> {
    let mut overwritten = vec![false; program.values.len()];
    if region == program.body {
        for argument in &program.arguments {
            if let Some(&value) = argument.alias.and_then(|result| program.body().results.get(result)) {
                overwritten[value.index()] = matches!(program.values[value].definition, Definition::Result { .. });
            }
        }
    } else {
        // What a trip gives on lies where it was before.
        program.regions[region].results.iter().for_each(|value| overwritten[value.index()] = true);
    }
    overwritten
}

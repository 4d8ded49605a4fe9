//! Memory under an engine that runs op by op, as PyTorch does: each allocates its results when it runs, they
//! go after their last reader, and views take nothing.

use smallvec::SmallVec;

use super::kernels::{Kernel, Kernels, Pass, kernels};
use super::memory::{Buffer, Class, Holds, Memory, Step, argument_buffers};
use crate::program::{Anatomy, Convolution, Definition, Id, Op, OpId, Program, RegionId, ValueId};

pub(super) fn eager(program: &Program, anatomy: &Anatomy) -> Memory {
    let mut memory = region_memory(program, anatomy, program.body);
    memory.buffers.extend(argument_buffers(program, anatomy, memory.steps.len()));
    memory
}

fn region_memory(program: &Program, anatomy: &Anatomy, region: RegionId) -> Memory {
    let kernels = kernels(program, anatomy, region);
    Engine { program, anatomy, readers: readers(program, region, &kernels), kernels }.memory(region)
}

/// For each value, the kernels that read what lies in its storage; a result of the region is read after all.
fn readers(program: &Program, region: RegionId, kernels: &Kernels) -> Vec<SmallVec<[usize; 4]>> {
    let mut readers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); program.values.len()];
    for (index, kernel) in kernels.list.iter().enumerate() {
        kernel.reads.iter().for_each(|read| readers[read.index()].push(index));
    }
    for result in &program.regions[region].results {
        readers[kernels.sources[result.index()].index()].push(kernels.list.len());
    }
    readers
}

struct Engine<'p> {
    program: &'p Program,
    anatomy: &'p Anatomy,
    kernels: Kernels,
    readers: Vec<SmallVec<[usize; 4]>>,
}

impl Engine<'_> {
    fn memory(&self, region: RegionId) -> Memory {
        let overwritten = overwritten(self.program, region);
        let mut memory = Memory::default();
        for (index, kernel) in self.kernels.list.iter().enumerate() {
            let before = memory.buffers.len();
            let made =
                kernel.ops.iter().flat_map(|&op| self.program.ops[op].results.iter().map(move |&value| (op, value)));
            let kept = made.filter(|(_, value)| !overwritten[value.index()]);
            memory.buffers.extend(kept.filter_map(|(op, value)| self.buffer(index, op, value)));
            let bytes_written = memory.buffers[before..].iter().map(|buffer| buffer.bytes).sum();
            memory.buffers.extend(self.own_buffers(index));
            let bytes_read = self.bytes(&kernel.reads);
            memory.steps.push(Step { op: last_op(kernel), phase: kernel.pass.phase(), bytes_read, bytes_written });
        }
        memory
    }

    fn bytes(&self, values: &[ValueId]) -> usize {
        values.iter().map(|&value| self.program.ty(value).bytes()).sum()
    }

    /// The buffer of what a kernel makes, where somebody reads it.
    fn buffer(&self, index: usize, op: OpId, value: ValueId) -> Option<Buffer> {
        let readers = &self.readers[value.index()];
        let end = self.kernels.list.len();
        let last = *readers.iter().max()?;
        let phases = readers.iter().filter_map(|&reader| Some(self.kernels.list.get(reader)?.pass.phase()));
        let class = Class::of_made(self.kernels.list[index].pass.phase(), phases);
        let bytes = self.program.ty(value).bytes();
        Some(Buffer { holds: Holds::Made(op), class, bytes, life: index..(last + 1).min(end) })
    }

    /// What a kernel keeps besides values of the program, and what it needs while it runs.
    fn own_buffers(&self, index: usize) -> impl Iterator<Item = Buffer> {
        let kernel = &self.kernels.list[index];
        let holds = Holds::Scratch(last_op(kernel));
        let is_saved = kernel.pass == Pass::Forward;
        let class = if is_saved { Class::Activations } else { Class::Temporaries };
        let kept = Buffer { holds, class, bytes: kernel.kept_bytes, life: index..kernel.kept_until + 1 };
        let bytes = self.scratch_bytes(kernel);
        let scratch = Buffer { holds, class: Class::Temporaries, bytes, life: index..index + 1 };
        [kept, scratch].into_iter().filter(|buffer| buffer.bytes > 0)
    }

    /// What a kernel needs besides its results while it runs.
    fn scratch_bytes(&self, kernel: &Kernel) -> usize {
        let (mut made, mut most) = (0, 0);
        for &op in &kernel.ops {
            let operation = &self.program.ops[op];
            let inner = operation.regions.iter().map(|&region| match operation.op {
                Op::While | Op::Case | Op::If => region_memory(self.program, self.anatomy, region).temporary_bytes(),
                // Functions of numbers need nothing.
                _ => 0,
            });
            let scratch = match &operation.op {
                // Operands are put in order for the kernel, and results back.
                Op::Convolution(convolution) if !is_plain(self.program, op, convolution) => {
                    self.bytes(&operation.operands).max(self.bytes(&operation.results))
                }
                _ => inner.max().unwrap_or(0),
            };
            // Ops of a function run one after the other.
            if scratch > 0 {
                made += self.bytes(&operation.results);
                most = most.max(made + scratch);
            }
        }
        let own = most.saturating_sub(made);
        let has_function = matches!(kernel.pass, Pass::Backward | Pass::Update);
        let Some((function, _)) = kernel.function.filter(|_| has_function) else { return own };
        let results = kernel.ops.iter().flat_map(|&op| &self.program.ops[op].results);
        let largest = results.map(|&value| self.program.ty(value).bytes()).max().unwrap_or(0);
        own + function.scratch * largest
    }
}

/// The op that a kernel ends with.
fn last_op(kernel: &Kernel) -> OpId {
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

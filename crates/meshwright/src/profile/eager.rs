//! Memory under an engine that runs op by op, as PyTorch does: each allocates its results when it runs, they
//! go after their last reader, and views take nothing.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::functions::{Function, Keeps, Kept, function_of};
use super::memory::{Buffer, Class, Holds, Memory, Step, argument_buffers};
use super::views::{Strides, contiguous, made, view};
use crate::program::{Anatomy, Binary, Convolution, Definition, Id, Op, OpId, Phase, Program, RegionId, ValueId};

pub(super) fn eager(program: &Program, anatomy: &Anatomy) -> Memory {
    let mut memory = region_memory(program, anatomy, program.body);
    memory.buffers.extend(argument_buffers(program, anatomy, memory.steps.len()));
    memory
}

fn region_memory(program: &Program, anatomy: &Anatomy, region: RegionId) -> Memory {
    let mut engine = Engine::new(program, anatomy);
    for &op in &program.regions[region].ops {
        engine.run(op);
    }
    let results = program.regions[region].results.iter().map(|&value| engine.sources[value.index()]).collect();
    engine.keep_what_functions_keep();
    engine.memory(region, results)
}

/// What runs at once: an op, or a function.
#[derive(Debug)]
struct Kernel {
    ops: Vec<OpId>,
    pass: Pass,
    function: Option<(&'static Function, PathId)>,
    /// The values in whose storage its operands lie, but for what it makes itself.
    reads: Vec<ValueId>,
    /// What it keeps for a backward pass besides values of the program.
    kept_bytes: usize,
    /// The last kernel that reads what is kept.
    kept_until: usize,
}

/// What a kernel is for. What is made again belongs to the backward pass but works as the forward pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pass {
    Forward,
    Again,
    Backward,
    Update,
}

/// The place of a function's scope in the list of all, without what differentiation puts around it.
type PathId = usize;

struct Engine<'p> {
    program: &'p Program,
    anatomy: &'p Anatomy,
    kernels: Vec<Kernel>,
    /// For each value, the one in whose storage it lies.
    sources: Vec<ValueId>,
    strides: Vec<Option<Strides>>,
    /// For each value, the kernel that makes it.
    makers: Vec<Option<usize>>,
    paths: FxHashMap<String, PathId>,
    functions: Vec<Option<Option<(&'static Function, PathId)>>>,
    /// Kernels of functions that can still grow: nobody else has read what they make.
    open: FxHashMap<(PathId, Pass), usize>,
}

impl<'p> Engine<'p> {
    fn new(program: &'p Program, anatomy: &'p Anatomy) -> Engine<'p> {
        Engine {
            program,
            anatomy,
            kernels: Vec::new(),
            sources: program.values.ids().collect(),
            strides: vec![None; program.values.len()],
            makers: vec![None; program.values.len()],
            paths: FxHashMap::default(),
            functions: vec![None; program.locations.len()],
            open: FxHashMap::default(),
        }
    }

    fn pass(&self, op: OpId, path: Option<PathId>) -> Pass {
        // Gradients also need numbers that owe nothing to gradients, such as the square of what was made again.
        let has_begun = path.is_some_and(|path| self.open.contains_key(&(path, Pass::Backward)));
        match self.anatomy.phase(op) {
            Phase::Forward => Pass::Forward,
            Phase::Backward if self.anatomy.is_recomputed(op) && !has_begun => Pass::Again,
            Phase::Backward => Pass::Backward,
            Phase::Update => Pass::Update,
        }
    }

    fn function(&mut self, op: OpId) -> Option<(&'static Function, PathId)> {
        let location = self.program.ops[op].location;
        let paths = &mut self.paths;
        *self.functions[location.index()].get_or_insert_with(|| {
            let (function, path) = function_of(&self.program.locations[location])?;
            let next = paths.len();
            Some((function, *paths.entry(path).or_insert(next)))
        })
    }

    /// Where the elements of a value lie in its storage. Nobody asks for most of them.
    fn strides(&self, value: ValueId) -> Strides {
        self.strides[value.index()].clone().unwrap_or_else(|| contiguous(self.program.shape(value)))
    }

    fn run(&mut self, op: OpId) {
        let operation = &self.program.ops[op];
        let mut key = self.function(op).map(|(_, path)| (path, self.pass(op, Some(path))));
        let mut own = key.and_then(|key| self.open.get(&key).copied());
        let reads: Vec<ValueId> = self.program.outer_reads(op).iter().map(|read| self.sources[read.index()]).collect();
        if self.is_accumulation(op, own) {
            (key, own) = (None, None);
        }
        if self.alias(op, own) {
            return;
        }
        let is_number = operation.operands.is_empty() && matches!(operation.op, Op::Constant(_));
        if is_number {
            return;
        }
        // A function that somebody has read from is at its end.
        for read in &reads {
            if let Some(maker) = self.makers[read.index()].filter(|&maker| Some(maker) != own)
                && let Kernel { function: Some((_, path)), pass, .. } = self.kernels[maker]
            {
                self.open.remove(&(path, pass));
            }
        }
        let own = own.filter(|_| key.is_some_and(|key| self.open.contains_key(&key)));
        let kernel = own.or_else(|| self.same_node(op, key, &reads)).unwrap_or_else(|| self.start(op, key));
        self.kernels[kernel].ops.push(op);
        for read in reads {
            if self.makers[read.index()] != Some(kernel) && !self.kernels[kernel].reads.contains(&read) {
                self.kernels[kernel].reads.push(read);
            }
        }
        for &result in &operation.results {
            self.makers[result.index()] = Some(kernel);
            self.strides[result.index()] = Some(made(self.program, op, result, |value| self.strides(value)));
        }
    }

    /// Whether an op adds up gradients that come from several sides, which is no function's business.
    fn is_accumulation(&self, op: OpId, own: Option<usize>) -> bool {
        let operation = &self.program.ops[op];
        let is_foreign = |value: &ValueId| {
            let maker = self.makers[self.sources[value.index()].index()];
            maker.is_some_and(|maker| Some(maker) != own && self.kernels[maker].pass == Pass::Backward)
        };
        let is_backward = self.anatomy.phase(op) == Phase::Backward;
        is_backward && operation.op == Op::Binary(Binary::Add) && operation.operands.iter().any(is_foreign)
    }

    /// The kernel of the op before, where both belong to the gradient of one op: they stand in the same place
    /// and read the same gradient. What that keeps goes when all of it has run.
    fn same_node(&self, op: OpId, key: Option<(PathId, Pass)>, reads: &[ValueId]) -> Option<usize> {
        let last = self.kernels.len().checked_sub(1)?;
        let kernel = &self.kernels[last];
        let is_gradient = |value: &&ValueId| {
            self.makers[value.index()].is_some_and(|maker| maker != last && self.kernels[maker].pass == Pass::Backward)
        };
        let is_alone = key.is_none() && kernel.function.is_none() && kernel.pass == Pass::Backward;
        let is_here = kernel.ops.iter().all(|&other| self.program.ops[other].location == self.program.ops[op].location);
        let shares = reads.iter().filter(is_gradient).any(|read| kernel.reads.contains(read));
        (is_alone && is_here && shares && self.pass(op, None) == Pass::Backward).then_some(last)
    }

    fn start(&mut self, op: OpId, key: Option<(PathId, Pass)>) -> usize {
        let kernel = self.kernels.len();
        let function = self.function(op).filter(|_| key.is_some());
        let pass = key.map_or_else(|| self.pass(op, None), |(_, pass)| pass);
        self.kernels.push(Kernel {
            ops: Vec::new(),
            pass,
            function,
            reads: Vec::new(),
            kept_bytes: 0,
            kept_until: kernel,
        });
        if let Some(key) = key {
            self.open.insert(key, kernel);
        }
        kernel
    }

    /// Whether the results of an op lie where its operands do. What a function does to values of its own
    /// stays inside of it.
    fn alias(&mut self, op: OpId, own: Option<usize>) -> bool {
        let operation = &self.program.ops[op];
        let Some(&operand) = operation.operands.first() else { return false };
        let source = self.sources[operand.index()];
        if let Op::OptimizationBarrier = operation.op {
            for (operand, result) in operation.operands.iter().zip(&operation.results) {
                self.sources[result.index()] = self.sources[operand.index()];
                self.strides[result.index()] = self.strides[operand.index()].clone();
            }
            return true;
        }
        let result = operation.results[0];
        if self.function(op).is_some_and(|(function, _)| function.keeps == Keeps::InPlace)
            && operation.op.is_elementwise()
            && self.program.ty(operand) == self.program.ty(result)
        {
            self.sources[result.index()] = source;
            return true;
        }
        if own.is_some() && self.makers[source.index()] == own {
            return false;
        }
        let Some(strides) = view(self.program, op, &self.strides(operand)) else { return false };
        self.sources[result.index()] = source;
        self.strides[result.index()] = Some(strides);
        true
    }

    /// Backward passes of functions read what these keep, whatever the program reads.
    fn keep_what_functions_keep(&mut self) {
        let mut by_operand: FxHashMap<(PathId, ValueId), usize> = FxHashMap::default();
        for index in 0..self.kernels.len() {
            let kernel = &self.kernels[index];
            let Some((Function { keeps: Keeps::Only(kept), .. }, path)) = kernel.function else { continue };
            match kernel.pass {
                Pass::Forward | Pass::Again => {
                    let made = kernel.reads.iter().filter(|read| self.makers[read.index()].is_some());
                    by_operand.extend(made.map(|&read| ((path, read), index)));
                }
                Pass::Backward => {
                    let is_forward = |&maker: &usize| {
                        let maker = &self.kernels[maker];
                        maker.pass != Pass::Backward && maker.function.is_some_and(|(_, other)| other == path)
                    };
                    let mut makers = kernel.reads.iter().filter_map(|read| self.makers[read.index()]);
                    let mut readers = kernel.reads.iter().filter_map(|&read| by_operand.get(&(path, read)).copied());
                    if let Some(forward) = makers.find(is_forward).or_else(|| readers.next()) {
                        self.keep(forward, index, kept);
                    }
                }
                Pass::Update => {}
            }
        }
    }

    /// Lets a backward kernel read what a function keeps instead of what the function reads and makes.
    fn keep(&mut self, forward: usize, backward: usize, kept: &[Kept]) {
        let operand = self.main_operand(forward);
        let result = self.kernels[forward].ops.last().map(|&op| self.program.ops[op].results[0]);
        let mut reads = std::mem::take(&mut self.kernels[backward].reads);
        reads.retain(|read| {
            self.makers[read.index()] != Some(forward)
                && (!self.kernels[forward].reads.contains(read) || self.makers[read.index()].is_none())
        });
        let mut bytes = 0;
        for kept in kept {
            let ty = |value: Option<ValueId>| value.map(|value| self.program.ty(value));
            match kept {
                Kept::Operand => reads.extend(operand),
                Kept::Result => reads.extend(result),
                Kept::Alike => bytes += ty(operand).map_or(0, |ty| ty.bytes()),
                Kept::PerRow(count) => {
                    let rows = ty(operand).map_or(0, |ty| ty.elements() / ty.shape.last().copied().unwrap_or(1).max(1));
                    bytes += 4 * count * rows;
                }
                Kept::PerElement(size) => bytes += size * ty(result).map_or(0, |ty| ty.elements()),
            }
        }
        self.kernels[backward].reads = reads;
        self.kernels[forward].kept_bytes = bytes;
        self.kernels[forward].kept_until = self.kernels[forward].kept_until.max(backward);
    }

    /// The largest value that a kernel reads and that is no argument.
    fn main_operand(&self, kernel: usize) -> Option<ValueId> {
        let reads = self.kernels[kernel].reads.iter().copied();
        let made = reads.clone().filter(|read| self.makers[read.index()].is_some());
        made.max_by_key(|&read| self.program.ty(read).bytes())
            .or_else(|| reads.max_by_key(|&read| self.program.ty(read).bytes()))
    }

    fn memory(&self, region: RegionId, results: Vec<ValueId>) -> Memory {
        let end = self.kernels.len();
        let mut readers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); self.program.values.len()];
        for (index, kernel) in self.kernels.iter().enumerate() {
            kernel.reads.iter().for_each(|read| readers[read.index()].push(index));
        }
        let mut is_result = vec![false; self.program.values.len()];
        results.iter().for_each(|value| is_result[value.index()] = true);
        let overwritten = overwritten(self.program, region);
        let mut buffers = Vec::new();
        let mut steps = Vec::with_capacity(end);
        for (index, kernel) in self.kernels.iter().enumerate() {
            let op = *kernel.ops.last().expect("a kernel has an op");
            let phase = self.phase(kernel);
            let mut written = 0;
            for &op in &kernel.ops {
                for &result in &self.program.ops[op].results {
                    let readers = &readers[result.index()];
                    let stays = is_result[result.index()];
                    if readers.is_empty() && !stays || overwritten[result.index()] {
                        continue;
                    }
                    let last =
                        if stays { end } else { readers.iter().copied().max().map_or(index + 1, |last| last + 1) };
                    let phases = readers.iter().map(|&reader| self.phase(&self.kernels[reader]));
                    let class = Class::of_made(phase, phases);
                    let bytes = self.program.ty(result).bytes();
                    written += bytes;
                    buffers.push(Buffer { holds: Holds::Made(op), class, bytes, life: index..last });
                }
            }
            let mut push = |class, bytes, life| buffers.push(Buffer { holds: Holds::Scratch(op), class, bytes, life });
            if kernel.kept_bytes > 0 {
                let kept_class = if phase == Phase::Forward { Class::Activations } else { Class::Temporaries };
                push(kept_class, kernel.kept_bytes, index..kernel.kept_until + 1);
            }
            let scratch = self.scratch_bytes(kernel);
            if scratch > 0 {
                push(Class::Temporaries, scratch, index..index + 1);
            }
            let read = kernel.reads.iter().map(|&read| self.program.ty(read).bytes()).sum();
            steps.push(Step { op, phase, bytes_read: read, bytes_written: written });
        }
        Memory { steps, buffers }
    }

    fn phase(&self, kernel: &Kernel) -> Phase {
        match kernel.pass {
            Pass::Forward => Phase::Forward,
            Pass::Again | Pass::Backward => Phase::Backward,
            Pass::Update => Phase::Update,
        }
    }

    /// What a kernel needs besides its results while it runs.
    fn scratch_bytes(&self, kernel: &Kernel) -> usize {
        let bytes = |values: &[ValueId]| values.iter().map(|&value| self.program.ty(value).bytes()).sum::<usize>();
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
                    bytes(&operation.operands).max(bytes(&operation.results))
                }
                _ => inner.max().unwrap_or(0),
            };
            // Ops of a function run one after the other.
            if scratch > 0 {
                made += bytes(&operation.results);
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

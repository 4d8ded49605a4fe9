//! What a device runs one after the other: products of matrices, fused chains of everything else,
//! collectives, loops.

use smallvec::SmallVec;

use super::products::{Product, products};
use crate::cluster::Collective;
use crate::program::{Definition, Id, MemoryKind, Op, OpId, Program, RegionId, ValueId};

/// What runs in one go.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The op that names it: the first of its chain.
    pub op: OpId,
    pub task: Task,
    /// The kernels of the same list that make what it reads.
    pub after: SmallVec<[u32; 4]>,
    /// Read and written.
    pub bytes: f64,
    /// Whether it is known not to be of the forward pass.
    pub is_late: bool,
}

/// What a kernel does.
#[derive(Clone, Debug)]
pub enum Task {
    /// A chain of ops that moves bytes and computes little.
    Chain,
    Products(SmallVec<[Product; 1]>),
    Attention(AttentionTask),
    Collective {
        collective: Collective,
        /// Of each level of the group, how many devices it has and how far apart their numbers are.
        pieces: SmallVec<[(usize, usize); 2]>,
        /// Of the whole value on one device, as [`crate::cluster::estimate`] wants them.
        bytes: usize,
    },
    /// From the device to the host, or the other way.
    HostCopy {
        to: MemoryKind,
        bytes: usize,
    },
    Loop {
        body: Vec<Kernel>,
        trips: usize,
    },
    /// One of these lists runs.
    Branch(Vec<Vec<Kernel>>),
}

/// Attention or its gradient, which an engine runs fused or written out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionTask {
    /// Batch times heads.
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub is_causal: bool,
    pub is_gradient: bool,
    pub element_bytes: usize,
    pub dtype: crate::program::DType,
}

/// The kernels of a program in the order of its ops.
pub fn kernels(program: &Program) -> Vec<Kernel> {
    region_kernels(program, program.body).0
}

/// The kernels, and who of their ops reads and writes how much.
pub(crate) fn traffic(program: &Program) -> (Vec<Kernel>, Vec<Touch>) {
    region_kernels(program, program.body)
}

/// A value that a kernel reads or writes, by the op that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touch {
    pub(crate) op: OpId,
    pub(crate) end: End,
    pub(crate) bytes: usize,
}

/// Which value of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Operand(u32),
    Result(u32),
}

fn region_kernels(program: &Program, region: RegionId) -> (Vec<Kernel>, Vec<Touch>) {
    let mut grouping = Grouping {
        program,
        kernels: Vec::new(),
        is_chain: Vec::new(),
        sources: vec![None; program.values.len()],
        makers: vec![None; program.values.len()],
        reads: Vec::new(),
    };
    let content = &program.regions[region];
    for &op in &content.ops {
        grouping.add(op);
    }
    grouping.finish(&content.results)
}

struct Grouping<'p> {
    program: &'p Program,
    kernels: Vec<Kernel>,
    /// Whether further ops may join.
    is_chain: Vec<bool>,
    /// For each value that is a view, the one that it is a view of.
    sources: Vec<Option<ValueId>>,
    makers: Vec<Option<u32>>,
    reads: Vec<Read>,
}

/// Some bytes of a value that a kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Read {
    kernel: u32,
    value: ValueId,
    bytes: usize,
    /// The op for which it does, and the number of the operand.
    op: OpId,
    operand: u32,
}

/// How an op runs.
enum Way {
    /// It costs nothing: its result is its operand seen otherwise, or made up where it is read.
    View,
    /// With the ops around it.
    Chained,
    /// By itself, all operands read.
    Alone(Task),
}

impl Grouping<'_> {
    fn add(&mut self, op: OpId) {
        match way(self.program, op) {
            Way::View => self.view(op),
            Way::Chained => {
                let latest = self.latest(op).filter(|&latest| self.is_chain[latest as usize]);
                let kernel = latest.unwrap_or_else(|| self.start(op, Task::Chain));
                self.join(op, kernel);
            }
            Way::Alone(task) => {
                let kernel = self.start(op, task);
                self.join(op, kernel);
            }
        }
    }

    fn view(&mut self, op: OpId) {
        let operation = &self.program.ops[op];
        for (index, &result) in operation.results.iter().enumerate() {
            self.sources[result.index()] = operation.operands.get(index).map(|&operand| self.source(operand));
        }
    }

    fn source(&self, value: ValueId) -> ValueId {
        self.sources[value.index()].unwrap_or(value)
    }

    /// The last kernel that makes something that an op reads.
    fn latest(&self, op: OpId) -> Option<u32> {
        let operands = self.program.ops[op].operands.iter();
        operands.filter_map(|&operand| self.makers[self.source(operand).index()]).max()
    }

    fn start(&mut self, op: OpId, task: Task) -> u32 {
        let number = self.kernels.len() as u32;
        self.is_chain.push(matches!(task, Task::Chain));
        self.kernels.push(Kernel { op, task, after: SmallVec::new(), bytes: 0.0, is_late: false });
        number
    }

    fn join(&mut self, op: OpId, kernel: u32) {
        let operation = &self.program.ops[op];
        for (index, value) in self.program.outer_reads(op).into_iter().enumerate() {
            let source = self.source(value);
            if self.makers[source.index()] != Some(kernel) {
                let bytes = read_bytes(self.program, op, index).min(self.program.ty(source).bytes());
                self.reads.push(Read { kernel, value: source, bytes, op, operand: index as u32 });
            }
        }
        for result in &operation.results {
            self.makers[result.index()] = Some(kernel);
        }
    }

    /// Adds up what is read and written: a value is written where another kernel reads it.
    fn finish(mut self, results: &[ValueId]) -> (Vec<Kernel>, Vec<Touch>) {
        self.merge_chains(results);
        self.read_origins();
        self.reads.sort_unstable();
        let mut is_written = vec![false; self.program.values.len()];
        for result in results {
            is_written[self.source(*result).index()] = true;
        }
        let mut touches = Vec::with_capacity(2 * self.reads.len());
        for index in 0..self.reads.len() {
            let Read { kernel, value, bytes, op, operand } = self.reads[index];
            // Of several reads of a value by a kernel the last is the largest.
            let is_last = self.reads.get(index + 1).is_none_or(|next| (next.kernel, next.value) != (kernel, value));
            if !is_last || self.is_free(value) {
                continue;
            }
            is_written[value.index()] = true;
            self.kernels[kernel as usize].bytes += bytes as f64;
            touches.push(Touch { op, end: End::Operand(operand), bytes });
            if let Some(maker) = self.makers[value.index()] {
                self.kernels[kernel as usize].after.push(maker);
            }
        }
        for (value, maker) in self.program.values.ids().zip(&self.makers) {
            if let (Some(maker), true) = (maker, is_written[value.index()]) {
                let bytes = written_bytes(self.program, value);
                self.kernels[*maker as usize].bytes += bytes as f64;
                if let Definition::Result { op, index } = self.program.values[value].definition {
                    touches.push(Touch { op, end: End::Result(index), bytes });
                }
            }
        }
        for kernel in &mut self.kernels {
            kernel.after.sort_unstable();
            kernel.after.dedup();
        }
        (self.kernels, touches)
    }

    /// A chain that only one other chain reads runs as part of that: nothing can stand between them.
    fn merge_chains(&mut self, results: &[ValueId]) {
        let count = self.kernels.len();
        let mut readers: Vec<Readers> = vec![Readers::None; count];
        for result in results {
            if let Some(maker) = self.makers[self.source(*result).index()] {
                readers[maker as usize] = Readers::Several;
            }
        }
        for read in &self.reads {
            if let Some(maker) = self.makers[read.value.index()] {
                readers[maker as usize].add(read.kernel);
            }
        }
        // Readers come later, so that their own place is known first.
        let mut becomes: Vec<u32> = (0..count as u32).collect();
        for kernel in (0..count).rev() {
            if let Readers::One(reader) = readers[kernel]
                && self.is_chain[kernel]
                && self.is_chain[reader as usize]
            {
                becomes[kernel] = becomes[reader as usize];
            }
        }
        let mut numbers = vec![0; count];
        let mut kept = 0;
        for kernel in 0..count {
            numbers[kernel] = kept;
            kept += u32::from(becomes[kernel] == kernel as u32);
        }
        let number = |kernel: u32| numbers[becomes[kernel as usize] as usize];
        self.makers.iter_mut().flatten().for_each(|maker| *maker = number(*maker));
        self.reads.iter_mut().for_each(|read| read.kernel = number(read.kernel));
        let makers = &self.makers;
        self.reads.retain(|read| makers[read.value.index()] != Some(read.kernel));
        let stays: Vec<bool> = (0..count).map(|kernel| becomes[kernel] == kernel as u32).collect();
        let (mut keep_kernel, mut keep_flag) = (stays.iter(), stays.iter());
        self.kernels.retain(|_| keep_kernel.next() == Some(&true));
        self.is_chain.retain(|_| keep_flag.next() == Some(&true));
    }

    /// Chains compute again what is cheaper to compute than to read: they read what it was made of instead.
    fn read_origins(&mut self) {
        self.reads.sort_unstable();
        let reads = std::mem::take(&mut self.reads);
        for of_kernel in reads.chunk_by(|left, right| left.kernel == right.kernel) {
            let kernel = of_kernel[0].kernel;
            let makers_chain =
                |value: ValueId| self.makers[value.index()].filter(|&maker| self.is_chain[maker as usize]);
            let mut made: Vec<(u32, Read)> = Vec::new();
            for &read in of_kernel {
                match makers_chain(read.value).filter(|_| self.is_chain[kernel as usize]) {
                    Some(maker) => made.push((maker, read)),
                    None => self.reads.push(read),
                }
            }
            made.sort_unstable();
            for from_chain in made.chunk_by(|left, right| left.0 == right.0) {
                let direct: usize = from_chain.iter().map(|(_, read)| read.bytes).sum();
                let mut origins = Vec::new();
                for &(maker, read) in from_chain {
                    self.origins(maker, read.value, &mut origins);
                }
                origins.sort_unstable();
                origins.dedup();
                let is_read = |value: &ValueId| of_kernel.iter().any(|read| read.value == *value);
                let bytes = |value: &ValueId| self.program.ty(*value).bytes();
                let again: usize = origins.iter().filter(|value| !is_read(value)).map(bytes).sum();
                if again < direct {
                    let first = from_chain[0].1;
                    let origin = |value: &ValueId| Read { value: *value, bytes: bytes(value), ..first };
                    self.reads.extend(origins.iter().map(origin));
                } else {
                    self.reads.extend(from_chain.iter().map(|(_, read)| *read));
                }
            }
        }
    }

    /// What a value of a chain is made of, element by element: what the chain reads, and its reductions.
    fn origins(&self, chain: u32, value: ValueId, found: &mut Vec<ValueId>) {
        let mut pending = vec![self.source(value)];
        let mut seen = Vec::new();
        while let Some(value) = pending.pop() {
            if seen.contains(&value) || self.is_free(value) {
                continue;
            }
            seen.push(value);
            let op = self.program.producer(value).filter(|_| self.makers[value.index()] == Some(chain));
            let is_elementwise = |op: &OpId| {
                let op = &self.program.ops[*op].op;
                op.is_elementwise() || matches!(op, Op::Convert { .. } | Op::Select | Op::Slice(_))
            };
            match op.filter(is_elementwise) {
                Some(op) => pending.extend(self.program.ops[op].operands.iter().map(|&operand| self.source(operand))),
                None => found.push(value),
            }
        }
    }

    /// Whether a value is made up where it is read.
    fn is_free(&self, value: ValueId) -> bool {
        let op = self.program.producer(value).map(|op| &self.program.ops[op].op);
        matches!(op, Some(Op::Iota { .. } | Op::PartitionId | Op::ReplicaId))
            || matches!(op, Some(Op::Constant(literal)) if literal.as_splat().is_some())
    }
}

/// Who reads what a kernel makes.
#[derive(Clone, Copy)]
enum Readers {
    None,
    One(u32),
    Several,
}

impl Readers {
    fn add(&mut self, reader: u32) {
        *self = match *self {
            Readers::None => Readers::One(reader),
            Readers::One(other) if other == reader => Readers::One(other),
            Readers::One(_) | Readers::Several => Readers::Several,
        };
    }
}

/// Bytes that an op reads of an operand.
fn read_bytes(program: &Program, op: OpId, operand: usize) -> usize {
    let operation = &program.ops[op];
    let bytes = |value: ValueId| program.ty(value).bytes();
    match operation.op {
        // Only a part is read, or written over.
        Op::DynamicSlice { .. } | Op::Gather(_) | Op::Slice(_) if operand == 0 => bytes(operation.results[0]),
        Op::DynamicUpdateSlice | Op::Scatter(_) if operand == 0 => 0,
        // Updates are read, and what they are added to.
        Op::Scatter(_) => 2 * operation.operands.get(operand).map_or(0, |&value| bytes(value)),
        // A loop or branch reads what its kernels read.
        Op::Case | Op::If | Op::While => 0,
        _ => operation.operands.get(operand).map_or(0, |&value| bytes(value)),
    }
}

fn written_bytes(program: &Program, value: ValueId) -> usize {
    let Some(op) = program.producer(value) else { return 0 };
    match program.ops[op].op {
        Op::DynamicUpdateSlice => program.ty(program.ops[op].operands[1]).bytes(),
        Op::Case | Op::If | Op::While => 0,
        _ => program.ty(value).bytes(),
    }
}

fn way(program: &Program, op: OpId) -> Way {
    let operation = &program.ops[op];
    match &operation.op {
        Op::AfterAll
        | Op::BitcastConvert { .. }
        | Op::BroadcastInDim(_)
        | Op::Check(_)
        | Op::Constant(_)
        | Op::Iota { .. }
        | Op::OptimizationBarrier
        | Op::PartitionId
        | Op::ReplicaId
        | Op::Reshape { .. }
        // Products read their operands in any order, and chains write theirs as the reader wants them.
        | Op::Transpose { .. } => Way::View,
        Op::AllGather(_)
        | Op::AllReduce(_)
        | Op::AllToAll(_)
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute(_)
        | Op::ReduceScatter(_) => Way::Alone(collective_task(program, op)),
        Op::Attention(_) | Op::AttentionGrad(_) => Way::Alone(attention_task(program, op)),
        Op::Cholesky { .. } | Op::Convolution(_) | Op::DotGeneral(_) | Op::TriangularSolve(_) => {
            Way::Alone(Task::Products(products(program, op)))
        }
        Op::Case | Op::If => {
            let branches = operation.regions.iter().map(|&region| region_kernels(program, region).0).collect();
            Way::Alone(Task::Branch(branches))
        }
        Op::While => {
            let trips = program.counted_loop(op).map_or(1, |counted| counted.trips);
            let body = operation.regions.get(1).map(|&region| region_kernels(program, region).0);
            Way::Alone(Task::Loop { body: body.unwrap_or_default(), trips })
        }
        Op::CustomCall(_) => match operation.op.copies_to() {
            Some(to) => Way::Alone(Task::HostCopy { to, bytes: program.ty(operation.operands[0]).bytes() }),
            None => Way::Alone(Task::Products(SmallVec::new())),
        },
        Op::Fft { .. }
        | Op::Infeed(_)
        | Op::Opaque(_)
        | Op::Outfeed(_)
        | Op::Recv(_)
        | Op::ReduceWindow(_)
        | Op::Scatter(_)
        | Op::SelectAndScatter(_)
        | Op::Send(_)
        | Op::Sort { .. }
        | Op::TopK { .. } => Way::Alone(Task::Products(SmallVec::new())),
        Op::BatchNormGrad(_)
        | Op::BatchNormInference(_)
        | Op::BatchNormTraining(_)
        | Op::Binary(_)
        | Op::Clamp
        | Op::Compare { .. }
        | Op::Complex
        | Op::Concatenate { .. }
        | Op::Convert { .. }
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::Gather(_)
        | Op::Map
        | Op::Pad(_)
        | Op::Reduce { .. }
        | Op::ReducePrecision { .. }
        | Op::Reverse { .. }
        | Op::Rng { .. }
        | Op::RngBitGenerator { .. }
        | Op::Select
        | Op::Slice(_)
        | Op::Unary(_) => Way::Chained,
    }
}

fn attention_task(program: &Program, op: OpId) -> Task {
    let operation = &program.ops[op];
    let (query, key) = (program.ty(operation.operands[0]), program.ty(operation.operands[1]));
    let size = |shape: &[usize], dim: usize| shape.get(dim).copied().unwrap_or(1);
    let (is_causal, is_gradient) = match &operation.op {
        Op::Attention(attention) => (attention.causal, false),
        Op::AttentionGrad(attention) => (attention.causal, true),
        _ => (false, false),
    };
    Task::Attention(AttentionTask {
        heads: size(&query.shape, 0) * size(&query.shape, 1),
        queries: size(&query.shape, 2),
        keys: size(&key.shape, 2),
        width: size(&query.shape, 3),
        is_causal,
        is_gradient,
        element_bytes: query.dtype.stored_bytes(),
        dtype: query.dtype,
    })
}

fn collective_task(program: &Program, op: OpId) -> Task {
    let operation = &program.ops[op];
    let bytes = |values: &[ValueId]| values.iter().map(|&value| program.ty(value).bytes()).sum::<usize>();
    let (read, made) = (bytes(&operation.operands), bytes(&operation.results));
    let (collective, groups, bytes) = match &operation.op {
        Op::AllGather(gather) => (Collective::AllGather, &gather.collective.groups, made),
        Op::AllToAll(exchange) => (Collective::AllToAll, &exchange.collective.groups, read),
        Op::CollectiveBroadcast(collective) => (Collective::Broadcast, &collective.groups, read),
        Op::ReduceScatter(scatter) => (Collective::ReduceScatter, &scatter.collective.groups, read),
        Op::AllReduce(collective) => (Collective::AllReduce, &collective.groups, read),
        Op::CollectivePermute(permute) => {
            let far = permute.pairs.iter().map(|&(from, to)| from.abs_diff(to) as usize).max().unwrap_or(1);
            return Task::Collective {
                collective: Collective::CollectivePermute,
                pieces: SmallVec::from_slice(&[(2, far)]),
                bytes: read,
            };
        }
        // Nothing else is a collective.
        _ => return Task::Chain,
    };
    let pieces = groups.first().map(|group| levels(group)).unwrap_or_default();
    Task::Collective { collective, pieces, bytes }
}

/// The levels of a group of device numbers, the one with the greatest distance first.
fn levels(group: &[i64]) -> SmallVec<[(usize, usize); 2]> {
    let mut numbers = group.to_vec();
    numbers.sort_unstable();
    let mut levels = SmallVec::new();
    // In every round the first of each run of numbers at one distance is kept.
    while numbers.len() > 1 {
        let distance = numbers[1] - numbers[0];
        let run = 1 + numbers.windows(2).take_while(|pair| pair[1] - pair[0] == distance).count();
        levels.insert(0, (run, distance as usize));
        numbers = numbers.into_iter().step_by(run).collect();
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_a_group_are_sizes_and_distances() {
        assert_eq!(levels(&[0, 1, 2, 3]).as_slice(), &[(4, 1)]);
        assert_eq!(levels(&[0, 8, 16]).as_slice(), &[(3, 8)]);
        assert_eq!(levels(&[0, 1, 8, 9]).as_slice(), &[(2, 8), (2, 1)]);
        assert_eq!(levels(&[5]).as_slice(), &[]);
    }
}

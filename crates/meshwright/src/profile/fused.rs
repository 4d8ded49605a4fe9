//! Memory under a compiler that fuses: kernels in an order, buffers from the kernel that writes them to
//! the last that reads them.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::copies::{copy_overwritten, copy_updated};
use super::fuse::{Kernel, fuse};
use super::graph::{Graph, Kind, NodeId};
use super::make::{Processor, graph};
use super::memory::{Buffer, Class, Holds, Memory, Step, outer_buffers};
use super::pack::{Chunk, packed_bytes};
use super::place::{Place, Stay, lend};
use crate::program::{Anatomy, Argument, MemoryKind, Op, OpId, Phase, Program, RegionId};

/// Memory as XLA's CPU backend assigns it: `graph` says what ops are to fusion, `make` arranges them, `fuse`
/// groups them, and what is left gets buffers here. The program has no large ops: they are written out.
pub(super) fn fused(program: &Program, anatomy: &Anatomy) -> Memory {
    whole_memory(program, anatomy, Order::BreadthFirst)
}

/// The same, with what is lost between buffers.
pub(super) fn laid_out(program: &Program, anatomy: &Anatomy) -> Memory {
    whole_memory(program, anatomy, Order::LaidOut)
}

/// The same with kernels in the order of the program.
pub(super) fn ordered(program: &Program, anatomy: &Anatomy) -> Memory {
    whole_memory(program, anatomy, Order::Written)
}

/// In which order kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    BreadthFirst,
    /// The same, and buffers are laid out.
    LaidOut,
    Written,
}

fn whole_memory(program: &Program, anatomy: &Anatomy, order: Order) -> Memory {
    let mut memory = region_memory(program, anatomy, program.body, order);
    memory.buffers.extend(outer_buffers(program, anatomy, memory.steps.len()));
    memory
}

/// What a region makes in which results overwrite arguments.
pub(super) fn region_memory(program: &Program, anatomy: &Anatomy, region: RegionId, runs: Order) -> Memory {
    let processor = match runs {
        Order::BreadthFirst | Order::LaidOut => Processor::Cpu,
        Order::Written => Processor::Accelerator,
    };
    let mut graph = graph(program, region, processor);
    let mut kernels = without_aliases(&graph, fuse(program, &graph));
    let pairs = overwritten(program, region, &graph);
    // They stand in an order in which they can run.
    copy_overwritten(&mut graph, &mut kernels, &pairs);
    let order = match runs {
        Order::BreadthFirst | Order::LaidOut => {
            copy_updated(program, &mut graph, &mut kernels);
            breadth_first(&graph, &kernels)
        }
        Order::Written => written(program, &graph, &kernels, anatomy),
    };
    Assignment {
        program,
        anatomy,
        graph: &graph,
        kernels: &kernels,
        order: &order,
        pairs: &pairs,
        runs,
        region,
        is_updated: updated(program, &graph, &kernels),
    }
    .memory()
}

/// Arguments of the program and the results that take their place.
fn overwritten(program: &Program, region: RegionId, graph: &Graph) -> Vec<(NodeId, NodeId)> {
    if region != program.body {
        return Vec::new();
    }
    let alias = |(index, argument): (usize, &Argument)| Some((index, *graph.results.get(argument.alias?)?));
    program.arguments.iter().enumerate().filter_map(alias).collect()
}

/// Kernels that read what aliases read, and no aliases.
pub(super) fn without_aliases(graph: &Graph, kernels: Vec<Kernel>) -> Vec<Kernel> {
    let mut aliases: FxHashMap<NodeId, SmallVec<[NodeId; 4]>> = FxHashMap::default();
    let results: FxHashSet<NodeId> = graph.results.iter().copied().collect();
    let mut kept = Vec::with_capacity(kernels.len());
    for mut kernel in kernels {
        let mut reads: SmallVec<[NodeId; 4]> = SmallVec::new();
        for &read in &kernel.reads {
            let behind = aliases.get(&read).map_or(std::slice::from_ref(&read), |behind| behind.as_slice());
            for &node in behind {
                if !reads.contains(&node) && !matches!(graph.nodes[node].kind, Kind::Number | Kind::Literal) {
                    reads.push(node);
                }
            }
        }
        kernel.reads = reads;
        if kernel.is_alias && !kernel.reads.is_empty() && !results.contains(&kernel.root) {
            aliases.insert(kernel.root, kernel.reads);
        } else {
            kept.push(kernel);
        }
    }
    kept
}

/// An order in which kernels run as soon as all that they read is there, first come, first served.
pub(super) fn breadth_first(graph: &Graph, kernels: &[Kernel]) -> Vec<usize> {
    let mut place = vec![usize::MAX; graph.nodes.len()];
    for (index, kernel) in kernels.iter().enumerate() {
        place[kernel.root] = index;
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let mut waiting: Vec<usize> = vec![0; kernels.len()];
    for (index, kernel) in kernels.iter().enumerate() {
        for &read in &kernel.reads {
            users[read].push(index);
            waiting[index] += 1;
        }
    }
    let is_argument = |&node: &NodeId| graph.nodes[node].kind == Kind::Argument;
    let mut queue: VecDeque<NodeId> = (0..graph.nodes.len()).filter(is_argument).collect();
    queue.extend(kernels.iter().filter(|kernel| kernel.reads.is_empty()).map(|kernel| kernel.root));
    let mut order = Vec::with_capacity(kernels.len());
    while let Some(node) = queue.pop_front() {
        if place[node] != usize::MAX {
            order.push(place[node]);
        }
        for &user in &users[node] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                queue.push_back(kernels[user].root);
            }
        }
    }
    order
}

/// The order in which kernels are written, but that updates run as soon as all that they read is there. Copies from the
/// host run just before their first reader.
fn written(program: &Program, graph: &Graph, kernels: &[Kernel], anatomy: &Anatomy) -> Vec<usize> {
    let mut place = vec![usize::MAX; graph.nodes.len()];
    kernels.iter().enumerate().for_each(|(index, kernel)| place[kernel.root] = index);
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); kernels.len()];
    let mut waiting = vec![0_usize; kernels.len()];
    // Kernels that copy for others have no op of their own, and go with their readers.
    let op = |index: usize| graph.nodes[kernels[index].root].op;
    let is_fetch =
        |index: usize| op(index).is_some_and(|op| program.ops[op].op.copies_to() == Some(MemoryKind::Device));
    for (index, kernel) in kernels.iter().enumerate() {
        for maker in kernel.reads.iter().map(|&read| place[read]).filter(|&maker| maker != usize::MAX) {
            if !is_fetch(maker) {
                users[maker].push(index);
                waiting[index] += 1;
            }
        }
    }
    let is_update = |index: usize| op(index).is_some_and(|op| anatomy.phase(op) == Phase::Update);
    let key = |index: usize| (!is_update(index), op(index), index);
    let mut ready: BTreeSet<(bool, Option<OpId>, usize)> =
        (0..kernels.len()).filter(|&index| waiting[index] == 0 && !is_fetch(index)).map(key).collect();
    let mut order = Vec::with_capacity(kernels.len());
    let mut is_fetched = vec![false; kernels.len()];
    while let Some((_, _, index)) = ready.pop_first() {
        for maker in kernels[index].reads.iter().map(|&read| place[read]).filter(|&maker| maker != usize::MAX) {
            if is_fetch(maker) && !std::mem::replace(&mut is_fetched[maker], true) {
                order.push(maker);
            }
        }
        order.push(index);
        for &user in &users[index] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.insert(key(user));
            }
        }
    }
    order
}

/// Nodes whose buffer is updated in place by a scatter, and so is one with another.
fn updated(program: &Program, graph: &Graph, kernels: &[Kernel]) -> Vec<bool> {
    let mut is_updated = vec![false; graph.nodes.len()];
    for kernel in kernels {
        let op = graph.nodes[kernel.root].op;
        if op.is_some_and(|op| matches!(program.ops[op].op, Op::Scatter(_))) {
            let is_alike = |read: &&NodeId| graph.nodes[**read].bytes == graph.nodes[kernel.root].bytes;
            kernel.reads.iter().filter(is_alike).for_each(|&read| is_updated[read] = true);
        }
    }
    is_updated
}

/// Kernels in the order in which they run.
pub(super) struct Assignment<'g> {
    pub(super) program: &'g Program,
    pub(super) anatomy: &'g Anatomy,
    pub(super) graph: &'g Graph,
    pub(super) kernels: &'g [Kernel],
    pub(super) order: &'g [usize],
    /// Arguments, and the results that take their place.
    pub(super) pairs: &'g [(NodeId, NodeId)],
    /// How kernels of loops and branches are ordered.
    pub(super) runs: Order,
    pub(super) region: RegionId,
    /// Nodes whose buffer a scatter updates in place.
    pub(super) is_updated: Vec<bool>,
}

impl Assignment<'_> {
    fn memory(&self) -> Memory {
        let own = self.bytes();
        let last = self.last_uses();
        let mut bytes = own.clone();
        self.guests(&own, &last).into_iter().for_each(|guest| bytes[guest] = 0);
        let (ends, rooms) = self.ends(&bytes, &last);
        let readers = self.readers();
        // Copies are no steps of the program.
        let mut step = 0;
        let mut starts = Vec::with_capacity(self.order.len() + 1);
        for &index in self.order {
            starts.push(step);
            step += usize::from(self.op(&self.kernels[index]).is_some());
        }
        starts.push(step);
        let mut buffers = Vec::new();
        for (time, (&index, room)) in self.order.iter().zip(rooms).enumerate() {
            let root = self.kernels[index].root;
            let life = starts[time]..starts[ends[root]];
            let Some(op) = self.op(&self.kernels[index]) else {
                let copied = self.graph.nodes[root].operands[0];
                let (holds, class) = match self.graph.nodes[copied].op {
                    Some(op) => {
                        (Holds::Made(op), Class::of_made(self.anatomy.phase(op), readers[root].iter().copied()))
                    }
                    None => (Holds::Copy(copied), Class::of_argument(self.program, self.anatomy, copied)),
                };
                buffers.push(Buffer { holds, class, bytes: bytes[root], life });
                continue;
            };
            let class = Class::of_made(self.anatomy.phase(op), readers[root].iter().copied());
            let is_guest = bytes[root] < own[root];
            let holds = if is_guest { Holds::Guest(op) } else { Holds::Made(op) };
            let moment = life.start..life.start + 1;
            buffers.push(Buffer { holds, class, bytes: own[root], life });
            let scratch = self.inner_bytes(op) + room.saturating_sub(bytes[root]);
            let class = Class::Temporaries;
            buffers.push(Buffer { holds: Holds::Scratch(op), class, bytes: scratch, life: moment });
        }
        buffers.retain(|buffer| buffer.bytes > 0);
        let mut memory = Memory { steps: self.steps(), buffers, lost_bytes: 0 };
        if self.runs == Order::LaidOut {
            memory.lost_bytes = packed_bytes(&self.chunks(&bytes, &last)).saturating_sub(memory.temporary_bytes());
        }
        memory
    }

    /// What temporaries lie in: what takes the place of another lies in the same.
    fn chunks(&self, bytes: &[usize], last: &[usize]) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::with_capacity(self.order.len());
        let mut places: FxHashMap<NodeId, usize> = FxHashMap::default();
        for (time, &index) in self.order.iter().enumerate() {
            let kernel = &self.kernels[index];
            let dying = kernel.reads.iter().copied().filter(|&read| last[read] == time && bytes[read] > 0);
            let taken = self.taken(kernel, dying, bytes);
            let life = time..last[kernel.root] + 1;
            let mut room = 0;
            for read in taken {
                if let Some(&place) = places.get(&read) {
                    room += chunks[place].bytes;
                    chunks[place].life.end = life.end;
                    places.insert(kernel.root, place);
                }
            }
            if bytes[kernel.root] > room {
                places.entry(kernel.root).or_insert(chunks.len());
                chunks.push(Chunk { bytes: bytes[kernel.root] - room, life });
            }
            let scratch = self.op(kernel).map_or(0, |op| self.inner_bytes(op));
            chunks.push(Chunk { bytes: scratch, life: time..time + 1 });
        }
        chunks
    }

    /// The phases of those who read each node.
    fn readers(&self) -> Vec<SmallVec<[Phase; 4]>> {
        let mut readers: Vec<SmallVec<[Phase; 4]>> = vec![SmallVec::new(); self.graph.nodes.len()];
        for kernel in self.kernels {
            if let Some(op) = self.op(kernel) {
                kernel.reads.iter().for_each(|&read| readers[read].push(self.anatomy.phase(op)));
            }
        }
        readers
    }

    /// The nodes that lie where arguments were or results will be.
    fn guests(&self, bytes: &[usize], last: &[usize]) -> Vec<NodeId> {
        let mut made = vec![usize::MAX; self.graph.nodes.len()];
        for (time, &index) in self.order.iter().enumerate() {
            made[self.kernels[index].root] = time;
        }
        let is_lodger = |kernel: &&Kernel| bytes[kernel.root] > 0 && !self.is_loop(kernel);
        let is_copy = |kernel: &&Kernel| self.op(kernel).is_none();
        // Copies stand behind all others, and come first.
        let copies = self.kernels.iter().filter(is_copy);
        let buffers = copies.chain(self.kernels.iter().filter(|kernel| !is_copy(kernel))).filter(is_lodger);
        let buffer = |kernel: &Kernel| {
            let life = made[kernel.root]..last[kernel.root] + 1;
            (
                self.graph.nodes[kernel.root].bytes,
                Stay { node: kernel.root, life, over: self.left_by(kernel, made[kernel.root], last) },
            )
        };
        lend(self.places(&made, last), buffers.map(buffer).collect())
    }

    /// The memory of arguments that are given up and of results, where nothing lies in it for some time.
    fn places(&self, made: &[usize], last: &[usize]) -> Vec<Place> {
        let end = self.order.len();
        let is_made = |result: NodeId| made[result] != usize::MAX;
        let stay = |result: NodeId| {
            let kernel = &self.kernels[self.order[made[result]]];
            Stay { node: result, life: made[result]..end, over: self.left_by(kernel, made[result], last) }
        };
        let mut is_known = vec![false; self.graph.nodes.len()];
        let mut places = Vec::new();
        for &(argument, result) in self.pairs.iter().filter(|(_, result)| is_made(*result)) {
            is_known[result] = true;
            let before = Stay { node: argument, life: 0..last[argument] + 1, over: SmallVec::new() };
            if before.life.end < made[result] {
                places.push(Place { bytes: self.graph.nodes[argument].bytes, stays: vec![before, stay(result)] });
            }
        }
        // What a region inside gives back lies where the op around it says.
        let results = self.graph.results.iter().filter(|_| self.region == self.program.body);
        for &result in results.filter(|&&result| is_made(result)) {
            if !std::mem::replace(&mut is_known[result], true) {
                places.push(Place { bytes: self.graph.nodes[result].bytes, stays: vec![stay(result)] });
            }
        }
        places
    }

    /// What a kernel is the last to read, at its time, and may write its result over.
    fn left_by(&self, kernel: &Kernel, time: usize, last: &[usize]) -> SmallVec<[NodeId; 2]> {
        let bytes = self.graph.nodes[kernel.root].bytes;
        let is_left = |read: &NodeId| last[*read] == time && self.graph.nodes[*read].bytes == bytes;
        kernel.reads.iter().copied().filter(|read| is_left(read) && self.may_overwrite(kernel, *read)).collect()
    }

    /// For each node, when its buffer ends, and for each step, the bytes of buffers whose place its result
    /// takes.
    pub(super) fn ends(&self, bytes: &[usize], last: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let mut ends: Vec<usize> = last.iter().map(|&last| last + 1).collect();
        let mut rooms = Vec::with_capacity(self.order.len());
        for (time, &index) in self.order.iter().enumerate() {
            let kernel = &self.kernels[index];
            let dying = kernel.reads.iter().copied().filter(|&read| last[read] == time && bytes[read] > 0);
            let taken = self.taken(kernel, dying, bytes);
            taken.iter().for_each(|&read| ends[read] = time);
            rooms.push(taken.iter().map(|&read| bytes[read]).sum());
        }
        (ends, rooms)
    }

    /// The op whose result a kernel writes, or `None` for a copy.
    fn op(&self, kernel: &Kernel) -> Option<OpId> {
        self.graph.nodes[kernel.root].op
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let step = |&index: &usize| {
            let kernel = &self.kernels[index];
            let op = self.op(kernel)?;
            let bytes = |&node: &NodeId| self.graph.nodes[node].bytes;
            let [bytes_read, bytes_written] = [kernel.reads.iter().map(bytes).sum(), bytes(&kernel.root)];
            Some(Step { op, phase: self.anatomy.phase(op), bytes_read, bytes_written })
        };
        self.order.iter().filter_map(step).collect()
    }

    /// Bytes of the temporary buffer of each node, 0 for arguments and results.
    pub(super) fn bytes(&self) -> Vec<usize> {
        let mut bytes = vec![0; self.graph.nodes.len()];
        for kernel in self.kernels {
            bytes[kernel.root] = self.graph.nodes[kernel.root].bytes;
        }
        self.graph.results.iter().for_each(|&result| bytes[result] = 0);
        bytes
    }

    /// For each node, when it is last read, or made where nobody reads it.
    pub(super) fn last_uses(&self) -> Vec<usize> {
        let mut last = vec![0; self.graph.nodes.len()];
        for (time, &index) in self.order.iter().enumerate() {
            last[self.kernels[index].root] = time;
            self.kernels[index].reads.iter().for_each(|&read| last[read] = time);
        }
        last
    }

    /// The nodes, among those that nobody reads after a kernel, that its result takes the place of.
    fn taken(
        &self,
        kernel: &Kernel,
        mut dying: impl Iterator<Item = NodeId>,
        bytes: &[usize],
    ) -> SmallVec<[NodeId; 2]> {
        let own = bytes[kernel.root];
        if let Some(op) = self.op(kernel).filter(|_| self.is_loop(kernel)) {
            // What a loop carries begins where its operands are. What it only reads stays beside that.
            let operands = &self.program.ops[op].operands;
            let only_read = self.program.outer_reads(op).into_iter().filter(|value| !operands.contains(value));
            let stays: FxHashSet<NodeId> =
                only_read.filter_map(|value| self.graph.values.get(&value).copied()).collect();
            dying.filter(|read| !stays.contains(read)).collect()
        } else if !self.is_updated[kernel.root] {
            dying.find(|read| bytes[*read] == own && self.may_overwrite(kernel, *read)).into_iter().collect()
        } else {
            SmallVec::new()
        }
    }

    fn is_loop(&self, kernel: &Kernel) -> bool {
        self.op(kernel).is_some_and(|op| self.program.ops[op].op == Op::While)
    }

    /// Whether a kernel may write its result over something that it reads, of the same size.
    fn may_overwrite(&self, kernel: &Kernel, read: NodeId) -> bool {
        let is_scatter = || self.op(kernel).is_some_and(|op| matches!(self.program.ops[op].op, Op::Scatter(_)));
        kernel.over.contains(&read) || is_scatter()
    }

    /// What the regions of an op need besides.
    pub(super) fn inner_bytes(&self, op: OpId) -> usize {
        let operation = &self.program.ops[op];
        let bytes = |region: RegionId| {
            let memory = region_memory(self.program, self.anatomy, region, self.runs);
            memory.temporary_bytes() + memory.lost_bytes
        };
        match operation.op {
            Op::While => bytes(operation.regions[1]),
            Op::Case | Op::If => operation.regions.iter().map(|&region| bytes(region)).max().unwrap_or(0),
            _ => 0,
        }
    }
}

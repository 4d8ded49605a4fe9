//! Memory under a compiler that fuses: kernels in an order, buffers from the kernel that writes them to
//! the last that reads them.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::fuse::{Kernel, fuse};
use super::graph::{Graph, Kind, NodeId};
use super::make::graph;
use super::memory::{Buffer, Class, Holds, Memory, Step, outer_buffers};
use crate::program::{Anatomy, Op, OpId, Phase, Program, RegionId};

/// Memory as XLA's CPU backend assigns it: `graph` says what ops are to fusion, `make` arranges them, `fuse`
/// groups them, and what is left gets buffers here. The program has no large ops: they are written out.
pub(super) fn fused(program: &Program, anatomy: &Anatomy) -> Memory {
    let mut memory = region_memory(program, anatomy, program.body);
    memory.buffers.extend(outer_buffers(program, anatomy, memory.steps.len()));
    memory
}

/// What a region makes in which results overwrite arguments.
fn region_memory(program: &Program, anatomy: &Anatomy, region: RegionId) -> Memory {
    let graph = graph(program, region);
    let kernels = without_aliases(&graph, fuse(program, &graph));
    let order = breadth_first(&graph, &kernels);
    Assignment { program, anatomy, graph: &graph, kernels: &kernels, order: &order }.memory()
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

/// Kernels in the order in which they run.
pub(super) struct Assignment<'g> {
    pub(super) program: &'g Program,
    pub(super) anatomy: &'g Anatomy,
    pub(super) graph: &'g Graph,
    pub(super) kernels: &'g [Kernel],
    pub(super) order: &'g [usize],
}

impl Assignment<'_> {
    fn memory(&self) -> Memory {
        let bytes = self.bytes();
        let (mut ends, rooms) = self.ends(&bytes);
        let mut readers: Vec<SmallVec<[Phase; 4]>> = vec![SmallVec::new(); self.graph.nodes.len()];
        for kernel in self.kernels {
            kernel.reads.iter().for_each(|&read| readers[read].push(self.phase(kernel)));
        }
        let mut buffers = Vec::new();
        for (time, (&index, room)) in self.order.iter().zip(rooms).enumerate() {
            let root = self.kernels[index].root;
            let op = self.op(&self.kernels[index]);
            let class = Class::of_made(self.anatomy.phase(op), readers[root].iter().copied());
            let life = time..std::mem::take(&mut ends[root]);
            buffers.push(Buffer { holds: Holds::Made(op), class, bytes: bytes[root], life });
            let scratch = self.inner_bytes(op) + room.saturating_sub(bytes[root]);
            let class = Class::Temporaries;
            buffers.push(Buffer { holds: Holds::Scratch(op), class, bytes: scratch, life: time..time + 1 });
        }
        buffers.retain(|buffer| buffer.bytes > 0);
        Memory { steps: self.steps(), buffers }
    }

    /// For each node, when its buffer ends, and for each step, the bytes of buffers whose place its result
    /// takes.
    pub(super) fn ends(&self, bytes: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let last = self.last_uses();
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

    /// The op whose result a kernel writes.
    fn op(&self, kernel: &Kernel) -> OpId {
        self.graph.nodes[kernel.root].op.expect("arguments are no kernels")
    }

    fn phase(&self, kernel: &Kernel) -> Phase {
        self.anatomy.phase(self.op(kernel))
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let step = |&index: &usize| {
            let kernel = &self.kernels[index];
            let bytes = |&node: &NodeId| self.graph.nodes[node].bytes;
            let [bytes_read, bytes_written] = [kernel.reads.iter().map(bytes).sum(), bytes(&kernel.root)];
            Step { op: self.op(kernel), phase: self.phase(kernel), bytes_read, bytes_written }
        };
        self.order.iter().map(step).collect()
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
    fn last_uses(&self) -> Vec<usize> {
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
        match self.program.ops[self.op(kernel)].op {
            // What a loop carries begins where its operands are.
            Op::While => dying.collect(),
            Op::Scatter(_) | Op::AllReduce(_) => dying.find(|&read| bytes[read] == own).into_iter().collect(),
            _ if kernel.is_loop => dying.find(|&read| bytes[read] == own).into_iter().collect(),
            _ => SmallVec::new(),
        }
    }

    /// What the regions of an op need besides.
    pub(super) fn inner_bytes(&self, op: OpId) -> usize {
        let operation = &self.program.ops[op];
        let bytes = |region: RegionId| region_memory(self.program, self.anatomy, region).temporary_bytes();
        match operation.op {
            Op::While => bytes(operation.regions[1]),
            Op::Case | Op::If => operation.regions.iter().map(|&region| bytes(region)).max().unwrap_or(0),
            _ => 0,
        }
    }
}

//! Memory under a compiler that fuses: kernels in an order, buffers from the kernel that writes them to
//! the last that reads them.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::fuse::{Kernel, fuse};
use super::graph::{Graph, Kind, NodeId};
use super::make::graph;
use crate::program::{Op, Program, RegionId, expand_attention, expand_batch_norm};

/// The most bytes of temporary buffers that are alive at a time in one run of a program.
pub(super) fn temporary_bytes(program: &Program) -> usize {
    let program = expand_attention(program);
    let program = expand_batch_norm(&program);
    region_bytes(&program, program.body)
}

/// The temporary bytes of a region in which results overwrite arguments.
fn region_bytes(program: &Program, region: RegionId) -> usize {
    let graph = graph(program, region);
    let kernels = without_aliases(&graph, fuse(program, &graph));
    let buffers = Buffers::new(&graph, &kernels);
    buffers.peak(program, &breadth_first(&graph, &kernels))
}

/// Kernels that read what aliases read, and no aliases.
fn without_aliases(graph: &Graph, kernels: Vec<Kernel>) -> Vec<Kernel> {
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
fn breadth_first(graph: &Graph, kernels: &[Kernel]) -> Vec<usize> {
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

struct Buffers<'g> {
    graph: &'g Graph,
    kernels: &'g [Kernel],
    /// Bytes of the temporary buffer of each node, 0 for arguments and results.
    bytes: Vec<usize>,
}

impl<'g> Buffers<'g> {
    fn new(graph: &'g Graph, kernels: &'g [Kernel]) -> Buffers<'g> {
        let mut bytes = vec![0; graph.nodes.len()];
        for kernel in kernels {
            bytes[kernel.root] = graph.nodes[kernel.root].bytes;
        }
        graph.results.iter().for_each(|&result| bytes[result] = 0);
        Buffers { graph, kernels, bytes }
    }

    fn peak(&self, program: &Program, order: &[usize]) -> usize {
        let mut last = vec![usize::MAX; self.graph.nodes.len()];
        for (time, &index) in order.iter().enumerate() {
            last[self.kernels[index].root] = time;
            self.kernels[index].reads.iter().for_each(|&read| last[read] = time);
        }
        let (mut live, mut peak) = (0, 0);
        for (time, &index) in order.iter().enumerate() {
            let kernel = &self.kernels[index];
            let dies = |read: &&NodeId| last[**read] == time && self.bytes[**read] > 0;
            let own = self.bytes[kernel.root];
            let taken = self.taken_bytes(program, kernel, |read| dies(&read));
            let new = own.saturating_sub(taken);
            peak = peak.max(live + new + self.inner_bytes(program, kernel));
            live += own;
            live -= kernel.reads.iter().filter(dies).map(|&read| self.bytes[read]).sum::<usize>();
            if last[kernel.root] == time {
                live -= own;
            }
        }
        peak
    }

    /// Bytes of buffers that end with a kernel and that its results can take the place of.
    fn taken_bytes(&self, program: &Program, kernel: &Kernel, dies: impl Fn(&NodeId) -> bool) -> usize {
        let own = self.bytes[kernel.root];
        let op = self.graph.nodes[kernel.root].op.map(|op| &program.ops[op].op);
        let dying = || kernel.reads.iter().filter(|read| dies(read)).map(|&read| self.bytes[read]);
        match op {
            // What a loop carries begins where its operands are.
            Some(Op::While) => dying().sum(),
            Some(Op::Scatter(_) | Op::AllReduce(_)) => dying().find(|&bytes| bytes == own).unwrap_or(0),
            _ if kernel.is_loop => dying().find(|&bytes| bytes == own).unwrap_or(0),
            _ => 0,
        }
    }

    /// What the regions of a kernel's op need besides.
    fn inner_bytes(&self, program: &Program, kernel: &Kernel) -> usize {
        let Some(op) = self.graph.nodes[kernel.root].op else { return 0 };
        let operation = &program.ops[op];
        match operation.op {
            Op::While => region_bytes(program, operation.regions[1]),
            Op::Case | Op::If => {
                operation.regions.iter().map(|&region| region_bytes(program, region)).max().unwrap_or(0)
            }
            _ => 0,
        }
    }
}

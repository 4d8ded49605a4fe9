//! What goes through memory under an engine, for planners that change what is kept.

use rustc_hash::FxHashMap;

use super::functions::Fused;
use super::fuse::fuse;
use super::fused::{Assignment, Order, breadth_first, without_aliases};
use super::graph::{Graph, Kind, Node};
use super::kernels::kernels;
use super::make::{Processor, graph};
use super::{MemoryModel, eager};
use crate::program::{Anatomy, Id, OpId, Phase, Program, ValueId};

/// What goes through memory.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Of every value the ops that read it there; none of what is made wherever it is read.
    pub(crate) readers: Vec<Vec<OpId>>,
    pub(crate) besides: Vec<Besides>,
}

/// What an op keeps besides values of the program, until another has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Besides {
    pub(crate) op: OpId,
    pub(crate) bytes: usize,
    pub(crate) until: OpId,
}

/// What a program's body writes to memory and reads there.
pub(crate) fn stored(program: &Program, anatomy: &Anatomy, memory_model: MemoryModel) -> Stored {
    match memory_model.fuses() {
        Some(fused) => stored_by_ops(program, anatomy, fused),
        None => stored_by_kernels(program, anatomy),
    }
}

fn stored_by_ops(program: &Program, anatomy: &Anatomy, fused: Fused) -> Stored {
    let list = kernels(program, anatomy, program.body, fused).list;
    let mut readers: Vec<Vec<OpId>> = vec![Vec::new(); program.values.len()];
    for kernel in &list {
        kernel.reads.iter().for_each(|read| readers[read.index()].push(eager::last_op(kernel)));
    }
    let keeping = list.iter().filter(|kernel| kernel.kept_bytes > 0);
    let besides = keeping.map(|kernel| Besides {
        op: eager::last_op(kernel),
        bytes: kernel.kept_bytes,
        until: eager::last_op(&list[kernel.kept_until]),
    });
    Stored { readers, besides: besides.collect() }
}

fn stored_by_kernels(program: &Program, anatomy: &Anatomy) -> Stored {
    let kernels = schedule(program, anatomy);
    let mut readers: Vec<Vec<OpId>> = vec![Vec::new(); program.values.len()];
    for kernel in &kernels {
        for read in kernel.reads.iter().map(|&read| &kernels[read]) {
            let other = if read.values.is_empty() { read.stands_for } else { None };
            read.values.iter().chain(&other).for_each(|value| readers[value.index()].push(kernel.op));
        }
    }
    Stored { readers, besides: Vec::new() }
}

/// What runs at a step, and what it reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledKernel {
    /// The op whose results are written, or that what is written is arranged for.
    pub(crate) op: OpId,
    pub(crate) phase: Phase,
    /// What is written, where it is a value of the program: the results of an op.
    pub(crate) values: Vec<ValueId>,
    /// Where there are none, the value that it writes in another shape or order.
    pub(crate) stands_for: Option<ValueId>,
    /// The steps that write what is read. Arguments are always there.
    pub(crate) reads: Vec<usize>,
    /// Of the buffer that is written, 0 for results of the program.
    pub(crate) bytes: usize,
    /// The first step that does not find the buffer.
    pub(crate) end: usize,
    pub(crate) scratch_bytes: usize,
    pub(crate) bytes_moved: usize,
}

/// The kernels of a program's body in the order in which they run. The program has no large ops.
pub(crate) fn schedule(program: &Program, anatomy: &Anatomy) -> Vec<ScheduledKernel> {
    let graph = graph(program, program.body, Processor::Accelerator);
    let kernels = without_aliases(&graph, fuse(program, &graph));
    let order = breadth_first(&graph, &kernels);
    // Where results go is decided when the whole step is measured.
    let is_updated = vec![false; graph.nodes.len()];
    let assignment = Assignment {
        program,
        anatomy,
        graph: &graph,
        kernels: &kernels,
        order: &order,
        pairs: &[],
        runs: Order::BreadthFirst,
        region: program.body,
        is_updated,
    };
    let bytes = assignment.bytes();
    let (ends, rooms) = assignment.ends(&bytes, &assignment.last_uses());
    let mut steps: FxHashMap<usize, usize> = FxHashMap::default();
    steps.extend(order.iter().enumerate().map(|(step, &index)| (kernels[index].root, step)));
    let mut values: Vec<Vec<ValueId>> = vec![Vec::new(); order.len()];
    for &op in &program.body().ops {
        for result in &program.ops[op].results {
            if let Some(&step) = graph.values.get(result).and_then(|node| steps.get(node)) {
                values[step].push(*result);
            }
        }
    }
    let forms = forms(program, &graph);
    let mut scheduled = Vec::with_capacity(order.len());
    for (step, ((&index, room), written)) in order.iter().zip(rooms).zip(assignment.steps()).enumerate() {
        let kernel = &kernels[index];
        let own = bytes[kernel.root];
        scheduled.push(ScheduledKernel {
            op: written.op,
            phase: written.phase,
            stands_for: forms[kernel.root],
            values: std::mem::take(&mut values[step]),
            reads: kernel.reads.iter().filter_map(|read| steps.get(read).copied()).collect(),
            bytes: own,
            end: ends[kernel.root],
            scratch_bytes: assignment.inner_bytes(written.op) + room.saturating_sub(own),
            bytes_moved: written.bytes_read + written.bytes_written,
        });
    }
    scheduled
}

/// For every node the value of the program that has its elements, be it in another shape or order.
fn forms(program: &Program, graph: &Graph) -> Vec<Option<ValueId>> {
    let mut forms: Vec<Option<ValueId>> = vec![None; graph.nodes.len()];
    for &value in program.body().ops.iter().flat_map(|&op| &program.ops[op].results) {
        if let Some(&node) = graph.values.get(&value) {
            forms[node] = forms[node].or(Some(value));
        }
    }
    let only_operand = |node: &Node| match node.operands[..] {
        [operand] if graph.nodes[operand].bytes == node.bytes => Some(operand),
        _ => None,
    };
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        if let (Kind::Reshape, Some(operand)) = (node.kind, only_operand(node)) {
            forms[operand] = forms[operand].or(forms[index]);
        }
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        if let (None, Some(operand)) = (forms[index], only_operand(node)) {
            forms[index] = forms[operand];
        }
    }
    forms
}

//! Sums over processes that are computed together.

use smallvec::SmallVec;

use super::copies::Ahead;
use super::fuse::Kernel;
use super::graph::{Graph, Kind, Node, NodeId};
use crate::program::{Op, OpId, Program, RegionId};

/// Makes sums over the same processes wait for each other where none needs another's result: XLA combines
/// them into one, so that all operands and all results are there at the same time.
pub(super) fn combine_reductions(program: &Program, graph: &mut Graph, kernels: &mut Vec<Kernel>) {
    let is_reduction =
        |kernel: &Kernel| graph.nodes[kernel.root].op.is_some_and(|op| matches!(program.ops[op].op, Op::AllReduce(_)));
    let reductions: Vec<usize> = (0..kernels.len()).filter(|&index| is_reduction(&kernels[index])).collect();
    let mut makers = vec![usize::MAX; graph.nodes.len()];
    kernels.iter().enumerate().for_each(|(index, kernel)| makers[kernel.root] = index);
    let ahead = Ahead::new(kernels, &makers, 0..kernels.len(), reductions.iter().copied());
    let mut groups: Vec<SmallVec<[usize; 8]>> = Vec::new();
    for (target, &kernel) in reductions.iter().enumerate() {
        // A sum that needs one of a group begins another, and none joins the former after that.
        let latest = groups
            .iter_mut()
            .rev()
            .find(|group| is_alike(program, op(graph, &kernels[group[0]]), op(graph, &kernels[kernel])));
        match latest.filter(|group| !group.iter().any(|&other| ahead.is_ahead(other, target))) {
            Some(group) => group.push(kernel),
            None => groups.push(SmallVec::from_slice(&[kernel])),
        }
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        join(graph, kernels, group);
    }
}

fn op(graph: &Graph, kernel: &Kernel) -> Option<OpId> {
    graph.nodes[kernel.root].op
}

fn is_alike(program: &Program, left: Option<OpId>, right: Option<OpId>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return false };
    let (left, right) = (&program.ops[left], &program.ops[right]);
    let function = |regions: &[RegionId]| regions.first().map(|&region| program.applied_binary(region));
    let processes = match (&left.op, &right.op) {
        (Op::AllReduce(left), Op::AllReduce(right)) => left.groups == right.groups,
        _ => false,
    };
    processes && function(&left.regions) == function(&right.regions)
}

/// Puts one kernel before all of a group, which waits for their operands, and one behind, which reads
/// these and their results, and for which all others wait who read a result.
fn join(graph: &mut Graph, kernels: &mut Vec<Kernel>, group: &[usize]) {
    let op = graph.nodes[kernels[group[0]].root].op;
    let mut operands: SmallVec<[NodeId; 4]> = group.iter().flat_map(|&index| kernels[index].reads.clone()).collect();
    let node = |graph: &mut Graph| {
        let node = Node {
            op,
            kind: Kind::Kernel,
            operands: SmallVec::new(),
            bytes: 0,
            elements: 0,
            rank: 0,
            is_elementwise: false,
        };
        graph.nodes.push(node);
        graph.nodes.len() - 1
    };
    let kernel = |root: NodeId, reads| Kernel { root, reads, over: SmallVec::new(), is_alias: false };
    let before = node(graph);
    kernels.push(kernel(before, operands.clone()));
    group.iter().for_each(|&index| kernels[index].reads.push(before));
    operands.extend(group.iter().map(|&index| kernels[index].root));
    let behind = node(graph);
    let mut is_member = vec![false; graph.nodes.len()];
    group.iter().for_each(|&index| is_member[kernels[index].root] = true);
    for reader in kernels.iter_mut().filter(|kernel| kernel.reads.iter().any(|&read| is_member[read])) {
        reader.reads.push(behind);
    }
    kernels.push(kernel(behind, operands));
}

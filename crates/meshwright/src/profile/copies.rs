//! What is copied before something else takes its place: arguments for results, tensors for what is scattered into them.

use smallvec::SmallVec;

use super::fuse::Kernel;
use super::graph::{Graph, Kind, Node, NodeId};
use crate::program::{Op, Program};

/// Puts a copy between an argument and those who read it where a result takes its place and nothing says
/// that all of them run before that is written. XLA decides so before it knows in which order kernels run.
pub(super) fn copy_overwritten(graph: &mut Graph, kernels: &mut Vec<Kernel>, pairs: &[(NodeId, NodeId)]) {
    let mut readers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); graph.nodes.len()];
    let mut makers = vec![usize::MAX; graph.nodes.len()];
    for (index, kernel) in kernels.iter().enumerate() {
        makers[kernel.root] = index;
        kernel.reads.iter().for_each(|&read| readers[read].push(index));
    }
    let may_be_late = |&&(argument, result): &&(NodeId, NodeId)| {
        let maker = makers[result];
        let is_overwritten_in_place = |&reader: &usize| reader == maker && kernels[reader].over.contains(&argument);
        maker != usize::MAX && !readers[argument].iter().all(is_overwritten_in_place)
    };
    let pairs: Vec<(NodeId, NodeId)> = pairs.iter().filter(may_be_late).copied().collect();
    let ahead = Ahead::new(kernels, &makers, pairs.iter().map(|&(_, result)| makers[result]));
    for (pair, &(argument, result)) in pairs.iter().enumerate() {
        let is_early = |&reader: &usize| {
            if reader == makers[result] {
                kernels[reader].over.contains(&argument)
            } else {
                ahead.is_ahead(reader, pair)
            }
        };
        if readers[argument].iter().all(is_early) {
            continue;
        }
        let copy = copy_of(graph, kernels, argument);
        for &reader in &readers[argument] {
            replace(&mut kernels[reader], argument, copy);
        }
    }
}

/// Puts a copy between a tensor and a scatter into it where nothing says that all others who read it run before. Equal
/// tensors of zeros are one tensor, so that of several scatters into zeros all but the last have a copy, which is there as
/// soon as the zeros are.
pub(super) fn copy_updated(program: &Program, graph: &mut Graph, kernels: &mut Vec<Kernel>) {
    let is_scatter =
        |kernel: &Kernel| graph.nodes[kernel.root].op.is_some_and(|op| matches!(program.ops[op].op, Op::Scatter(_)));
    let made = |node: NodeId| graph.nodes[node].kind != Kind::Argument;
    let target = |kernel: &Kernel| {
        let is_alike = |read: &&NodeId| graph.nodes[**read].bytes == graph.nodes[kernel.root].bytes;
        kernel.reads.iter().find(is_alike).copied().filter(|&read| made(read))
    };
    let scatters: Vec<(usize, NodeId)> = (0..kernels.len())
        .filter(|&index| is_scatter(&kernels[index]))
        .filter_map(|index| Some((index, target(&kernels[index])?)))
        .collect();
    let mut readers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); graph.nodes.len()];
    let mut makers = vec![usize::MAX; graph.nodes.len()];
    for (index, kernel) in kernels.iter().enumerate() {
        makers[kernel.root] = index;
        kernel.reads.iter().for_each(|&read| readers[read].push(index));
    }
    let ahead = Ahead::new(kernels, &makers, scatters.iter().map(|&(scatter, _)| scatter));
    for (place, &(scatter, tensor)) in scatters.iter().enumerate() {
        let is_early = |&reader: &usize| reader == scatter || ahead.is_ahead(reader, place);
        if readers[tensor].iter().all(is_early) {
            continue;
        }
        let copy = copy_of(graph, kernels, tensor);
        replace(&mut kernels[scatter], tensor, copy);
        readers[tensor].retain(|reader| *reader != scatter);
    }
}

/// Adds a kernel that copies a node.
fn copy_of(graph: &mut Graph, kernels: &mut Vec<Kernel>, node: NodeId) -> NodeId {
    let operands = SmallVec::from_slice(&[node]);
    graph.nodes.push(Node { op: None, kind: Kind::Copy, operands, ..graph.nodes[node].clone() });
    let root = graph.nodes.len() - 1;
    kernels.push(Kernel { root, reads: SmallVec::from_slice(&[node]), over: SmallVec::new(), is_alias: false });
    root
}

/// Lets a kernel read a copy.
fn replace(kernel: &mut Kernel, node: NodeId, copy: NodeId) {
    kernel.reads.iter_mut().filter(|read| **read == node).for_each(|read| *read = copy);
}

/// For each kernel, a set of targets that cannot run before it.
struct Ahead {
    words: usize,
    sets: Vec<u64>,
}

impl Ahead {
    /// The kernels stand in an order in which they can run.
    fn new(kernels: &[Kernel], makers: &[usize], targets: impl ExactSizeIterator<Item = usize>) -> Ahead {
        let words = targets.len().div_ceil(64);
        let mut sets = vec![0; words * kernels.len()];
        for (target, kernel) in targets.enumerate() {
            sets[kernel * words + target / 64] |= 1 << (target % 64);
        }
        let mut own = vec![0; words];
        for index in (0..kernels.len()).rev() {
            own.copy_from_slice(&sets[index * words..][..words]);
            for maker in kernels[index].reads.iter().map(|&read| makers[read]).filter(|&maker| maker != usize::MAX) {
                let set = &mut sets[maker * words..][..words];
                set.iter_mut().zip(&own).for_each(|(set, own)| *set |= own);
            }
        }
        Ahead { words, sets }
    }

    fn is_ahead(&self, kernel: usize, target: usize) -> bool {
        self.sets[kernel * self.words + target / 64] >> (target % 64) & 1 == 1
    }
}

//! Which arguments are copied before results take their place.

use smallvec::SmallVec;

use super::fuse::Kernel;
use super::graph::{Graph, Kind, Node, NodeId};

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
        graph.nodes.push(Node {
            kind: Kind::Copy,
            operands: SmallVec::from_slice(&[argument]),
            ..graph.nodes[argument].clone()
        });
        let copy = graph.nodes.len() - 1;
        for &reader in &readers[argument] {
            kernels[reader].reads.iter_mut().filter(|read| **read == argument).for_each(|read| *read = copy);
        }
        kernels.push(Kernel {
            root: copy,
            reads: SmallVec::from_slice(&[argument]),
            over: SmallVec::new(),
            is_alias: false,
        });
    }
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

//! Which ops are computed together, so that what is between them is never in memory.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::graph::{Cost, Graph, Kind, Node, NodeId};
use super::make::Processor;
use crate::program::{Binary, Op, Program, Unary};

/// What runs as one piece of code and writes one result.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// The node whose result it writes.
    pub(super) root: NodeId,
    /// The kernels' roots, and arguments, that it reads.
    pub(super) reads: SmallVec<[NodeId; 4]>,
    /// What it reads element by element as it writes its result, which may take the place of one of these.
    pub(super) over: SmallVec<[NodeId; 4]>,
    /// Whether it only gives what it reads another shape, and does nothing.
    pub(super) is_alias: bool,
}

/// Groups nodes as XLA does: first simple ops around products and sums that libraries compute, then
/// loops into whoever reads them, computed again for each where that is cheap. Gives kernels in
/// program order of their roots.
pub(super) fn fuse(program: &Program, graph: &Graph) -> Vec<Kernel> {
    let mut fusion = Fusion::new(graph);
    fusion.grow_libraries(program);
    fusion.find_shared();
    fusion.fuse_loops();
    fusion.drop_unused();
    fusion.kernels()
}

/// Libraries are not called for fewer elements (XLA's CPU backend).
pub(super) const SMALLEST_FOR_LIBRARIES: usize = 4096;

struct Fusion<'g> {
    graph: &'g Graph,
    /// What each node reads, as fusion goes on.
    operands: Vec<SmallVec<[NodeId; 4]>>,
    /// Who reads each node. Nobody asks that of numbers, which very many read.
    users: Vec<SmallVec<[NodeId; 4]>>,
    /// Nodes that became part of others everywhere.
    gone: Vec<bool>,
    /// Roots of library calls.
    library: Vec<bool>,
    is_result: Vec<bool>,
    /// Nodes that are not computed again for some of their readers.
    shared: Vec<bool>,
    absorbed: Vec<bool>,
    /// Operands of which each node needs elements several times.
    repeated: Vec<SmallVec<[NodeId; 4]>>,
    /// Operands that each node reads otherwise than element by element as it writes.
    skewed: Vec<SmallVec<[NodeId; 4]>>,
}

impl<'g> Fusion<'g> {
    fn new(graph: &'g Graph) -> Fusion<'g> {
        let count = graph.nodes.len();
        let operands: Vec<_> = graph.nodes.iter().map(|node| distinct(&node.operands)).collect();
        let mut users: Vec<SmallVec<[NodeId; 4]>> = vec![SmallVec::new(); count];
        for (node, operands) in operands.iter().enumerate() {
            let counted = operands.iter().filter(|&&operand| graph.nodes[operand].kind != Kind::Number);
            counted.for_each(|&operand| users[operand].push(node));
        }
        let mut is_result = vec![false; count];
        graph.results.iter().for_each(|&node| is_result[node] = true);
        let (gone, library, shared) = (vec![false; count], vec![false; count], vec![false; count]);
        let absorbed = vec![false; count];
        let is_spread = |node: &Node| node.kind == Kind::Loop(Cost::Broadcast);
        let repeated =
            graph.nodes.iter().map(|node| if is_spread(node) { distinct(&node.operands) } else { SmallVec::new() });
        let repeated = repeated.collect();
        let skewed =
            graph.nodes.iter().map(|node| if node.is_elementwise { SmallVec::new() } else { distinct(&node.operands) });
        let skewed = skewed.collect();
        let mut fusion =
            Fusion { graph, operands, users, gone, library, is_result, shared, absorbed, repeated, skewed };
        fusion.drop_unused();
        fusion
    }

    /// Removes what nobody reads. A barrier does not wait for what only it reads, and lets through for nobody.
    fn drop_unused(&mut self) {
        for node in (0..self.graph.nodes.len()).rev() {
            if self.gone[node] || self.is_result[node] {
                continue;
            }
            let mut users = self.users[node].iter().copied();
            match (users.next(), users.next()) {
                (None, _) => self.remove(node),
                (Some(user), None) if self.graph.nodes[user].kind == Kind::Barrier => {
                    self.operands[user].retain(|operand| *operand != node);
                    self.remove(node);
                }
                _ => {}
            }
        }
    }

    fn kind(&self, node: NodeId) -> Kind {
        if self.library[node] { Kind::Library } else { self.graph.nodes[node].kind }
    }

    fn grow_libraries(&mut self, program: &Program) {
        for node in (0..self.graph.nodes.len()).rev() {
            if self.graph.nodes[node].kind != Kind::Library || self.gone[node] || self.library[node] {
                continue;
            }
            self.library[node] = true;
            let op = self.graph.nodes[node].op;
            if op.is_some_and(|op| matches!(program.ops[op].op, Op::Reduce { .. })) {
                self.grow(program, node);
            }
        }
    }

    /// Takes into the call for a sum what only it reads, and so on, and its only reader, and so on.
    fn grow(&mut self, program: &Program, start: NodeId) {
        let mut root = start;
        let mut above: VecDeque<NodeId> = self.operands[start].iter().copied().collect();
        let mut below = self.only_reader(start);
        // Operands and the reader take turns, as they come in.
        loop {
            for _ in 0..above.len() {
                let Some(node) = above.pop_front() else { break };
                if self.only_reader(node) != Some(root) {
                    continue;
                }
                if !self.library[node] && self.is_simple(program, node) {
                    above.extend(self.operands[node].iter().copied());
                } else if !self.library[node] {
                    continue;
                }
                self.library[node] = false;
                self.absorb(root, node);
            }
            let Some(reader) = below.take().filter(|&reader| self.library[reader] || self.is_simple(program, reader))
            else {
                if above.is_empty() {
                    return;
                }
                continue;
            };
            let is_call = self.library[reader];
            if !is_call {
                above.extend(self.operands[reader].iter().copied().filter(|&operand| operand != root));
            }
            self.library[root] = false;
            self.absorb(reader, root);
            root = reader;
            self.library[root] = true;
            below = self.only_reader(root).filter(|_| !is_call);
        }
    }

    /// The reader of a node that nobody else reads.
    fn only_reader(&self, node: NodeId) -> Option<NodeId> {
        let mut readers = self.users[node].iter().copied();
        match (readers.next(), readers.next()) {
            (Some(reader), None) if !self.is_result[node] => Some(reader),
            _ => None,
        }
    }

    /// Whether libraries know an op.
    fn is_simple(&self, program: &Program, node: NodeId) -> bool {
        let Some(op) = self.graph.nodes[node].op.filter(|_| !self.library[node]) else { return false };
        let operation = &program.ops[op];
        let is_float = operation.results.iter().all(|&value| program.dtype(value).is_float());
        // Convolutions and products have limits of their own.
        let is_large = |node: NodeId| self.graph.nodes[node].elements >= SMALLEST_FOR_LIBRARIES;
        let is_worth_it = matches!(operation.op, Op::DotGeneral(_) | Op::Reshape { .. } | Op::BroadcastInDim(_))
            || is_large(node)
            || self.graph.nodes[node].operands.iter().any(|&operand| is_large(operand));
        is_float
            && is_worth_it
            && match &operation.op {
                Op::Binary(binary) => matches!(
                    binary,
                    Binary::Add
                        | Binary::Divide
                        | Binary::Maximum
                        | Binary::Minimum
                        | Binary::Multiply
                        | Binary::Power
                        | Binary::Subtract
                ),
                Op::BroadcastInDim(_) | Op::Reshape { .. } => true,
                Op::Unary(unary) => is_known_to_libraries(*unary),
                Op::DotGeneral(_) => matches!(self.graph.nodes[node].kind, Kind::Library | Kind::Reshape),
                Op::Reduce { .. } => self.graph.nodes[node].kind == Kind::Library,
                _ => false,
            }
    }

    /// Makes a node part of another that reads it.
    fn absorb(&mut self, into: NodeId, node: NodeId) {
        self.absorbed[into] = true;
        self.forget(node, into);
        self.operands[into].retain(|operand| *operand != node);
        for index in 0..self.operands[node].len() {
            let operand = self.operands[node][index];
            if !self.operands[into].contains(&operand) {
                self.operands[into].push(operand);
                if self.graph.nodes[operand].kind != Kind::Number {
                    self.users[operand].push(into);
                }
            }
        }
        if self.users[node].is_empty() && !self.is_result[node] {
            self.remove(node);
        }
    }

    fn remove(&mut self, node: NodeId) {
        self.gone[node] = true;
        for index in 0..self.operands[node].len() {
            self.forget(self.operands[node][index], node);
        }
    }

    /// Makes a node known no more to a reader of it.
    fn forget(&mut self, node: NodeId, reader: NodeId) {
        if let Some(place) = self.users[node].iter().position(|&user| user == reader) {
            self.users[node].swap_remove(place);
        }
    }

    /// Nodes that read more than they write stay in memory, unless all that is between them and their
    /// readers can be computed together with them: to compute them again would be to read more.
    fn find_shared(&mut self) {
        let mut open: Vec<NodeId> = Vec::new();
        for node in (0..self.graph.nodes.len()).rev() {
            let is_taken_everywhere =
                !self.is_result[node] && self.users[node].iter().all(|&user| self.may_take(user, node));
            if !self.reads_more_than_it_writes(node) {
                self.shared[node] = !is_taken_everywhere && self.is_read_where_it_is(node);
                continue;
            }
            // Readers that read other things made later may have these from the node, too.
            let is_behind = |user: &NodeId| self.operands[*user].iter().any(|&operand| operand > node);
            if is_taken_everywhere && self.users[node].iter().any(is_behind) {
                open.push(node);
            } else {
                self.shared[node] = !is_taken_everywhere;
            }
        }
        for sources in open.chunks(Behind::SOURCES) {
            let behind = Behind::new(&self.operands, sources);
            for (index, &node) in sources.iter().enumerate() {
                self.shared[node] = !self.is_taken_on_all_paths(node, |other| behind.contains(other, index));
            }
        }
    }

    /// Whether what is in memory anyway is read there by all: compilers for accelerators compute again either for all
    /// readers or for none. What is small and spread takes nothing to compute.
    fn is_read_where_it_is(&self, node: NodeId) -> bool {
        let is_computed = matches!(self.kind(node), Kind::Loop(cost) if cost != Cost::Broadcast);
        is_computed && !self.gone[node] && self.graph.processor == Processor::Accelerator
    }

    fn reads_more_than_it_writes(&self, node: NodeId) -> bool {
        let (Kind::Loop(_), false) = (self.kind(node), self.gone[node]) else { return false };
        let own = &self.graph.nodes[node];
        let is_large = |operand: &&NodeId| {
            let operand = &self.graph.nodes[**operand];
            operand.kind != Kind::Number && operand.kind != Kind::Loop(Cost::Broadcast) && operand.rank >= own.rank
        };
        let read: usize = self.operands[node].iter().map(|&operand| self.graph.nodes[operand].elements).sum();
        self.operands[node].iter().filter(is_large).count() > 1 && read > own.elements
    }

    /// Whether all readers of a node, and all that is between, can compute what they have from it.
    fn is_taken_on_all_paths(&self, node: NodeId, is_behind: impl Fn(NodeId) -> bool) -> bool {
        let mut waiting: Vec<NodeId> = self.users[node].iter().copied().collect();
        let mut seen: FxHashSet<NodeId> = waiting.iter().copied().collect();
        while let Some(reader) = waiting.pop() {
            for &operand in &self.operands[reader] {
                if operand == node || !is_behind(operand) {
                    continue;
                }
                if self.shared[operand] || !self.may_take(reader, operand) {
                    return false;
                }
                if seen.insert(operand) {
                    waiting.push(operand);
                }
            }
        }
        true
    }

    /// Whether a reader could compute a node itself.
    fn may_take(&self, reader: NodeId, node: NodeId) -> bool {
        let takes = matches!(self.kind(reader), Kind::Loop(_) | Kind::Reshape);
        let fits = match self.kind(node) {
            Kind::Loop(Cost::Broadcast | Cost::Cheap) | Kind::Reshape => true,
            Kind::Loop(Cost::Joined) => self.users[node].len() == 1 || !self.graph.nodes[reader].is_elementwise,
            Kind::Loop(Cost::Expensive) => self.users[node].len() == 1 && !self.repeated[reader].contains(&node),
            _ => false,
        };
        takes && fits && !self.is_result[node]
    }

    fn fuse_loops(&mut self) {
        for node in (0..self.graph.nodes.len()).rev() {
            if self.gone[node] || !matches!(self.kind(node), Kind::Loop(_) | Kind::Reshape) {
                continue;
            }
            // The latest first, so that what is read by several parts is taken in once. What comes with an
            // operand was made before it.
            let mut before = node;
            while let Some(operand) = self.operands[node].iter().copied().filter(|&operand| operand < before).max() {
                before = operand;
                if !self.shared[operand] && self.may_take(node, operand) {
                    self.repeat(node, operand);
                    self.absorb(node, operand);
                }
            }
        }
    }

    /// Notes how a reader reads what a node reads, before it takes it in.
    fn repeat(&mut self, reader: NodeId, node: NodeId) {
        for known in [&mut self.repeated, &mut self.skewed] {
            let more = if known[reader].contains(&node) { self.operands[node].clone() } else { known[node].clone() };
            let known = &mut known[reader];
            more.into_iter().for_each(|operand| {
                if !known.contains(&operand) {
                    known.push(operand);
                }
            });
        }
    }

    fn kernels(&self) -> Vec<Kernel> {
        let is_kernel = |&node: &NodeId| {
            !self.gone[node] && !matches!(self.graph.nodes[node].kind, Kind::Argument | Kind::Number | Kind::Literal)
        };
        let kernel = |root: NodeId| Kernel {
            root,
            reads: self.operands[root].clone(),
            over: match self.kind(root) {
                Kind::Loop(_) => {
                    self.operands[root].iter().copied().filter(|operand| !self.skewed[root].contains(operand)).collect()
                }
                _ => SmallVec::new(),
            },
            is_alias: match self.kind(root) {
                Kind::Passed => true,
                kind => kind == Kind::Reshape && !self.absorbed[root],
            },
        };
        (0..self.graph.nodes.len()).filter(is_kernel).map(kernel).collect()
    }
}

/// For each node, which of some sources it is made from.
struct Behind {
    first: NodeId,
    sets: Vec<[u64; Behind::SOURCES / 64]>,
}

impl Behind {
    const SOURCES: usize = 256;

    /// Nodes stand in an order in which they can be made.
    fn new(operands: &[SmallVec<[NodeId; 4]>], sources: &[NodeId]) -> Behind {
        let first = sources.iter().copied().min().unwrap_or(0);
        let mut sets = vec![[0u64; Behind::SOURCES / 64]; operands.len() - first];
        sources.iter().enumerate().for_each(|(index, &source)| sets[source - first][index / 64] |= 1 << (index % 64));
        for node in first..operands.len() {
            let mut set = sets[node - first];
            for &operand in operands[node].iter().filter(|&&operand| operand >= first) {
                set.iter_mut().zip(sets[operand - first]).for_each(|(own, other)| *own |= other);
            }
            sets[node - first] = set;
        }
        Behind { first, sets }
    }

    fn contains(&self, node: NodeId, source: usize) -> bool {
        node >= self.first && self.sets[node - self.first][source / 64] >> (source % 64) & 1 == 1
    }
}

fn is_known_to_libraries(unary: Unary) -> bool {
    matches!(
        unary,
        Unary::Abs
            | Unary::Ceil
            | Unary::Cosine
            | Unary::Erf
            | Unary::Exponential
            | Unary::ExponentialMinusOne
            | Unary::Floor
            | Unary::Log
            | Unary::LogPlusOne
            | Unary::Logistic
            | Unary::Negate
            | Unary::RoundNearestEven
            | Unary::Rsqrt
            | Unary::Sign
            | Unary::Sine
            | Unary::Sqrt
            | Unary::Square
            | Unary::Tan
            | Unary::Tanh
    )
}

fn distinct(nodes: &[NodeId]) -> SmallVec<[NodeId; 4]> {
    let mut found: SmallVec<[NodeId; 4]> = SmallVec::new();
    for &node in nodes {
        if !found.contains(&node) {
            found.push(node);
        }
    }
    found
}

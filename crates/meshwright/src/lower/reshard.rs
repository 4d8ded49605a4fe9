//! From one sharding to another: the cheapest sequence of collectives.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use rustc_hash::FxHashMap;

use crate::program::Type;
use crate::shard::{Mesh, Piece, Pieces, Reduction, Sharding};

/// One step of a reshard. Pieces are in order, the most significant first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    AllGather {
        dim: usize,
        pieces: Pieces,
    },
    AllReduce {
        pieces: Pieces,
        reduction: Reduction,
    },
    AllToAll {
        from: usize,
        to: usize,
        pieces: Pieces,
    },
    /// Devices exchange their parts, which keep their shape.
    Permute,
    ReduceScatter {
        dim: usize,
        pieces: Pieces,
        reduction: Reduction,
    },
    /// Every device keeps its own part of what it has.
    Slice {
        dim: usize,
        pieces: Pieces,
    },
    /// Every device but the first along the pieces forgets what it has, so that the reduction over
    /// them gives it back.
    Spread {
        pieces: Pieces,
        reduction: Reduction,
    },
}

/// What a step moves; what prices are made of.
#[derive(Clone, Debug)]
pub struct Movement<'a> {
    pub step: &'a Step,
    /// Along which pieces devices exchange.
    pub pieces: &'a [Piece],
    /// Bytes on a device before and after.
    pub before: usize,
    pub after: usize,
}

/// Seconds, or anything else to be made small.
pub type Price<'a> = &'a (dyn Fn(&Mesh, &Movement<'_>) -> f64 + Sync);

/// The cheapest moves and their price.
type Way = Option<(Vec<Move>, f64)>;

/// One step and the sharding it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub step: Step,
    pub to: Sharding,
}

/// The cheapest way between two shardings of a value of the (global) type, and its price. `None`
/// where there is none, which only tiles in time can cause.
pub fn reshard(mesh: &Mesh, ty: &Type, from: &Sharding, to: &Sharding, price: Price<'_>) -> Way {
    let mut search = Search { mesh, ty, to, price, nodes: Vec::new(), known: FxHashMap::default() };
    search.nodes.push(Node { sharding: from.clone(), price: 0.0, arrival: None, done: false });
    search.known.insert(from.clone(), 0);
    let mut queue = BinaryHeap::from([Candidate { price: 0.0, node: 0 }]);
    while let Some(Candidate { node, .. }) = queue.pop() {
        if std::mem::replace(&mut search.nodes[node].done, true) {
            continue;
        }
        if search.nodes[node].sharding == *to {
            return Some((search.path(node), search.nodes[node].price));
        }
        for next in search.moves(node) {
            search.reach(node, next, &mut queue);
        }
    }
    None
}

/// Ways found before.
pub struct Ways<'a> {
    mesh: &'a Mesh,
    price: Price<'a>,
    known: FxHashMap<(Sharding, Sharding, Type), Way>,
}

impl<'a> Ways<'a> {
    pub fn new(mesh: &'a Mesh, price: Price<'a>) -> Ways<'a> {
        Ways { mesh, price, known: FxHashMap::default() }
    }

    /// See [`reshard`].
    pub fn find(&mut self, ty: &Type, from: &Sharding, to: &Sharding) -> Option<&(Vec<Move>, f64)> {
        let key = (from.clone(), to.clone(), ty.clone());
        let (mesh, price) = (self.mesh, self.price);
        self.known.entry(key).or_insert_with(|| reshard(mesh, ty, from, to, price)).as_ref()
    }

    /// The price of the cheapest way.
    pub fn price(&mut self, ty: &Type, from: &Sharding, to: &Sharding) -> Option<f64> {
        // Sums over time are kept where they are and cost nothing to move.
        if from.partial.iter().any(|&piece| self.mesh.is_temporal(piece)) {
            let spatial = |piece: &Piece| !self.mesh.is_temporal(*piece);
            let partial = from.partial.iter().copied().filter(spatial).collect();
            return self.price(ty, &Sharding { partial, ..from.clone() }, to);
        }
        if from == to { Some(0.0) } else { self.find(ty, from, to).map(|(_, price)| *price) }
    }
}

impl fmt::Debug for Ways<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ways").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

struct Search<'a> {
    mesh: &'a Mesh,
    ty: &'a Type,
    to: &'a Sharding,
    price: Price<'a>,
    nodes: Vec<Node>,
    known: FxHashMap<Sharding, usize>,
}

struct Node {
    sharding: Sharding,
    price: f64,
    /// The node before and the step from it.
    arrival: Option<(usize, Step)>,
    done: bool,
}

/// The cheapest first; of equals the one found first, so that paths do not depend on chance.
struct Candidate {
    price: f64,
    node: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        other.price.total_cmp(&self.price).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

impl Search<'_> {
    fn path(&self, mut node: usize) -> Vec<Move> {
        let mut moves = Vec::new();
        while let Some((before, step)) = &self.nodes[node].arrival {
            moves.push(Move { step: step.clone(), to: self.nodes[node].sharding.clone() });
            node = *before;
        }
        moves.reverse();
        moves
    }

    fn reach(&mut self, from: usize, next: Move, queue: &mut BinaryHeap<Candidate>) {
        let bytes = |sharding: &Sharding| sharding.local_type(self.mesh, self.ty).bytes();
        let movement = Movement {
            step: &next.step,
            pieces: next.step.pieces(),
            before: bytes(&self.nodes[from].sharding),
            after: bytes(&next.to),
        };
        let price = self.nodes[from].price + (self.price)(self.mesh, &movement);
        let node = match self.known.get(&next.to) {
            Some(&node) if self.nodes[node].done || self.nodes[node].price <= price => return,
            Some(&node) => node,
            None => {
                let node = self.nodes.len();
                self.known.insert(next.to.clone(), node);
                self.nodes.push(Node { sharding: next.to, price, arrival: None, done: false });
                node
            }
        };
        self.nodes[node].price = price;
        self.nodes[node].arrival = Some((from, next.step));
        queue.push(Candidate { price, node });
    }

    /// Every step from a sharding that may lead to the target.
    fn moves(&self, node: usize) -> Vec<Move> {
        let from = &self.nodes[node].sharding;
        let mut moves = Vec::new();
        self.permute(from, &mut moves);
        self.finish(from, &mut moves);
        self.spread(from, &mut moves);
        for dim in 0..from.dims.len() {
            self.take_apart(from, dim, &mut moves);
            self.slice(from, dim, &mut moves);
        }
        moves
    }

    fn permute(&self, from: &Sharding, moves: &mut Vec<Move>) {
        let parts = |pieces: &Pieces| self.mesh.product(pieces);
        let fits = from.partial == self.to.partial
            && from.dims != self.to.dims
            && from.dims.iter().map(parts).eq(self.to.dims.iter().map(parts))
            && !from.dims.iter().chain(&self.to.dims).flatten().any(|&piece| self.mesh.is_temporal(piece));
        if fits {
            moves.push(Move { step: Step::Permute, to: self.to.clone() });
        }
    }

    /// Reductions: of all that has to be finished, of what is cut nowhere in the end, or into a
    /// dimension that is to be cut.
    fn finish(&self, from: &Sharding, moves: &mut Vec<Move>) {
        let pending: Pieces = from.partial.iter().copied().filter(|piece| !self.to.partial.contains(piece)).collect();
        let pending: Pieces = pending.into_iter().filter(|&piece| !self.mesh.is_temporal(piece)).collect();
        if pending.is_empty() {
            return;
        }
        let cut = self.to.cut();
        let lost: Pieces = pending.iter().copied().filter(|&piece| !cut.contains(piece)).collect();
        for pieces in [&pending, &lost] {
            if !pieces.is_empty() {
                let to = without_partial(from, pieces);
                moves.push(Move { step: Step::AllReduce { pieces: pieces.clone(), reduction: from.reduction }, to });
            }
        }
        for dim in 0..from.dims.len() {
            let missing = self.missing(from, dim);
            for count in 1..=missing.len() {
                let pieces = Pieces::from_slice(&missing[..count]);
                if !pieces.iter().all(|piece| pending.contains(piece)) {
                    break;
                }
                let mut to = without_partial(from, &pieces);
                to.dims[dim].extend(pieces.iter().copied());
                if self.may_step(from, &to, dim) {
                    moves.push(Move { step: Step::ReduceScatter { dim, pieces, reduction: from.reduction }, to });
                }
            }
        }
    }

    fn spread(&self, from: &Sharding, moves: &mut Vec<Move>) {
        let used = from.used();
        let pieces: Pieces = self.to.partial.iter().copied().filter(|&piece| !used.contains(piece)).collect();
        let fits = from.partial.is_empty() || from.reduction == self.to.reduction;
        if pieces.is_empty() || !fits {
            return;
        }
        let mut to = from.clone();
        to.partial.extend(pieces.iter().copied());
        to.partial.sort_unstable();
        to.reduction = self.to.reduction;
        moves.push(Move { step: Step::Spread { pieces, reduction: to.reduction }, to });
    }

    /// The innermost pieces of a dimension are gathered, or moved to another dimension.
    fn take_apart(&self, from: &Sharding, dim: usize, moves: &mut Vec<Move>) {
        let have = &from.dims[dim];
        for keep in 0..have.len() {
            let pieces = Pieces::from_slice(&have[keep..]);
            if pieces.iter().any(|&piece| self.mesh.is_temporal(piece)) {
                continue;
            }
            let mut gathered = from.clone();
            gathered.dims[dim].truncate(keep);
            if !self.may_step(from, &gathered, dim) {
                continue;
            }
            for other in 0..from.dims.len() {
                if other == dim || !self.missing(from, other).starts_with(&pieces) {
                    continue;
                }
                let mut to = gathered.clone();
                to.dims[other].extend(pieces.iter().copied());
                if self.may_step(&gathered, &to, other) {
                    moves.push(Move { step: Step::AllToAll { from: dim, to: other, pieces: pieces.clone() }, to });
                }
            }
            moves.push(Move { step: Step::AllGather { dim, pieces }, to: gathered });
        }
    }

    fn slice(&self, from: &Sharding, dim: usize, moves: &mut Vec<Move>) {
        let used = from.used();
        let missing = self.missing(from, dim);
        let count = missing.iter().take_while(|&&piece| !used.contains(piece)).count();
        for count in 1..=count {
            let pieces = Pieces::from_slice(&missing[..count]);
            let mut to = from.clone();
            to.dims[dim].extend(pieces.iter().copied());
            if self.may_step(from, &to, dim) {
                moves.push(Move { step: Step::Slice { dim, pieces }, to });
            }
        }
    }

    /// The pieces that still have to cut a dimension, where what cuts it now is the target's beginning.
    fn missing(&self, from: &Sharding, dim: usize) -> &[Piece] {
        self.to.dims[dim].strip_prefix(from.dims[dim].as_slice()).unwrap_or(&[])
    }

    /// Parts that are padded have nothing to do with parts of another number: a dimension that does
    /// not divide is cut from whole, and put together to whole.
    fn may_step(&self, from: &Sharding, to: &Sharding, dim: usize) -> bool {
        let size = self.ty.shape[dim];
        let is_padded = from.is_padded(self.mesh, dim, size) || to.is_padded(self.mesh, dim, size);
        !is_padded || from.dims[dim].is_empty() || to.dims[dim].is_empty()
    }
}

impl Step {
    pub fn pieces(&self) -> &[Piece] {
        match self {
            Step::AllGather { pieces, .. }
            | Step::AllReduce { pieces, .. }
            | Step::AllToAll { pieces, .. }
            | Step::ReduceScatter { pieces, .. }
            | Step::Slice { pieces, .. }
            | Step::Spread { pieces, .. } => pieces,
            Step::Permute => &[],
        }
    }

    /// Whether devices talk to each other.
    pub fn communicates(&self) -> bool {
        !matches!(self, Step::Slice { .. } | Step::Spread { .. })
    }
}

fn without_partial(sharding: &Sharding, pieces: &[Piece]) -> Sharding {
    let mut result = sharding.clone();
    result.partial.retain(|piece| !pieces.contains(piece));
    if result.partial.is_empty() {
        result.reduction = Reduction::default();
    }
    result
}

//! From one sharding to another: the cheapest sequence of collectives.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use rustc_hash::FxHashMap;

use crate::program::Type;
use crate::shard::{Mesh, Piece, Pieces, Reduction, Sharding};

/// With no more pieces than this, all ways are searched; with more, those whose steps each bring some
/// piece where it belongs.
const COMPLETE_PIECES: u32 = 3;

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
    pub haste: Haste,
}

/// Whether somebody waits for what is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Haste {
    /// It is wanted at once.
    Awaited,
    /// Nobody waits for it, so that engines move it together with others.
    Combined,
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
pub fn reshard(mesh: &Mesh, ty: &Type, from: &Sharding, to: &Sharding, haste: Haste, price: Price<'_>) -> Way {
    let pieces = from.used().union(to.used());
    let is_complete = pieces.0.count_ones() <= COMPLETE_PIECES;
    let mut search = Search { mesh, ty, to, haste, price, is_complete, nodes: Vec::new(), known: FxHashMap::default() };
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
    known: FxHashMap<(Sharding, Sharding, Type, Haste), Way>,
}

impl<'a> Ways<'a> {
    pub fn new(mesh: &'a Mesh, price: Price<'a>) -> Ways<'a> {
        Ways { mesh, price, known: FxHashMap::default() }
    }

    /// See [`reshard`].
    pub fn find(&mut self, ty: &Type, from: &Sharding, to: &Sharding, haste: Haste) -> Option<&(Vec<Move>, f64)> {
        let key = (from.clone(), to.clone(), ty.clone(), haste);
        let (mesh, price) = (self.mesh, self.price);
        self.known.entry(key).or_insert_with(|| reshard(mesh, ty, from, to, haste, price)).as_ref()
    }

    /// The price of the cheapest way.
    pub fn price(&mut self, ty: &Type, from: &Sharding, to: &Sharding, haste: Haste) -> Option<f64> {
        // Sums over time are kept where they are and cost nothing to move.
        if from.partial.iter().any(|&piece| self.mesh.is_temporal(piece)) {
            let spatial = |piece: &Piece| !self.mesh.is_temporal(*piece);
            let partial = from.partial.iter().copied().filter(spatial).collect();
            return self.price(ty, &Sharding { partial, ..from.clone() }, to, haste);
        }
        if from == to { Some(0.0) } else { self.find(ty, from, to, haste).map(|(_, price)| *price) }
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
    haste: Haste,
    price: Price<'a>,
    is_complete: bool,
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
            haste: self.haste,
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
        self.reorder(from, &mut moves);
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

    /// Devices exchange parts so that pieces that have to leave a dimension are its last, where they can
    /// leave without those that stay.
    fn reorder(&self, from: &Sharding, moves: &mut Vec<Move>) {
        let place = |dim: usize, piece: Piece| {
            let home = self.to.dims.iter().position(|pieces| pieces.contains(&piece));
            let rank = home.and_then(|home| self.to.dims[home].iter().position(|&other| other == piece));
            // Those that stay first, then those that go to the same dimension together.
            (home != Some(dim), home, rank)
        };
        let mut to = from.clone();
        for (dim, pieces) in to.dims.iter_mut().enumerate() {
            pieces.sort_by_key(|&piece| place(dim, piece));
        }
        let is_temporal = from.dims.iter().flatten().any(|&piece| self.mesh.is_temporal(piece));
        if to.dims != from.dims && to.dims != self.to.dims && !is_temporal {
            moves.push(Move { step: Step::Permute, to });
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
                moves.push(Move { step: Step::AllReduce { pieces: *pieces, reduction: from.reduction }, to });
            }
        }
        for dim in 0..from.dims.len() {
            for pieces in self.additions(from, dim, &pending) {
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
            for other in (0..from.dims.len()).filter(|&other| other != dim) {
                let missing = self.missing(from, other);
                if !self.is_complete && !pieces.iter().all(|piece| missing.contains(piece)) {
                    continue;
                }
                let mut to = gathered.clone();
                to.dims[other].extend(pieces.iter().copied());
                let fits = self.mesh.product(&to.dims[other]) <= self.ty.shape[other];
                if fits && self.may_step(&gathered, &to, other) {
                    moves.push(Move { step: Step::AllToAll { from: dim, to: other, pieces }, to });
                }
                self.slice_before(from, dim, &missing, moves);
            }
            moves.push(Move { step: Step::AllGather { dim, pieces }, to: gathered });
        }
    }

    /// What another dimension is to be cut by besides is cut here first: then there is less to exchange.
    fn slice_before(&self, from: &Sharding, dim: usize, missing: &[Piece], moves: &mut Vec<Move>) {
        let used = from.used();
        let pieces: Pieces = missing.iter().copied().filter(|&piece| !used.contains(piece)).collect();
        let mut to = from.clone();
        to.dims[dim].extend(pieces.iter().copied());
        let parts = self.mesh.product(&to.dims[dim]);
        if !pieces.is_empty() && parts <= self.ty.shape[dim] && self.may_step(from, &to, dim) {
            moves.push(Move { step: Step::Slice { dim, pieces }, to });
        }
    }

    fn slice(&self, from: &Sharding, dim: usize, moves: &mut Vec<Move>) {
        let used = from.used();
        let unused: Pieces = self.to.dims.iter().flatten().copied().filter(|&piece| !used.contains(piece)).collect();
        for pieces in self.additions(from, dim, &unused) {
            let mut to = from.clone();
            to.dims[dim].extend(pieces.iter().copied());
            if self.may_step(from, &to, dim) {
                moves.push(Move { step: Step::Slice { dim, pieces }, to });
            }
        }
    }

    /// By which of some pieces a dimension may be cut besides.
    fn additions(&self, from: &Sharding, dim: usize, among: &[Piece]) -> Vec<Pieces> {
        if !self.is_complete {
            let open: Pieces = self.missing(from, dim).into_iter().filter(|piece| among.contains(piece)).collect();
            return (1..=open.len()).map(|count| Pieces::from_slice(&open[..count])).collect();
        }
        let parts = self.mesh.product(&from.dims[dim]);
        let fits = |pieces: &Pieces| parts * self.mesh.product(pieces) <= self.ty.shape[dim];
        lists(among).into_iter().filter(fits).collect()
    }

    /// The pieces that still have to cut a dimension, where all that cuts it now is to stay. They may
    /// come in another order than the target's: a permutation can mend that in the end.
    fn missing(&self, from: &Sharding, dim: usize) -> Pieces {
        let (have, wanted) = (&from.dims[dim], &self.to.dims[dim]);
        if !have.iter().all(|piece| wanted.contains(piece)) {
            return Pieces::new();
        }
        wanted.iter().copied().filter(|piece| !have.contains(piece)).collect()
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

    /// Such as `all_gather dimension 0 over {data}`.
    pub fn describe(&self, mesh: &Mesh) -> String {
        let over = format!("over {{{}}}", mesh.describe(self.pieces()));
        match self {
            Step::AllGather { dim, .. } => format!("all_gather dimension {dim} {over}"),
            Step::AllReduce { .. } => format!("all_reduce {over}"),
            Step::AllToAll { from, to, .. } => format!("all_to_all from dimension {from} to {to} {over}"),
            Step::Permute => "collective_permute".to_owned(),
            Step::ReduceScatter { dim, .. } => format!("reduce_scatter dimension {dim} {over}"),
            Step::Slice { dim, .. } => format!("slice dimension {dim} {over}"),
            Step::Spread { .. } => format!("spread {over}"),
        }
    }

    /// Whether devices talk to each other.
    pub fn communicates(&self) -> bool {
        !matches!(self, Step::Slice { .. } | Step::Spread { .. })
    }
}

/// All lists of some of the pieces, each piece at most once.
fn lists(pieces: &[Piece]) -> Vec<Pieces> {
    let mut lists = vec![Pieces::new()];
    let mut done = 0;
    while done < lists.len() {
        for &piece in pieces {
            if !lists[done].contains(&piece) {
                let mut longer = lists[done];
                longer.push(piece);
                lists.push(longer);
            }
        }
        done += 1;
    }
    lists.split_off(1)
}

fn without_partial(sharding: &Sharding, pieces: &[Piece]) -> Sharding {
    let mut result = sharding.clone();
    result.partial.retain(|piece| !pieces.contains(piece));
    if result.partial.is_empty() {
        result.reduction = Reduction::default();
    }
    result
}

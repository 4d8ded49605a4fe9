//! What it costs to bring a value from any place to any other.
//!
//! Plans cut dimensions by whole axes, in the order of the mesh. So where a value lies is told by a number for each
//! axis, and all ways are short enough to search them all at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::lower::{Haste, Movement, Price, Step};
use crate::program::Type;
use crate::shard::{Mesh, Pieces, Reduction, Sharding};

/// The axes of a mesh that a plan is free to use.
#[derive(Clone, Debug)]
pub(super) struct Axes {
    pub(super) pieces: Vec<Pieces>,
    pub(super) sizes: Vec<usize>,
}

impl Axes {
    pub(super) fn new(mesh: &Mesh) -> Axes {
        let wanted = (0..mesh.axes.len()).filter(|&axis| !mesh.axes[axis].temporal && mesh.axes[axis].size > 1);
        let (pieces, sizes) = wanted.map(|axis| (mesh.pieces(axis), mesh.axes[axis].size)).unzip();
        Axes { pieces, sizes }
    }

    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// How a value lies that is cut by whole axes.
    pub(super) fn place(&self, sharding: &Sharding) -> Place {
        let mut place = Place::default();
        for (axis, pieces) in self.pieces.iter().enumerate() {
            let dim = sharding.dims.iter().position(|dim| dim.contains(&pieces[0]));
            let spot = match dim {
                Some(dim) => dim as u32 + 1,
                None if sharding.partial.contains(&pieces[0]) => PARTIAL,
                None => 0,
            };
            place = place.with(axis, spot);
        }
        place
    }

    pub(super) fn sharding(&self, place: Place, rank: usize, reduction: Reduction) -> Sharding {
        let mut sharding = Sharding::whole(rank);
        for (axis, pieces) in self.pieces.iter().enumerate() {
            match place.spot(axis) {
                0 => {}
                PARTIAL => sharding.partial.extend(pieces.iter().copied()),
                spot => sharding.dims[spot as usize - 1].extend(pieces.iter().copied()),
            }
        }
        sharding.partial.sort_unstable();
        sharding.reduction = if sharding.partial.is_empty() { Reduction::Sum } else { reduction };
        sharding
    }

    /// Into how many parts a dimension is cut.
    pub(super) fn parts(&self, place: Place, dim: usize) -> usize {
        (0..self.len()).filter(|&axis| place.spot(axis) == dim as u32 + 1).map(|axis| self.sizes[axis]).product()
    }

    /// Into how many parts all dimensions of a value are cut.
    pub(super) fn all_parts(&self, place: Place, rank: usize) -> usize {
        let is_dim = |&axis: &usize| (1..=rank as u32).contains(&place.spot(axis));
        (0..self.len()).filter(is_dim).map(|axis| self.sizes[axis]).product()
    }

    /// The type of one part.
    pub(super) fn local(&self, place: Place, ty: &Type) -> Type {
        let mut local = ty.clone();
        for (dim, size) in local.shape.iter_mut().enumerate() {
            *size = size.div_ceil(self.parts(place, dim));
        }
        local
    }
}

/// Where each axis is in a value: 4 bits for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place(u64);

/// The axis has parts of a sum. Otherwise 0 where all along it have the same, or one more than the dimension it cuts.
pub(super) const PARTIAL: u32 = 15;

/// Dimensions that there are numbers for.
pub(super) const MOST_DIMS: usize = 13;

impl Place {
    pub(super) fn spot(self, axis: usize) -> u32 {
        (self.0 >> (4 * axis) & 15) as u32
    }

    pub(super) fn with(self, axis: usize, spot: u32) -> Place {
        Place(self.0 & !(15 << (4 * axis)) | u64::from(spot) << (4 * axis))
    }

    pub(super) fn is_partial(self, axes: usize) -> bool {
        (0..axes).any(|axis| self.spot(axis) == PARTIAL)
    }

    /// Whether every device has what it needs for another place.
    pub(super) fn holds(self, other: Place, axes: usize) -> bool {
        (0..axes).all(|axis| self.spot(axis) == 0 || self.spot(axis) == other.spot(axis))
    }

    /// The same once its sums are finished.
    pub(super) fn finished(self, axes: usize) -> Place {
        (0..axes).filter(|&axis| self.spot(axis) == PARTIAL).fold(self, |place, axis| place.with(axis, 0))
    }
}

/// What it takes to bring a value of a type from a place to every other.
type Known = FxHashMap<(Type, Place), FxHashMap<Place, f64>>;

/// Prices on a mesh that somebody has found, for whoever asks next.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Known>>);

/// The same of moves that somebody waits for, and of those that engines combine.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedPrices {
    awaited: Shared,
    combined: Shared,
}

impl SharedPrices {
    fn of(&self, haste: Haste) -> &Shared {
        match haste {
            Haste::Awaited => &self.awaited,
            Haste::Combined => &self.combined,
        }
    }
}

/// Prices of all reshards, found as they are asked for.
pub(super) struct Moves<'a> {
    mesh: &'a Mesh,
    axes: &'a Axes,
    haste: Haste,
    price: Price<'a>,
    known: Known,
    shared: &'a Shared,
}

impl Drop for Moves<'_> {
    /// Leaves what is known to whoever comes next.
    fn drop(&mut self) {
        if let Ok(mut shared) = self.shared.0.lock()
            && shared.len() < self.known.len()
        {
            *shared = std::mem::take(&mut self.known);
        }
    }
}

impl<'a> Moves<'a> {
    /// Takes along what others know, whom this leaves with nothing meanwhile: they find the same again.
    pub(super) fn new(
        mesh: &'a Mesh,
        axes: &'a Axes,
        price: Price<'a>,
        shared: &'a SharedPrices,
        haste: Haste,
    ) -> Moves<'a> {
        let shared = shared.of(haste);
        let known = shared.0.lock().map(|mut shared| std::mem::take(&mut *shared)).unwrap_or_default();
        Moves { mesh, axes, haste, price, known, shared }
    }

    /// Seconds to bring a value of the (global) type from one place to another; infinite where there is no way.
    pub(super) fn seconds(&mut self, ty: &Type, from: Place, to: Place) -> f64 {
        if from == to {
            return 0.0;
        }
        let (mesh, axes, haste, price) = (self.mesh, self.axes, self.haste, self.price);
        // What all have becomes parts of a sum where all but one forget it.
        let is_spread = |axis: &usize| to.spot(*axis) == PARTIAL && from.spot(*axis) != PARTIAL;
        let spread: SmallVec<[usize; 6]> = (0..axes.len()).filter(is_spread).collect();
        if !spread.is_empty() {
            let before = spread.iter().fold(to, |place, &axis| place.with(axis, 0));
            let pieces: Pieces = spread.iter().flat_map(|&axis| axes.pieces[axis].iter().copied()).collect();
            let bytes = axes.local(before, ty).bytes();
            let step = Step::Spread { pieces, reduction: Reduction::Sum };
            let own = price(mesh, &Movement { step: &step, pieces: &pieces, before: bytes, after: bytes, haste });
            return self.seconds(ty, from, before) + own;
        }
        let entry = self.known.entry((ty.clone(), from));
        let found = entry.or_insert_with(|| Ways { mesh, axes, haste, price, ty }.from(from));
        found.get(&to).copied().unwrap_or(f64::INFINITY)
    }
}

struct Ways<'a> {
    mesh: &'a Mesh,
    axes: &'a Axes,
    haste: Haste,
    price: Price<'a>,
    ty: &'a Type,
}

impl Ways<'_> {
    /// The cheapest way to every place.
    fn from(&self, start: Place) -> FxHashMap<Place, f64> {
        let mut found: FxHashMap<Place, f64> = FxHashMap::default();
        let mut open = BinaryHeap::from([Reverse((0_u64, start))]);
        while let Some(Reverse((bits, place))) = open.pop() {
            if found.contains_key(&place) {
                continue;
            }
            // Of floats that are not negative, the bits are in the order of the numbers.
            let seconds = f64::from_bits(bits);
            found.insert(place, seconds);
            for set in 1..1_u32 << self.axes.len() {
                self.steps(place, set, &mut |to, price| {
                    if !found.contains_key(&to) {
                        open.push(Reverse(((seconds + price).to_bits(), to)));
                    }
                });
            }
        }
        found
    }

    /// All steps in which a set of axes goes from one spot to another.
    fn steps(&self, from: Place, set: u32, reach: &mut dyn FnMut(Place, f64)) {
        let members: SmallVec<[usize; 6]> = (0..self.axes.len()).filter(|axis| set >> axis & 1 == 1).collect();
        let spot = from.spot(members[0]);
        if members.iter().any(|&axis| from.spot(axis) != spot) {
            return;
        }
        let move_to = |target: u32| members.iter().fold(from, |place, &axis| place.with(axis, target));
        let dims = (0..self.ty.rank() as u32).map(|dim| dim + 1).filter(|&target| target != spot);
        for target in dims.chain((spot != 0).then_some(0)) {
            let to = move_to(target);
            let fits = |dim: usize| self.ty.shape[dim].is_multiple_of(self.axes.parts(to, dim));
            if target == 0 || fits(target as usize - 1) {
                reach(to, self.step_price(from, to, &members, spot, target));
            }
        }
    }

    fn step_price(&self, from: Place, to: Place, members: &[usize], spot: u32, target: u32) -> f64 {
        let pieces: Pieces = members.iter().flat_map(|&axis| self.axes.pieces[axis].iter().copied()).collect();
        let (before, after) = (self.axes.local(from, self.ty).bytes(), self.axes.local(to, self.ty).bytes());
        let reduction = Reduction::Sum;
        let dim = |spot: u32| spot as usize - 1;
        let step = match (spot, target) {
            (0, _) => Step::Slice { dim: dim(target), pieces },
            (PARTIAL, 0) => Step::AllReduce { pieces, reduction },
            (PARTIAL, _) => Step::ReduceScatter { dim: dim(target), pieces, reduction },
            (_, 0) => Step::AllGather { dim: dim(spot), pieces },
            (_, _) => Step::AllToAll { from: dim(spot), to: dim(target), pieces },
        };
        let haste = self.haste;
        let own = (self.price)(self.mesh, &Movement { step: &step, pieces: &pieces, before, after, haste });
        // Axes leave a dimension, and come to it, as its innermost; else parts are exchanged first.
        let is_inner = |place: Place, spot: u32| {
            let others = (0..self.axes.len()).filter(|axis| place.spot(*axis) == spot && !members.contains(axis));
            spot == 0 || spot == PARTIAL || others.max() < members.first().copied()
        };
        let extra =
            [(from, spot, before), (to, target, after)].into_iter().filter(|&(place, spot, _)| !is_inner(place, spot));
        let permute = |bytes: usize| {
            let (step, pieces) = (&Step::Permute, &[]);
            (self.price)(self.mesh, &Movement { step, pieces, before: bytes, after: bytes, haste })
        };
        own + extra.map(|(_, _, bytes)| permute(bytes)).sum::<f64>()
    }
}

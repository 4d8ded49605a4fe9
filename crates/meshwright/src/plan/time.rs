//! Microbatches: what runs in every trip of a loop over them, and on how much.

use std::sync::Arc;

use super::moves::{Axes, Place};
use crate::program::{Id, OpId, Type, ValueId};
use crate::shard::{Axis, Layout, Mesh};

/// The name of the axis in time that microbatches lie along.
pub(super) const MICROBATCHES: &str = "micro";

/// Factors that there are bits for.
pub(super) const MOST_FACTORS: usize = 63;

/// How a step is cut in time.
#[derive(Clone, Debug)]
pub(super) struct Time {
    pub(super) microbatches: usize,
    /// For every value, the dimension that is cut into microbatches.
    tiles: Vec<Option<u8>>,
    /// For every op, the factors that are.
    factors: Vec<u64>,
    /// For every value, into how many slices it is cut besides.
    slices: Option<Arc<Vec<u8>>>,
}

impl Time {
    /// The inputs are cut along their first dimension, and all that follows from it.
    pub(super) fn new(base: &Layout<'_>, microbatches: usize) -> Result<Time, String> {
        let program = base.program;
        let mut time = Time {
            microbatches,
            tiles: vec![None; program.values.len()],
            factors: vec![0; program.ops.len()],
            slices: None,
        };
        if microbatches == 1 {
            return Ok(time);
        }
        let axis = Axis { name: MICROBATCHES.to_owned(), size: microbatches, temporal: true };
        let mut layout = base.on(Mesh::new(vec![axis])?);
        crate::tactics::cut_batch(&mut layout, 0)?;
        for value in program.values.ids() {
            let dims = &layout.sharding(value).dims;
            time.tiles[value.index()] = dims.iter().position(|pieces| !pieces.is_empty()).map(|dim| dim as u8);
        }
        for &op in layout.ops() {
            let factors = layout.strategy(op).factors.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
            time.factors[op.index()] = factors.map(|(factor, _)| 1 << factor).sum();
        }
        Ok(time)
    }

    /// The same where some values are there one slice at a time.
    pub(super) fn sliced(&self, slices: &Arc<Vec<u8>>) -> Time {
        let finer = |known: &Arc<Vec<u8>>| known.iter().zip(&**slices).map(|(one, other)| *one.max(other)).collect();
        let slices = self.slices.as_ref().map(finer).map_or_else(|| Arc::clone(slices), Arc::new);
        Time { slices: Some(slices), ..self.clone() }
    }

    /// Into how many slices a value is cut, one of which is there at a time.
    pub(super) fn slices(&self, value: ValueId) -> u64 {
        self.slices.as_ref().map_or(1, |slices| u64::from(slices[value.index()]))
    }

    /// How many ops run once for every microbatch.
    pub(super) fn cut_count(&self) -> usize {
        self.factors.iter().filter(|factors| **factors != 0).count()
    }

    /// How often an op runs.
    pub(super) fn trips(&self, op: OpId) -> usize {
        if self.factors[op.index()] == 0 { 1 } else { self.microbatches }
    }

    pub(super) fn factor_trips(&self, op: OpId, factor: usize) -> usize {
        if self.factors[op.index()] >> factor & 1 == 1 { self.microbatches } else { 1 }
    }

    pub(super) fn is_tiled(&self, value: ValueId) -> bool {
        self.tiles[value.index()].is_some()
    }

    /// Whether what a trip has of a value can be brought from one place to another within the trip. Microbatches are
    /// cut from what a device has, so that devices have no trip in common once another axis cuts the same dimension.
    pub(super) fn may_move(&self, axes: &Axes, value: ValueId, from: Place, to: Place) -> bool {
        self.batch_axes(axes, value, from) == self.batch_axes(axes, value, to)
    }

    /// The axes that cut the dimension of a value that is cut into microbatches, a bit for each.
    pub(super) fn batch_axes(&self, axes: &Axes, value: ValueId, place: Place) -> u32 {
        let Some(dim) = self.tiles[value.index()] else { return 0 };
        (0..axes.len()).filter(|&axis| place.spot(axis) == u32::from(dim) + 1).map(|axis| 1 << axis).sum()
    }

    /// The type of what one trip has of a value.
    pub(super) fn tile(&self, value: ValueId, ty: &Type) -> Type {
        let mut tile = ty.clone();
        if let Some(dim) = self.tiles[value.index()] {
            tile.shape[usize::from(dim)] /= self.microbatches;
        }
        tile
    }

    /// How many elements the same has.
    pub(super) fn tile_elements(&self, value: ValueId, ty: &Type) -> usize {
        let tiled = self.tiles[value.index()].map(usize::from);
        let size = |(dim, &size): (usize, &usize)| if Some(dim) == tiled { size / self.microbatches } else { size };
        ty.shape.iter().enumerate().map(size).product()
    }

    /// Whether every part is of the same size, also in every trip.
    pub(super) fn divides(&self, axes: &Axes, value: ValueId, ty: &Type, place: Place) -> bool {
        let tile = self.tile(value, ty);
        (0..tile.rank()).all(|dim| tile.shape[dim].is_multiple_of(axes.parts(place, dim)))
    }
}

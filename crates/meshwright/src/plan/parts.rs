//! What a device has of a value.

use super::graph::Flow;
use super::moves::{Axes, Place};
use super::time::Time;
use crate::program::{Program, Type, ValueId};

/// How values are cut in space and time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) program: &'a Program,
    pub(super) axes: &'a Axes,
    pub(super) time: &'a Time,
}

impl Parts<'_> {
    /// Into how many parts devices cut a value.
    pub(super) fn count(&self, value: ValueId, place: Place) -> usize {
        self.axes.all_parts(place, self.program.ty(value).rank())
    }

    /// What all devices have of a value in one trip.
    pub(super) fn tile(&self, value: ValueId) -> Type {
        self.time.tile(value, self.program.ty(value))
    }

    /// What goes between devices where a flow is moved.
    pub(super) fn moved(&self, flow: &Flow) -> Moved {
        let tile = self.tile(flow.value);
        let narrow = flow.narrow.map(|dtype| tile.with_dtype(dtype));
        Moved { tile, narrow, axes: self.axes.len() }
    }

    /// What a device has of a value in one trip.
    pub(super) fn local(&self, value: ValueId, place: Place) -> Type {
        self.time.tile(value, &self.axes.local(place, self.program.ty(value)))
    }

    /// Bytes of the same.
    pub(super) fn bytes(&self, value: ValueId, place: Place) -> u64 {
        let ty = self.program.ty(value);
        let tile_bytes = (self.time.tile_elements(value, ty) * ty.dtype.bits()).div_ceil(8);
        (tile_bytes as u64).div_ceil(self.count(value, place) as u64 * self.time.slices(value))
    }

    /// Whether a device can bring what it has of a value to another place within a trip.
    pub(super) fn may_move(&self, value: ValueId, from: Place, to: Place) -> bool {
        self.time.may_move(self.axes, value, from, to)
    }
}

/// A flow on its way.
pub(super) struct Moved {
    tile: Type,
    /// Who gathers it to make it narrower does that before.
    narrow: Option<Type>,
    axes: usize,
}

impl Moved {
    pub(super) fn ty(&self, from: Place, to: Place) -> &Type {
        self.narrow.as_ref().filter(|_| to.holds(from, self.axes)).unwrap_or(&self.tile)
    }
}

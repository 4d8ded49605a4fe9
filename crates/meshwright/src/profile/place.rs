//! Buffers that lie where arguments were, or where results will be.

use std::ops::Range;

use smallvec::SmallVec;

use super::graph::NodeId;

/// A piece of memory that is there for all of a step, because an argument or a result lies in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) bytes: usize,
    /// When something lies in it.
    pub(super) stays: Vec<Stay>,
}

/// Something that lies in a piece of memory for some time.
#[derive(Clone, Debug)]
pub(super) struct Stay {
    pub(super) node: NodeId,
    /// From the step that writes it to behind the last that reads it.
    pub(super) life: Range<usize>,
    /// What it may be written over, by the step that reads that last.
    pub(super) over: SmallVec<[NodeId; 2]>,
}

/// Gives places to buffers as XLA does: large ones first, each in the smallest place that has room for it
/// at the time. Gives the nodes that found one.
pub(super) fn lend(mut places: Vec<Place>, mut buffers: Vec<(usize, Stay)>) -> Vec<NodeId> {
    // Sorting is stable: what is equally large stays in order.
    places.sort_by_key(|place| std::cmp::Reverse(place.bytes));
    buffers.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut found = Vec::new();
    for (bytes, stay) in buffers {
        let fitting = places.partition_point(|place| place.bytes >= bytes);
        let has_room = |place: &&mut Place| place.stays.iter().all(|other| !collides(&stay, other));
        if let Some(place) = places[..fitting].iter_mut().rev().find(has_room) {
            found.push(stay.node);
            place.stays.push(stay);
        }
    }
    found
}

fn collides(left: &Stay, right: &Stay) -> bool {
    let overlaps = left.life.start < right.life.end && right.life.start < left.life.end;
    overlaps && !follows(left, right) && !follows(right, left)
}

/// Whether one is written over the other.
fn follows(late: &Stay, early: &Stay) -> bool {
    late.life.start + 1 == early.life.end && late.over.contains(&early.node)
}

//! The least memory that a step can be brought to, which is the same whatever the limit: who is told that so much is
//! needed, and gives so much, finds it to be enough.

use std::sync::Arc;

use super::candidate::Candidate;
use super::label::Labelled;
use super::space::{Sketched, Space};
use super::time::Time;

/// A frame is passed over unless it takes less than the best before it by this factor.
const CLOSE: f64 = 0.98;
/// So often the limit of a frame is tried between what is enough and what is not.
const MOST_TRIES: usize = 8;
/// No limit at all, with room to add to it.
pub(super) const UNLIMITED: u64 = u64::MAX >> 8;

/// The frames that take least, as far as the labelling knows: one with a single microbatch, which has no sums to keep,
/// and one with as many as cut all that two cut, which are the smallest. Where the labelling is wrong about what
/// microbatches keep for each other, it is so about one of them only.
/// State lies on the host where it can.
pub(super) fn least<'g>(space: &Space<'g>) -> Vec<Candidate<'g>> {
    // Norms over groups of examples, for one, are not cut into less than a group.
    let cuts = |time: usize| space.time(time).map_or(0, Time::cut_count);
    let most = (1..space.counts.len()).rev().find(|&time| cuts(time) >= cuts(1));
    let times = [Some(0), most].into_iter().flatten();
    times.filter_map(|time| least_at(space, time)).collect()
}

/// The mesh that takes least with a number of microbatches.
fn least_at<'g>(space: &Space<'g>, time: usize) -> Option<Candidate<'g>> {
    let mut best = None;
    let mut most_bytes = UNLIMITED;
    for sketched in space.within().flat_map(|mesh| space.sketches(mesh, time)) {
        let held = space.may_hold().then(|| sketched.held());
        let sketched = held.as_ref().unwrap_or(sketched);
        if let Some(labelled) = shrink(sketched, most_bytes) {
            let least_bytes = labelled.peak_bytes;
            most_bytes = (least_bytes as f64 * CLOSE) as u64;
            best = Some(Candidate::labelled(Arc::clone(&sketched.sketch), least_bytes, labelled));
        }
    }
    best
}

/// The labelling of a frame with the least at its peak, which is no more than so much.
fn shrink(sketched: &Sketched<'_>, most_bytes: u64) -> Option<Labelled> {
    let mut best = sketched.label(most_bytes, f64::INFINITY)?;
    // Less than this share of the memory of a free labelling is not tried.
    let mut too_little_bytes = best.peak_bytes / 64;
    for _ in 0..MOST_TRIES {
        let (low, high) = (too_little_bytes as f64, best.peak_bytes as f64);
        if low >= high * CLOSE {
            break;
        }
        let middle = (low * high).sqrt() as u64;
        match sketched.label(middle, f64::INFINITY) {
            Some(labelled) => best = labelled,
            None => too_little_bytes = middle,
        }
    }
    Some(best)
}

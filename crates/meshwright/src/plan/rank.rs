//! Which frames are worth being simulated, by their labels, and in which order.

use std::cmp::Reverse;
use std::sync::Arc;

use super::candidate::Candidate;
use super::considered::ALIKE;
use super::label::Labelled;
use super::parallel::in_parallel;
use super::search::Request;
use super::sketch::Frame;
use super::space::{Sketched, Space};

/// With so many numbers of microbatches frames are sketched at once: what comes of them tells whether more are worth it.
const TIMES_AT_ONCE: usize = 2;
/// So many frames are labelled at once: what comes of them tells which others are worth it.
const LABELLED_AT_ONCE: usize = 4;
/// Frames that cannot be near the best by this factor are not labelled to the end: labels and simulations differ by less.
pub(super) const MOST_WORSE_RANKED: f64 = 1.12;
/// Meshes of more axes that cannot be better by this share than those of fewer are not labelled to the end.
const LEAST_REFINED: f64 = 5e-3;
/// Meshes with an axis across levels are tried with as many microbatches as are best for others, or fewer by this factor.
const FEWER_ACROSS: usize = 8;
/// So many frames are labelled with more effort before any is simulated.
const MOST_DEEPENED: usize = 6;

/// All frames that may be worth it, labelled, the best for every number of microbatches first, on meshes within levels
/// and across: labellings of frames alike are closer to each other than to the truth.
pub(super) fn rank<'g>(request: &Request<'_>, space: &Space<'g>) -> Vec<Candidate<'g>> {
    let mut ranked = label_all(request, space);
    drop_refined(&mut ranked);
    let mut ranked = deepen(ranked);
    ranked.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
    first_of_kinds(ranked, |frame| (kind(frame), space.is_across(&frame.mesh)))
}

/// The first of every kind before the rest of it.
pub(super) fn first_of_kinds<'g, K: PartialEq>(
    ranked: Vec<Candidate<'g>>,
    kind: impl Fn(&Frame) -> K,
) -> Vec<Candidate<'g>> {
    let mut kinds = Vec::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for ranked in ranked {
        let kind = kind(&ranked.sketch.frame);
        if kinds.contains(&kind) {
            rest.push(ranked);
        } else {
            kinds.push(kind);
            first.push(ranked);
        }
    }
    first.extend(rest);
    first
}

/// What frames of different meshes have in common.
pub(super) fn kind(frame: &Frame) -> (usize, bool) {
    (frame.microbatches, frame.is_eager)
}

/// Labels frames, roughly: those of meshes within levels, then of those across, with as many microbatches as are best for
/// the former or some fewer.
fn label_all<'g>(request: &Request<'_>, space: &Space<'g>) -> Vec<Candidate<'g>> {
    let limit_bytes = request.own_limit_bytes();
    let mut ranking = Ranking { limit_bytes, labelled: Vec::new(), best: f64::INFINITY };
    ranking.label(sketch_all(space, limit_bytes));
    let likely = |(_, labelled): &(&Sketched<'g>, Labelled)| labelled.likely_seconds();
    let best = ranking.labelled.iter().min_by(|left, right| likely(left).total_cmp(&likely(right)));
    let most = best.map_or(0, |(sketched, _)| sketched.sketch.frame.microbatches);
    let is_tried = |&time: &usize| space.counts[time] <= most && space.counts[time] * FEWER_ACROSS >= most;
    let times = (0..space.counts.len()).filter(is_tried);
    let cells = times.flat_map(|time| space.across().map(move |mesh| (mesh, time)));
    ranking.label(sketch(space, cells.collect(), limit_bytes));
    let Ranking { labelled, best, .. } = ranking;
    let most_seconds = best * MOST_WORSE_RANKED;
    in_parallel(labelled, |(sketched, first)| {
        let may_be_near = first.lower_bound_seconds <= most_seconds;
        let again = may_be_near.then(|| sketched.label_again(limit_bytes, &first, most_seconds)).flatten();
        Candidate::labelled(Arc::clone(&sketched.sketch), limit_bytes, again.unwrap_or(first))
    })
}

/// All frames of meshes within levels but those with more microbatches than help: few come first.
fn sketch_all<'s, 'g>(space: &'s Space<'g>, limit_bytes: u64) -> Vec<&'s Sketched<'g>> {
    let times = space.counts.len();
    let mut progress: Vec<Progress> = vec![Progress::default(); space.within().len()];
    let mut sketched = Vec::new();
    for start in (0..times).step_by(TIMES_AT_ONCE) {
        let at_once = start..(start + TIMES_AT_ONCE).min(times);
        let cells = at_once.flat_map(|time| space.within().map(move |mesh| (mesh, time)));
        let cells: Vec<(usize, usize)> = cells.filter(|(mesh, _)| !progress[*mesh].is_done).collect();
        sketched.extend(sketch(space, cells.clone(), limit_bytes));
        for (mesh, time) in cells {
            let free = space.sketches(mesh, time).iter().filter_map(|sketched| sketched.label_free(limit_bytes));
            progress[mesh].add(free);
        }
    }
    sketched
}

/// The frames of meshes with numbers of microbatches, labelled as if there were memory enough.
fn sketch<'s, 'g>(space: &'s Space<'g>, cells: Vec<(usize, usize)>, limit_bytes: u64) -> Vec<&'s Sketched<'g>> {
    let sketched = in_parallel(cells, |(mesh, time)| {
        let sketches = space.sketches(mesh, time);
        sketches.iter().for_each(|sketched| _ = sketched.label_free(limit_bytes));
        sketches
    });
    sketched.into_iter().flatten().collect()
}

/// The frames that were labelled, and what the best of them should take.
struct Ranking<'s, 'g> {
    limit_bytes: u64,
    labelled: Vec<(&'s Sketched<'g>, Labelled)>,
    best: f64,
}

impl<'s, 'g> Ranking<'s, 'g> {
    /// Labels more frames. Those that memory is enough for are known at once. Of the others those with most microbatches
    /// come first, since memory is least short there: what they take tells of most others that they are not worth it.
    fn label(&mut self, sketched: Vec<&'s Sketched<'g>>) {
        let limit_bytes = self.limit_bytes;
        let mut short = Vec::new();
        for sketched in sketched {
            match sketched.label_free(limit_bytes) {
                Some(free) => self.add(sketched, free),
                None => short.push(sketched),
            }
        }
        let axes = |sketched: &&Sketched<'g>| sketched.sketch.frame.mesh.axes.len();
        short.sort_by_key(|sketched| (axes(sketched), Reverse(sketched.sketch.frame.microbatches)));
        for alike in short.chunk_by(|left, right| axes(left) == axes(right)) {
            for at_once in alike.chunks(LABELLED_AT_ONCE) {
                let found = in_parallel(at_once.to_vec(), |sketched| {
                    let most_seconds = self.coarser(&sketched.sketch.frame) * (1.0 - LEAST_REFINED);
                    Some((sketched, sketched.label(limit_bytes, most_seconds.min(self.best * MOST_WORSE_RANKED))?))
                });
                found.into_iter().flatten().for_each(|(sketched, labelled)| self.add(sketched, labelled));
            }
        }
    }

    fn add(&mut self, sketched: &'s Sketched<'g>, labelled: Labelled) {
        self.best = self.best.min(labelled.likely_seconds());
        self.labelled.push((sketched, labelled));
    }

    /// What the best of meshes with fewer axes takes, which can do nothing that those of more axes cannot.
    fn coarser(&self, frame: &Frame) -> f64 {
        let is_coarser = |other: &Frame| kind(other) == kind(frame) && other.mesh.axes.len() < frame.mesh.axes.len();
        let coarser = self.labelled.iter().filter(|(sketched, _)| is_coarser(&sketched.sketch.frame));
        coarser.map(|(_, labelled)| labelled.seconds).fold(f64::INFINITY, f64::min)
    }
}

/// Drops meshes that are no better than one of fewer axes: they do the same by more names.
fn drop_refined(ranked: &mut Vec<Candidate<'_>>) {
    let known = |ranked: &Candidate<'_>| {
        let frame = &ranked.sketch.frame;
        (kind(frame), frame.mesh.axes.len(), ranked.seconds())
    };
    let all: Vec<_> = ranked.iter().map(known).collect();
    ranked.retain(|ranked| {
        let (kind, axes, seconds) = known(ranked);
        !all.iter().any(|other| other.0 == kind && other.1 < axes && other.2 <= seconds * (1.0 + ALIKE))
    });
}

/// Labels those once more that could be far better than was found, with more effort.
fn deepen(ranked: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let best = ranked.iter().map(Candidate::seconds).fold(f64::INFINITY, f64::min);
    let mut order: Vec<(f64, usize)> = ranked.iter().map(Candidate::bound_seconds).zip(0..).collect();
    order.retain(|&(bound, _)| bound < best);
    order.sort_by(|left, right| left.0.total_cmp(&right.0));
    order.truncate(MOST_DEEPENED);
    let is_chosen = |index: usize| order.iter().any(|&(_, chosen)| chosen == index);
    in_parallel(ranked.into_iter().enumerate().collect(), |(index, candidate): (usize, Candidate<'_>)| {
        if is_chosen(index) { candidate.deepened(best) } else { candidate }
    })
}

/// What is known of a mesh with the numbers of microbatches that were looked at.
#[derive(Clone)]
struct Progress {
    best: f64,
    is_done: bool,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { best: f64::INFINITY, is_done: false }
    }
}

impl Progress {
    /// Takes in what memory was enough for with the next number of microbatches. More save memory, which is not needed
    /// once everything fits, and hide more, which soon ends.
    fn add(&mut self, labelled: impl Iterator<Item = Labelled>) {
        let seconds = labelled.map(|labelled| labelled.likely_seconds()).fold(f64::INFINITY, f64::min);
        self.is_done |= seconds.is_finite() && seconds > self.best;
        self.best = self.best.min(seconds);
    }
}

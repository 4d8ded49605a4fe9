//! What else is tried where memory is short: slices, and state on the host.

use std::sync::Arc;

use super::candidate::Candidate;
use super::label::{Effort, Labelled, Until};
use super::parallel::in_parallel;
use super::rank::{MOST_WORSE_RANKED, first_of_kinds, kind};
use super::search::{AT_ONCE, MOST_SIMULATED, MOST_WORSE, Request, Searched};
use super::sketch::{Outcome, Sketch};
use super::space::{FIRST_EXPOSURE, Space};
use crate::program::ArgumentClass;
use crate::tactics::Freedom;

/// Slices are tried where more memory could save more than this share of the time.
const LEAST_GAIN: f64 = 0.03;
/// State lies on the host where that should save more than this share of the time.
const LEAST_GAIN_ON_HOST: f64 = 0.01;
/// So many frames are simulated with state on the host once something fits.
const MOST_HELD: usize = 3;
/// State is not worth it that takes less than this share of the memory.
const LEAST_ON_HOST: f64 = 0.05;

/// Where memory was short, what takes most at a time may run in slices: on the mesh of the best, or where nothing fits of
/// the smallest, with as many microbatches or fewer. Slices save memory and nothing else, so that they are not tried
/// where all the memory of the world would hardly help.
pub(super) fn sliced<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>) -> Vec<Candidate<'g>> {
    if request.told.is_some_and(|told| !told.auto.may(Freedom::Split)) {
        return Vec::new();
    }
    let smallest = || searched.found.iter().min_by_key(|(_, outcome)| outcome.peak_bytes);
    let best = searched.best(request);
    let seconds = best.map_or(f64::INFINITY, |(_, outcome)| outcome.timeline.step_seconds);
    let labelled = best.map(|(_, outcome)| &outcome.labelled);
    let first_seconds = labelled.map_or(f64::INFINITY, first_seconds);
    let likely_seconds = labelled.map_or(f64::INFINITY, Labelled::likely_seconds);
    if !may_gain(space, first_seconds) {
        return Vec::new();
    }
    let start = best.or_else(smallest).filter(|(_, outcome)| outcome.labelled.is_bound);
    let Some((sketch, outcome)) = start else { return Vec::new() };
    let limit_bytes = request.own_limit_bytes();
    let faster = if space.may_slice() { space.faster(&sketch.frame, first_seconds) } else { Vec::new() };
    let itself = (!sketch.frame.is_sliced).then_some(Slicing::Simulated(sketch, outcome));
    let jobs = itself.into_iter().chain(faster.into_iter().map(Slicing::Sketched)).collect();
    let sliced = in_parallel(jobs, |job| match job {
        Slicing::Simulated(sketch, outcome) => {
            let sketch = space.sliced(sketch);
            let room_bytes = request.limit_bytes.saturating_sub(outcome.peak_bytes);
            let limit_bytes = outcome.labelled.peak_bytes + room_bytes;
            let sliced = sketch.slice(outcome, request.runner())?;
            let sliced = sliced.map(|sliced| Candidate::simulated(request, sketch, limit_bytes, sliced));
            Ok(sliced.into_iter().collect())
        }
        Slicing::Sketched(line) => {
            let sliced = line.iter().map(|sketch| space.sliced(sketch));
            Ok(label_line(sliced, limit_bytes, Until::spent(Effort::Little)))
        }
    });
    let (mut itself, mut fewer): (Vec<Candidate<'g>>, Vec<Candidate<'g>>) = Default::default();
    for candidates in sliced {
        match candidates {
            Ok(candidates) => candidates.into_iter().for_each(|candidate| match candidate.next {
                None => itself.push(candidate),
                Some(_) => fewer.push(candidate),
            }),
            Err(reason) => _ = searched.first_error.get_or_insert(reason),
        }
    }
    fewer.retain(|candidate| candidate.seconds() <= likely_seconds.min(seconds * MOST_WORSE));
    fewer.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
    fewer.truncate(AT_ONCE - 1);
    fewer.into_iter().chain(itself).collect()
}

/// What may run in slices: what was simulated, or what is yet to be labelled, by lines.
enum Slicing<'s, 'g> {
    Simulated(&'s Arc<Sketch<'g>>, &'s Outcome),
    Sketched(Vec<Arc<Sketch<'g>>>),
}

/// Labels sketches that differ in microbatches alone, those with most first: fewer have less memory left, so that it ends
/// where they come to nothing or to nothing better.
fn label_line<'g>(line: impl Iterator<Item = Arc<Sketch<'g>>>, limit_bytes: u64, until: Until) -> Vec<Candidate<'g>> {
    let mut found: Vec<Candidate<'g>> = Vec::new();
    for sketch in line {
        match sketch.label(limit_bytes, FIRST_EXPOSURE, None, until) {
            Some(labelled) => {
                let candidate = Candidate::labelled(sketch, limit_bytes, labelled);
                let is_better = found.last().is_none_or(|more| candidate.seconds() < more.seconds());
                found.push(candidate);
                if !is_better {
                    break;
                }
            }
            // More may take too long.
            None if found.is_empty() => {}
            None => break,
        }
    }
    found
}

/// What labels cost before anything is known of what is hidden, as labels without a limit do.
fn first_seconds(labelled: &Labelled) -> f64 {
    labelled.seconds_with(FIRST_EXPOSURE)
}

/// Whether more memory could be worth it for something whose labels cost so many seconds at first.
fn may_gain(space: &Space<'_>, first_seconds: f64) -> bool {
    first_seconds > space.free_seconds() * (1.0 + LEAST_GAIN)
}

/// Where memory was short, state may lie on the host, on any mesh: what is best with all state on the device says little of
/// that.
pub(super) fn held<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>) -> Vec<Candidate<'g>> {
    if !space.may_hold() {
        return Vec::new();
    }
    let best = searched.best(request);
    let (lines, until, most_seconds) = match best {
        Some((sketch, outcome)) => {
            let seconds = first_seconds(&outcome.labelled);
            let is_much = outcome.state_bytes() as f64 >= LEAST_ON_HOST * request.limit_bytes as f64;
            if !is_much || !outcome.labelled.is_bound || !may_gain(space, seconds) {
                return Vec::new();
            }
            let mut lines = space.faster_anywhere(&sketch.frame, seconds);
            lines.iter_mut().for_each(|line| line.retain(|other| other.frame != sketch.frame));
            lines.insert(0, vec![Arc::clone(sketch)]);
            // Labels may promise as much too little as those of the best did.
            let promised = outcome.labelled.likely_seconds().max(outcome.timeline.step_seconds);
            let most_seconds = promised * (1.0 - LEAST_GAIN_ON_HOST);
            let until = Until { effort: Effort::Little, most_seconds: seconds * MOST_WORSE_RANKED };
            (lines, until, most_seconds)
        }
        None => {
            let all = space.all().map(|sketched| vec![Arc::clone(&sketched.sketch)]).collect();
            (all, Until::spent(Effort::Little), f64::INFINITY)
        }
    };
    let limit_bytes = request.own_limit_bytes();
    let labelled = in_parallel(lines, |line| {
        let held = line.iter().map(|sketch| Arc::new(sketch.held()));
        label_line(held, limit_bytes, until)
    });
    let mut candidates: Vec<Candidate<'g>> = labelled.into_iter().flatten().collect();
    candidates.retain(|candidate| candidate.seconds() < most_seconds && candidate.has_room_on_host(request));
    candidates.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
    // Meshes hardly differ in what fits, numbers of microbatches do.
    let mut candidates = first_of_kinds(candidates, kind);
    candidates.truncate(if best.is_some() { MOST_HELD } else { MOST_SIMULATED });
    searched.bound(&candidates);
    candidates
}

impl Candidate<'_> {
    /// Whether the host has memory for the state that lies there.
    fn has_room_on_host(&self, request: &Request<'_>) -> bool {
        let memory_bytes = request.runner().device.host.memory_bytes as u64;
        self.next.as_ref().is_some_and(|next| self.sketch.held_bytes(next) <= memory_bytes)
    }
}

impl Outcome {
    /// What a device has of state besides parameters.
    fn state_bytes(&self) -> u64 {
        let program = &self.local.program;
        let arguments = program.body().arguments.iter().zip(&self.classes);
        let state = arguments.filter(|(_, class)| **class == ArgumentClass::State);
        state.map(|(&value, _)| program.ty(value).bytes() as u64).sum()
    }
}

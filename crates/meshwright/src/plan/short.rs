//! What else is tried where memory is short: layers that differ, slices, state on the host, and a longer search.

use std::sync::Arc;

use super::candidate::{Candidate, MOST_GAP, exposed, refine};
use super::label::Effort;
use super::parallel::in_parallel;
use super::search::{AT_ONCE, LEAST_FASTER, MOST_SIMULATED, MOST_WORSE, Request, Searched};
use super::sketch::{Outcome, Sketch};
use super::space::{FIRST_EXPOSURE, Space};
use crate::program::ArgumentClass;
use crate::simulate::Timeline;
use crate::tactics::Freedom;

/// Slices are tried where more memory could save more than this share of the time.
const LEAST_GAIN: f64 = 0.03;
/// State lies on the host where that should save more than this share of the time.
const LEAST_GAIN_ON_HOST: f64 = 0.01;
/// State is not worth it that takes less than this share of the memory.
const LEAST_ON_HOST: f64 = 0.05;
/// What is known to be as close to the best is not searched for any longer.
const MOST_GAP_SETTLED: f64 = 1e-2;
/// With how much of the limit labels are tried too.
const SHARES_OF_LIMIT: [f64; 2] = [0.95, 0.89];
/// So often less is tried, at most.
const MOST_TIGHTENED: usize = 2;
/// Into how many runs layers alike are split where memory is short.
const RUNS: usize = 4;

/// Where memory was short, what takes most at a time may run in slices: on the mesh of the best, or where nothing fits of
/// the smallest, with as many microbatches or fewer. Slices save memory and nothing else, so that they are not tried
/// where all the memory of the world would hardly help.
pub(super) fn slice<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>) {
    if request.told.is_some_and(|told| !told.auto.may(Freedom::Split)) {
        return;
    }
    let smallest = || searched.found.iter().min_by_key(|(_, outcome)| outcome.peak_bytes);
    let best = searched.best(request);
    let seconds = best.map_or(f64::INFINITY, |(_, outcome)| outcome.timeline.step_seconds);
    let labelled_seconds = best.map_or(f64::INFINITY, |(_, outcome)| outcome.labelled.seconds);
    if !may_gain(space, labelled_seconds) {
        return;
    }
    let start = best.or_else(smallest).filter(|(_, outcome)| outcome.labelled.is_bound);
    let Some((sketch, outcome)) = start else { return };
    let limit_bytes = request.own_limit_bytes();
    let faster = if space.may_slice() { space.faster(&sketch.frame, labelled_seconds) } else { Vec::new() };
    let itself = (!sketch.frame.is_sliced).then_some(Slicing::Simulated(sketch, outcome));
    let jobs = itself.into_iter().chain(faster.iter().map(Slicing::Sketched)).collect();
    let sliced = in_parallel(jobs, |job| match job {
        Slicing::Simulated(sketch, outcome) => {
            let sketch = space.sliced(sketch);
            let room_bytes = request.limit_bytes.saturating_sub(outcome.peak_bytes);
            let limit_bytes = outcome.labelled.peak_bytes + room_bytes;
            let sliced = sketch.slice(outcome, request.runner())?;
            Ok(sliced.map(|sliced| Candidate::simulated(request, sketch, limit_bytes, sliced)))
        }
        Slicing::Sketched(sketch) => {
            let sketch = space.sliced(sketch);
            let labelled = sketch.label(limit_bytes, FIRST_EXPOSURE, None, Effort::Little);
            Ok(labelled.map(|labelled| Candidate::labelled(sketch, limit_bytes, labelled)))
        }
    });
    let (mut itself, mut fewer): (Vec<Candidate<'g>>, Vec<Candidate<'g>>) = Default::default();
    for candidate in sliced {
        match candidate {
            Ok(Some(candidate)) if candidate.next.is_none() => itself.push(candidate),
            Ok(candidate) => fewer.extend(candidate),
            Err(reason) => _ = searched.first_error.get_or_insert(reason),
        }
    }
    fewer.retain(|candidate| candidate.seconds() <= labelled_seconds.min(seconds * MOST_WORSE));
    fewer.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
    fewer.truncate(AT_ONCE - 1);
    refine(request, fewer.into_iter().chain(itself).collect(), seconds, searched);
}

/// What may run in slices: what was simulated, or what is yet to be labelled.
enum Slicing<'s, 'g> {
    Simulated(&'s Arc<Sketch<'g>>, &'s Outcome),
    Sketched(&'s Arc<Sketch<'g>>),
}

/// Searches longer for the labels of the best where these may be far from their bound: for better ones, or for the bound.
/// Both are counted by what its simulation told, which is nearest to the truth.
pub(super) fn settle<'g>(request: &Request<'_>, searched: &mut Searched<'g>) {
    for (most_gap, effort) in [(MOST_GAP, Effort::Much), (MOST_GAP_SETTLED, Effort::Most)] {
        let is_far = |(_, outcome): &(Arc<Sketch<'g>>, Outcome)| outcome.labelled.gap() > most_gap;
        let Some((sketch, outcome)) = searched.best(request).filter(|best| is_far(best)) else { return };
        let sketch = Arc::clone(sketch);
        let (labelled, seconds) = (&outcome.labelled, outcome.timeline.step_seconds);
        let (limit_bytes, exposure) = (labelled.limit_bytes, exposed(outcome));
        let labelled_seconds = labelled.seconds_with(exposure);
        let Some(again) = sketch.label(limit_bytes, exposure, Some(labelled), effort) else { return };
        if again.seconds < labelled_seconds * (1.0 - LEAST_FASTER) && !searched.knows(&sketch, &again) {
            let candidate = Candidate::labelled(Arc::clone(&sketch), limit_bytes, again.clone());
            refine(request, vec![candidate], seconds, searched);
        }
        // Where labels that cost less were simulated, and took longer, what is unknown is what is below those.
        let known_seconds = if searched.knows(&sketch, &again) { again.seconds } else { labelled_seconds };
        // What came of the labels before may still be the best.
        let is_best = |(_, outcome): &&mut (Arc<Sketch<'g>>, Outcome)| {
            outcome.timeline.step_seconds == seconds && request.fits(outcome)
        };
        if let Some((_, outcome)) = searched.found.iter_mut().find(is_best) {
            let unknown_seconds = known_seconds.min(labelled_seconds) - again.lower_bound_seconds;
            let labelled = &mut outcome.labelled;
            (labelled.seconds, labelled.exposure) = (labelled_seconds, exposure);
            labelled.lower_bound_seconds = labelled_seconds - unknown_seconds.max(0.0);
        }
    }
}

/// Where memory was short, layers of the best frame may do different things, and labels that take less memory may come to
/// more, since what the last of it saves is less than what labels know of time. As long as that is so, still less is tried.
pub(super) fn relieve<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>) {
    for round in 0..MOST_TIGHTENED {
        let best = searched.best(request).filter(|(_, outcome)| outcome.labelled.is_bound);
        let Some((sketch, outcome)) = best else { return };
        let seconds = outcome.timeline.step_seconds;
        let splits = (round == 0).then_some(Relief::Split);
        let jobs = splits.into_iter().chain(SHARES_OF_LIMIT.map(Relief::Tighten)).collect();
        let candidates = in_parallel(jobs, |relief: Relief| match relief {
            Relief::Split => split_layers(request, space, (sketch, outcome)),
            Relief::Tighten(share) => Ok(tighten((sketch, outcome), share)),
        });
        let (mut found, mut error) = (Vec::new(), None);
        for candidate in candidates {
            match candidate {
                Ok(candidate) => found.extend(candidate),
                Err(reason) => _ = error.get_or_insert(reason),
            }
        }
        let is_known = |candidate: &Candidate<'g>| {
            candidate.next.as_ref().is_some_and(|labelled| searched.knows(&candidate.sketch, labelled))
        };
        found.retain(|candidate| !is_known(candidate));
        searched.first_error = searched.first_error.take().or(error);
        refine(request, found, seconds, searched);
        let is_faster =
            |(_, outcome): &(Arc<Sketch<'_>>, Outcome)| outcome.timeline.step_seconds < seconds * (1.0 - LEAST_FASTER);
        if !searched.best(request).is_some_and(is_faster) {
            return;
        }
    }
}

/// What may help where memory is short.
#[derive(Clone, Copy, Debug)]
enum Relief {
    Split,
    /// Labels for such a share of the limit.
    Tighten(f64),
}

/// What was found before whose layers may do different things.
fn split_layers<'g>(
    request: &Request<'_>,
    space: &Space<'g>,
    (sketch, outcome): (&Arc<Sketch<'g>>, &Outcome),
) -> Result<Option<Candidate<'g>>, String> {
    let limit_bytes = outcome.limit_bytes(request);
    let sketch = space.split(&sketch.frame, RUNS)?;
    let labelled = sketch.label(limit_bytes, exposed(outcome), None, Effort::Much);
    Ok(labelled.map(|labelled| Candidate::labelled(sketch, limit_bytes, labelled)))
}

/// What was found before with a share of the memory.
fn tighten<'g>((sketch, outcome): (&Arc<Sketch<'g>>, &Outcome), share: f64) -> Option<Candidate<'g>> {
    let before = &outcome.labelled;
    let limit_bytes = (share * before.limit_bytes as f64) as u64;
    let labelled = sketch.label(limit_bytes, exposed(outcome), Some(before), Effort::Little)?;
    Some(Candidate::labelled(Arc::clone(sketch), limit_bytes, labelled).once())
}

/// Parameters of the best may be stored as they are read, where nobody told how they are. What hides behind an update is
/// known to simulations alone, so that this is tried wherever anything is waited for.
pub(super) fn store(request: &Request<'_>, searched: &mut Searched<'_>) {
    let is_waited_for = |outcome: &Outcome| {
        let Timeline { step_seconds, stages, .. } = &outcome.timeline;
        stages[0].exposed_seconds > LEAST_FASTER * step_seconds
    };
    let Some((sketch, outcome)) = searched.best(request).filter(|(_, outcome)| is_waited_for(outcome)) else { return };
    if request.told.is_some_and(|told| !told.before.is_empty()) {
        return;
    }
    let (limit_bytes, seconds) = (outcome.limit_bytes(request), outcome.timeline.step_seconds);
    let exposure = exposed(outcome);
    let most_seconds = outcome.labelled.seconds_with(exposure) * MOST_WORSE;
    let stored = Arc::new(sketch.stored());
    let labelled = stored.label(limit_bytes, exposure, None, Effort::Little);
    let labelled = labelled.filter(|labelled| labelled.seconds <= most_seconds);
    let candidate = labelled.map(|labelled| Candidate::labelled(stored, limit_bytes, labelled));
    refine(request, candidate.into_iter().collect(), seconds, searched);
}

/// Whether more memory could be worth it for something that is labelled with so many seconds.
fn may_gain(space: &Space<'_>, labelled_seconds: f64) -> bool {
    labelled_seconds > space.free_seconds() * (1.0 + LEAST_GAIN)
}

/// Where memory was short, state may lie on the host: on the mesh of the best, or where nothing fits on any. What then has
/// room on the device stays there.
pub(super) fn hold<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>) {
    if !space.may_hold() {
        return;
    }
    let best = searched.best(request);
    let (sketches, most_seconds) = match best {
        Some((sketch, outcome)) => {
            let seconds = outcome.labelled.seconds;
            let is_much = outcome.state_bytes() as f64 >= LEAST_ON_HOST * request.limit_bytes as f64;
            if !is_much || !outcome.labelled.is_bound || !may_gain(space, seconds) {
                return;
            }
            let fewer = space.faster(&sketch.frame, seconds).into_iter();
            let fewer = fewer.filter(|other| other.frame != sketch.frame);
            ([Arc::clone(sketch)].into_iter().chain(fewer).collect(), seconds * (1.0 - LEAST_GAIN_ON_HOST))
        }
        None => (space.all().map(|sketched| Arc::clone(&sketched.sketch)).collect(), f64::INFINITY),
    };
    let step_seconds = best.map_or(f64::INFINITY, |(_, outcome)| outcome.timeline.step_seconds);
    let limit_bytes = request.own_limit_bytes();
    let labelled = in_parallel(sketches, |sketch| {
        let sketch = Arc::new(sketch.held());
        let labelled = sketch.label(limit_bytes, FIRST_EXPOSURE, None, Effort::Little)?;
        Some(Candidate::labelled(sketch, limit_bytes, labelled))
    });
    let mut candidates: Vec<Candidate<'g>> = labelled.into_iter().flatten().collect();
    candidates.retain(|candidate| candidate.seconds() < most_seconds && candidate.has_room_on_host(request));
    candidates.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
    candidates.truncate(if best.is_some() { AT_ONCE } else { MOST_SIMULATED });
    searched.bound(&candidates);
    refine(request, candidates, step_seconds, searched);
    let Some((sketch, outcome)) = searched.best(request).filter(|(sketch, _)| sketch.frame.is_held) else { return };
    let room_bytes = (request.limit_bytes - outcome.peak_bytes) as f64 / (1.0 + request.engine.fragmentation);
    match sketch.fill(outcome, room_bytes as u64, request.runner()) {
        Ok(filled) => {
            let sketch = Arc::clone(sketch);
            searched.found.push((sketch, filled));
        }
        Err(reason) => _ = searched.first_error.get_or_insert(reason),
    }
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

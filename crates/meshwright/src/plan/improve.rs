//! What else is made of the best plan that was found: layers that differ, less memory, a longer search, stored weights,
//! other meshes.

use std::sync::Arc;

use super::candidate::{Candidate, MOST_GAP, exposed, refine};
use super::exposure::Exposure;
use super::label::{Effort, Labelled, Until};
use super::parallel::in_parallel;
use super::search::{Found, LEAST_FASTER, Request, Searched};
use super::sketch::{Outcome, Sketch};
use super::space::Space;
use crate::simulate::Timeline;

/// So often something is made of the best, at most, and again only where it came to be faster by such a share.
const MOST_IMPROVED: usize = 2;
const MUCH_FASTER: f64 = 1e-2;
/// With how much of the limit labels are tried too.
const SHARES_OF_LIMIT: [f64; 2] = [0.95, 0.89];
/// Where memory is short, labels may promise to be worse than the best by this factor: what they are mistaken about is the
/// memory.
const MOST_WORSE_BOUND: f64 = 1.03;
/// So may those that are made for what labels do not know of, by less.
const MOST_WORSE_UNKNOWN: f64 = 1.01;
/// Into how many runs layers alike are split where memory is short.
const RUNS: usize = 4;
/// Labels are mistaken where a simulation takes longer than they say by this factor.
const MISTAKEN: f64 = 1.05;
/// What is known to be as close to the best is not searched for any longer.
const MOST_GAP_SETTLED: f64 = 1e-2;

/// Tries what may be made of the best, and again of what came of that where it was much.
pub(super) fn improve<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>) {
    for round in 0..MOST_IMPROVED {
        let Some(seconds) = searched.best_seconds(request) else { return };
        improve_once(request, space, searched, round);
        let is_much_faster = |best: f64| best < seconds * (1.0 - MUCH_FASTER);
        if !searched.best_seconds(request).is_some_and(is_much_faster) {
            return;
        }
    }
}

/// Tries all that may be made of the best at once, so that none of it waits for the rest.
fn improve_once<'g>(request: &Request<'_>, space: &Space<'g>, searched: &mut Searched<'g>, round: usize) {
    let Some(best) = searched.best(request) else { return };
    let seconds = best.1.timeline.step_seconds;
    let ways = ways(request, space, searched, best, round);
    let tried = in_parallel(ways, |way| match way {
        Way::Split => split_layers(request, space, best).map(|candidate| (candidate, None)),
        Way::Tighten(share) => Ok((tighten(best, share), None)),
        Way::Store => Ok((store(request, best), None)),
        Way::Between(exposure) => Ok((between(request, best, exposure), None)),
        Way::Elsewhere(sketch) => Ok((elsewhere(request, best, sketch), None)),
        Way::Fill => fill(request, best).map(|candidate| (Some(candidate), None)),
        Way::Longer => {
            let longer = Longer::new(best, Effort::Much);
            Ok((longer.as_ref().and_then(Longer::candidate), longer))
        }
    });
    let (mut candidates, mut longer) = (Vec::new(), None);
    for tried in tried {
        match tried {
            Ok((candidate, searched_longer)) => {
                candidates.extend(candidate);
                longer = longer.or(searched_longer);
            }
            Err(reason) => _ = searched.first_error.get_or_insert(reason),
        }
    }
    candidates.retain(|candidate| !candidate.is_known(searched));
    refine(request, candidates, seconds, searched);
    longer.into_iter().for_each(|longer| longer.note(request, searched));
}

/// What may be made of the best.
enum Way<'s, 'g> {
    /// Layers alike do different things.
    Split,
    /// Labels have such a share of the limit: what the last of it saves is less than what labels know of time.
    Tighten(f64),
    /// Parameters are stored as they are read.
    Store,
    /// Labels are searched for longer.
    Longer,
    /// Labels are made with other costs.
    Between(Exposure),
    /// The same on another mesh.
    Elsewhere(&'s Arc<Sketch<'g>>),
    /// What the device has room for does not lie on the host.
    Fill,
}

/// What is worth being tried: the first two where memory is short, a longer search where labels may be far from their
/// bound.
fn ways<'s, 'g>(
    request: &Request<'_>,
    space: &'s Space<'g>,
    searched: &Searched<'g>,
    best: &Found<'g>,
    round: usize,
) -> Vec<Way<'s, 'g>> {
    let (sketch, outcome) = best;
    let labelled = &outcome.labelled;
    let mut ways = Vec::new();
    if labelled.is_bound {
        ways.extend((round == 0).then_some(Way::Split));
        ways.extend(SHARES_OF_LIMIT.map(Way::Tighten));
    }
    // What hides behind an update is known to simulations alone, so that this is tried wherever anything is waited for
    // and nobody told how parameters are stored.
    let Timeline { step_seconds, stages, .. } = &outcome.timeline;
    let is_waited_for = stages[0].exposed_seconds > LEAST_FASTER * step_seconds;
    let is_told = request.told.is_some_and(|told| !told.before.is_empty());
    ways.extend((is_waited_for && !is_told && !sketch.frame.is_stored).then_some(Way::Store));
    ways.extend((labelled.gap() > MOST_GAP).then_some(Way::Longer));
    ways.extend(middle(searched, best).map(Way::Between));
    ways.extend(sketch.frame.is_held.then_some(Way::Fill));
    // What labels are wrong about is mostly the same on other meshes.
    let is_new = |other: &&Arc<Sketch<'g>>| searched.found.iter().all(|(known, _)| known.frame != other.frame);
    ways.extend(space.elsewhere(&sketch.frame).filter(is_new).map(Way::Elsewhere));
    ways
}

/// What a second costs where what the simulation of the best told of that led to labels that are mistaken: they move what
/// was hidden in it until nothing hides that any longer. The truth is between what both simulations told.
fn middle(searched: &Searched<'_>, (sketch, outcome): &Found<'_>) -> Option<Exposure> {
    let seconds = |outcome: &Outcome| outcome.timeline.step_seconds;
    let is_mistaken = |other: &Outcome| {
        seconds(other) > seconds(outcome).max(other.labelled.seconds) * MISTAKEN
            && other.labelled.exposure != outcome.labelled.exposure
    };
    let others = searched.found.iter().filter(|(other, _)| other.frame == sketch.frame).map(|(_, other)| other);
    let nearest =
        others.filter(|other| is_mistaken(other)).min_by(|left, right| seconds(left).total_cmp(&seconds(right)))?;
    Some(exposed(outcome).between(exposed(nearest)))
}

fn between<'g>(request: &Request<'_>, (sketch, outcome): &Found<'g>, exposure: Exposure) -> Option<Candidate<'g>> {
    let limit_bytes = outcome.limit_bytes(request);
    let labelled = sketch.label(limit_bytes, exposure, Some(&outcome.labelled), Until::spent(Effort::Much))?;
    let is_promising = labelled.seconds_with(exposed(outcome)) <= outcome.most_seconds(MOST_WORSE_UNKNOWN);
    is_promising.then(|| Candidate::labelled(Arc::clone(sketch), limit_bytes, labelled))
}

/// Labels of another mesh, made with what the simulation of the best told, where they promise to be better.
fn elsewhere<'g>(request: &Request<'_>, (_, outcome): &Found<'g>, sketch: &Arc<Sketch<'g>>) -> Option<Candidate<'g>> {
    let until = Until { effort: Effort::Little, most_seconds: outcome.most_seconds(1.0 - LEAST_FASTER) };
    promising(sketch, outcome, outcome.limit_bytes(request), None, until).map(Candidate::once)
}

fn fill<'g>(request: &Request<'_>, (sketch, outcome): &Found<'g>) -> Result<Candidate<'g>, String> {
    let room_bytes = (request.limit_bytes - outcome.peak_bytes) as f64 / (1.0 + request.engine.fragmentation);
    let filled = sketch.fill(outcome, room_bytes as u64, request.runner())?;
    Ok(Candidate::simulated(request, Arc::clone(sketch), outcome.labelled.limit_bytes, filled).once())
}

fn split_layers<'g>(
    request: &Request<'_>,
    space: &Space<'g>,
    (sketch, outcome): &Found<'g>,
) -> Result<Option<Candidate<'g>>, String> {
    let sketch = space.split(&sketch.frame, RUNS)?;
    let until = Until { effort: Effort::Much, most_seconds: outcome.most_seconds(MOST_WORSE_BOUND) };
    Ok(promising(&sketch, outcome, outcome.limit_bytes(request), None, until).map(Candidate::later))
}

fn tighten<'g>((sketch, outcome): &Found<'g>, share: f64) -> Option<Candidate<'g>> {
    let before = &outcome.labelled;
    let limit_bytes = (share * before.limit_bytes as f64) as u64;
    let until = Until { effort: Effort::Little, most_seconds: outcome.most_seconds(MOST_WORSE_BOUND) };
    promising(sketch, outcome, limit_bytes, Some(before), until).map(Candidate::once)
}

fn store<'g>(request: &Request<'_>, (sketch, outcome): &Found<'g>) -> Option<Candidate<'g>> {
    let until = Until { effort: Effort::Little, most_seconds: outcome.most_seconds(MOST_WORSE_UNKNOWN) };
    promising(&Arc::new(sketch.stored()), outcome, outcome.limit_bytes(request), None, until)
}

/// Labels made with what a simulation told, perhaps from others on, where they promise as much as they must.
fn promising<'g>(
    sketch: &Arc<Sketch<'g>>,
    outcome: &Outcome,
    limit_bytes: u64,
    before: Option<&Labelled>,
    until: Until,
) -> Option<Candidate<'g>> {
    let labelled = sketch.label(limit_bytes, exposed(outcome), before, until)?;
    let is_promising = labelled.seconds <= until.most_seconds;
    is_promising.then(|| Candidate::labelled(Arc::clone(sketch), limit_bytes, labelled))
}

/// Searches longest for the labels of the best where these may still be far from their bound.
pub(super) fn settle(request: &Request<'_>, searched: &mut Searched<'_>) {
    let is_far = |best: &&Found<'_>| best.1.labelled.gap() > MOST_GAP_SETTLED;
    let Some(best) = searched.best(request).filter(is_far) else { return };
    let Some(longer) = Longer::new(best, Effort::Most) else { return };
    let candidate = longer.candidate().filter(|candidate| !candidate.is_known(searched));
    refine(request, candidate.into_iter().collect(), longer.seconds, searched);
    longer.note(request, searched);
}

/// A longer search for labels of what was simulated: for better ones, or for their bound. Both are counted by what the
/// simulation told, which is nearest to the truth.
struct Longer<'g> {
    sketch: Arc<Sketch<'g>>,
    /// What was simulated, and what its labels cost.
    seconds: f64,
    labelled_seconds: f64,
    exposure: Exposure,
    again: Labelled,
}

impl<'g> Longer<'g> {
    fn new((sketch, outcome): &Found<'g>, effort: Effort) -> Option<Longer<'g>> {
        let (before, exposure) = (&outcome.labelled, exposed(outcome));
        let label = |from: Option<&Labelled>| sketch.label(before.limit_bytes, exposure, from, Until::spent(effort));
        let mut again = label(Some(before))?;
        if again.gap() > MOST_GAP_SETTLED {
            // Prices of other labels may lead to a bound that says nothing. Without a limit nothing takes longer.
            let fresh = label(None);
            let bounds = [fresh.as_ref(), sketch.label_free(exposure).as_ref()]
                .map(|known| known.map(|known| known.lower_bound_seconds));
            let bound = bounds.into_iter().flatten().fold(again.lower_bound_seconds, f64::max);
            again = fresh.filter(|fresh| fresh.seconds < again.seconds).unwrap_or(again);
            again.lower_bound_seconds = bound.min(again.seconds);
        }
        let (seconds, labelled_seconds) = (outcome.timeline.step_seconds, before.seconds_with(exposure));
        Some(Longer { sketch: Arc::clone(sketch), seconds, labelled_seconds, exposure, again })
    }

    /// What was found, where that costs less.
    fn candidate(&self) -> Option<Candidate<'g>> {
        let Longer { sketch, again, labelled_seconds, .. } = self;
        let is_better = again.seconds < labelled_seconds * (1.0 - LEAST_FASTER);
        is_better.then(|| Candidate::labelled(Arc::clone(sketch), again.limit_bytes, again.clone()))
    }

    /// Notes the bound of what was simulated, which may still be the best.
    fn note(self, request: &Request<'_>, searched: &mut Searched<'g>) {
        let Longer { sketch, seconds, labelled_seconds, exposure, again } = self;
        // Where labels that cost less were simulated, and took longer, what is unknown is what is below those.
        let known_seconds = if searched.knows(&sketch, &again) { again.seconds } else { labelled_seconds };
        let is_it = |found: &&mut Found<'g>| found.1.timeline.step_seconds == seconds && request.fits(&found.1);
        if let Some((_, outcome)) = searched.found.iter_mut().find(is_it) {
            let unknown_seconds = known_seconds.min(labelled_seconds) - again.lower_bound_seconds;
            let labelled = &mut outcome.labelled;
            (labelled.seconds, labelled.exposure) = (labelled_seconds, exposure);
            labelled.lower_bound_seconds = labelled_seconds - unknown_seconds.max(0.0);
        }
    }
}

impl<'g> Candidate<'g> {
    /// Whether what is to be simulated next was before.
    fn is_known(&self, searched: &Searched<'g>) -> bool {
        self.next.as_ref().is_some_and(|labelled| searched.knows(&self.sketch, labelled))
    }
}

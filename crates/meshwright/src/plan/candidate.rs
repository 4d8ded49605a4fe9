//! Frames that are labelled and simulated again and again, each time with what the last simulation told.

use std::sync::Arc;

use super::exposure::{Exposure, Load, Rates};
use super::label::{Effort, Labelled, Until};
use super::parallel::in_parallel;
use super::search::{Request, Searched};
use super::sketch::{Outcome, Sketch};

/// What is known to be as close to the best is not labelled with more effort.
pub(super) const MOST_GAP: f64 = 5e-3;
/// So often is a frame labelled and simulated with what was told before.
const MOST_ROUNDS: usize = 3;
/// The same where the last did not fit: by how much is known then.
const MOST_ROUNDS_MISSED: usize = 4;
/// Once something fits, so often are others that may be as good.
const MOST_ROUNDS_LATER: usize = 2;
/// Where memory is short or nothing fits yet, labels may promise, by what they differ in from the last, to be worse than the
/// best by this factor.
const MOST_WORSE_PROMISED: f64 = 1.015;
/// Else they have to promise to be better by this share.
const LEAST_FASTER_AGAIN: f64 = 1e-5;

/// A frame that is labelled and simulated again and again.
pub(super) struct Candidate<'g> {
    pub(super) sketch: Arc<Sketch<'g>>,
    limit_bytes: u64,
    /// What is to be simulated next.
    pub(super) next: Option<Labelled>,
    /// Whether nothing was made yet of what the last simulation told.
    is_simulated: bool,
    outcomes: Vec<Outcome>,
    /// Whether what was simulated last took too much.
    is_missed: bool,
    /// Why the last labelling could not be lowered.
    error: Option<String>,
    /// How often it is simulated, where that fits.
    most_rounds: usize,
}

impl<'g> Candidate<'g> {
    pub(super) fn labelled(sketch: Arc<Sketch<'g>>, limit_bytes: u64, labelled: Labelled) -> Candidate<'g> {
        Candidate { next: Some(labelled), ..Candidate::new(sketch, limit_bytes) }
    }

    /// One that is simulated once, whatever comes of it.
    pub(super) fn once(self) -> Candidate<'g> {
        Candidate { most_rounds: 1, ..self }
    }

    /// One that is tried once something fits.
    pub(super) fn later(self) -> Candidate<'g> {
        Candidate { most_rounds: self.most_rounds.min(MOST_ROUNDS_LATER), ..self }
    }

    /// One whose first labelling was simulated before.
    pub(super) fn simulated(
        request: &Request<'_>,
        sketch: Arc<Sketch<'g>>,
        limit_bytes: u64,
        outcome: Outcome,
    ) -> Candidate<'g> {
        Candidate::new(sketch, limit_bytes).learn(request, outcome)
    }

    fn new(sketch: Arc<Sketch<'g>>, limit_bytes: u64) -> Candidate<'g> {
        let (outcomes, most_rounds) = (Vec::new(), MOST_ROUNDS);
        Candidate {
            sketch,
            limit_bytes,
            next: None,
            is_simulated: false,
            outcomes,
            is_missed: false,
            error: None,
            most_rounds,
        }
    }

    /// What the labelling to be simulated next should take.
    pub(super) fn seconds(&self) -> f64 {
        self.next.as_ref().map_or(f64::INFINITY, Labelled::likely_seconds)
    }

    /// What more effort could make of the labelling to be simulated next; nothing where that is not worth it.
    pub(super) fn bound_seconds(&self) -> f64 {
        match &self.next {
            Some(next) if next.is_bound && next.gap() > MOST_GAP => next.lower_bound_seconds,
            _ => f64::INFINITY,
        }
    }

    /// The same, labelled with more effort, as long as it may take no longer than so many seconds.
    pub(super) fn deepened(mut self, most_seconds: f64) -> Candidate<'g> {
        if let Some(next) = &self.next {
            let until = Until { effort: Effort::Much, most_seconds };
            let deeper = self.sketch.label_bound(self.limit_bytes, next.exposure, next, until);
            self.next = deeper.or(self.next);
        }
        self
    }

    /// Simulates the next labelling, which tells how much memory it needs in truth.
    fn simulate(mut self, request: &Request<'_>) -> Candidate<'g> {
        let Some(labelled) = self.next.take() else { return self };
        match self.sketch.realize(labelled, request.runner()) {
            Ok(outcome) => self.learn(request, outcome),
            Err(reason) => Candidate { error: Some(reason), ..self },
        }
    }

    /// Takes in what a simulation told of memory.
    fn learn(mut self, request: &Request<'_>, outcome: Outcome) -> Candidate<'g> {
        let labelled_peak = outcome.labelled.peak_bytes;
        let (peak, limit) = (outcome.peak_bytes, request.limit_bytes);
        self.is_missed = peak > limit;
        if self.is_missed {
            // As much less as there is too much, but no less than what is known to fit.
            let excess = (peak - limit).max(self.limit_bytes / 64);
            let less = labelled_peak.min(self.limit_bytes).saturating_sub(excess);
            self.limit_bytes = self.between(request, &outcome).map_or(less, |between| between.max(less));
        } else if outcome.labelled.is_bound {
            // Where less is needed than the labelling believes, it may have more.
            self.limit_bytes = self.limit_bytes.max(labelled_peak.saturating_add(limit - peak));
        }
        self.outcomes.push(outcome);
        self.is_simulated = true;
        self
    }

    /// The limit for labels between those that took too much and those before that fit, as far from both as the limit is
    /// from what they came to.
    fn between(&self, request: &Request<'_>, missed: &Outcome) -> Option<u64> {
        let labelled = |outcome: &Outcome| outcome.labelled.peak_bytes;
        let fitting =
            self.outcomes.iter().filter(|outcome| request.fits(outcome) && labelled(outcome) < labelled(missed));
        let fit = fitting.max_by_key(|outcome| labelled(outcome))?;
        let share = (request.limit_bytes - fit.peak_bytes) as f64 / (missed.peak_bytes - fit.peak_bytes) as f64;
        Some(labelled(fit) + (share * (labelled(missed) - labelled(fit)) as f64) as u64)
    }

    /// Makes another labelling with what the last simulation told of memory and of what is hidden, if that could be
    /// better than what was found.
    fn label_again(mut self, request: &Request<'_>, best: f64) -> Candidate<'g> {
        let is_missed = self.is_missed && self.most_rounds > 1;
        let most_rounds = if is_missed { MOST_ROUNDS_MISSED } else { self.most_rounds };
        let is_new = std::mem::take(&mut self.is_simulated) && self.outcomes.len() < most_rounds;
        let Some(outcome) = self.outcomes.last().filter(|_| is_new) else { return self };
        let is_short = outcome.labelled.is_bound || self.outcomes.iter().all(|outcome| !request.fits(outcome));
        let most_seconds = best * if is_short { MOST_WORSE_PROMISED } else { 1.0 - LEAST_FASTER_AGAIN };
        // Where what was told leads to nothing new, the worst case may. Where memory is short, that decides more, and
        // labels take longer.
        let worst = Some(Exposure::all(1.0)).filter(|_| !outcome.labelled.is_bound);
        self.next = [exposed(outcome)].into_iter().chain(worst).find_map(|exposure| {
            let next = self.promising(outcome, exposure, most_seconds)?;
            let is_known = self.outcomes.iter().any(|outcome| outcome.labelled.labels == next.labels);
            (!is_known).then_some(next)
        });
        self
    }

    /// Labels as good as can be found with what a simulation told, if they promise to take no longer than so many seconds.
    fn promising(&self, outcome: &Outcome, exposure: Exposure, most_seconds: f64) -> Option<Labelled> {
        let before = &outcome.labelled;
        // What labels may cost: by as much less as it should be faster than what was simulated, had that been labelled with
        // what is known now.
        let most_seconds = most_seconds - outcome.timeline.step_seconds + before.seconds_with(exposure);
        let until = |effort: Effort| Until { effort, most_seconds };
        let next = self.sketch.label(self.limit_bytes, exposure, Some(before), until(Effort::Little))?;
        let next = match next.gap() > MOST_GAP && next.lower_bound_seconds <= most_seconds {
            true => self.sketch.label(self.limit_bytes, exposure, Some(&next), until(Effort::Much)).unwrap_or(next),
            false => next,
        };
        (next.seconds <= most_seconds).then_some(next)
    }
}

/// Simulates candidates as often as something could come of it that is faster than what was found, and than so many
/// seconds.
pub(super) fn refine<'g>(
    request: &Request<'_>,
    mut candidates: Vec<Candidate<'g>>,
    most_seconds: f64,
    searched: &mut Searched<'g>,
) {
    let mut best = most_seconds;
    while candidates.iter().any(|candidate| candidate.next.is_some() || candidate.is_simulated) {
        candidates = in_parallel(candidates, |candidate| candidate.simulate(request));
        let outcomes = candidates.iter().flat_map(|candidate| &candidate.outcomes);
        let fitting = outcomes.filter(|outcome| request.fits(outcome));
        best = fitting.map(|outcome| outcome.timeline.step_seconds).fold(best, f64::min);
        candidates = in_parallel(candidates, |candidate| candidate.label_again(request, best));
    }
    for candidate in candidates {
        let sketch = &candidate.sketch;
        searched.found.extend(candidate.outcomes.into_iter().map(|outcome| (Arc::clone(sketch), outcome)));
        searched.first_error = searched.first_error.take().or(candidate.error);
    }
}

impl Outcome {
    /// What labels that are made with what the simulation told may cost, to promise no more than it took times a factor.
    pub(super) fn most_seconds(&self, factor: f64) -> f64 {
        self.labelled.seconds_with(exposed(self)) + self.timeline.step_seconds * (factor - 1.0)
    }
}

/// What a simulation tells of what another second of computing or moving costs.
pub(super) fn exposed(outcome: &Outcome) -> Exposure {
    let Labelled { loads, exposure, .. } = &outcome.labelled;
    let stage = &outcome.timeline.stages[0];
    let rates = |load: &Load, computing: f64, exposed: f64, before: Rates| {
        Rates::measured(computing, load.moving, computing + exposed - load.waiting, before)
    };
    let (computing, exposed) = (stage.forward_compute_seconds, stage.forward_exposed_seconds);
    let (later, later_exposed) = (stage.compute_seconds - computing, stage.exposed_seconds - exposed);
    Exposure {
        forward: rates(&loads.forward, computing, exposed, exposure.forward),
        backward: rates(&loads.backward, later, later_exposed, exposure.backward),
    }
}

//! The search for the fastest plan that fits.

use std::sync::Arc;

use super::binding::Binding;
use super::candidate::{Candidate, refine};
use super::check::check;
use super::considered::{Considered, by_time, distinct, pareto};
use super::costs::Costs;
use super::decision::{Decision, decisions};
use super::improve::{improve, settle};
use super::label::Labelled;
use super::least::{UNLIMITED, least};
use super::rank::rank;
use super::recipe::Recipe;
use super::short::{held, sliced};
use super::sketch::{Ground, Outcome, Sketch};
use super::space::Space;
use super::told::Told;
use super::work::Worker;
use crate::cluster::Cluster;
use crate::lower::{LocalProgram, Measures, Movement, measure};
use crate::pipeline::Pipeline;
use crate::program::{ArgumentClass, Program};
use crate::shard::{Layout, Mesh};
use crate::simulate::{Engine, Prepared, Runner, Timeline, movement_seconds};

/// What to plan for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub program: &'r Program,
    pub cluster: &'r Cluster,
    pub engine: &'r Engine,
    /// No device may ever have more in memory.
    pub limit_bytes: u64,
    /// How many microbatches; searched where it is not given.
    pub microbatches: Option<usize>,
    /// What is decided before, and what is left to planning.
    pub told: Option<Told<'r>>,
    /// The axes of devices; searched where they are not given.
    pub mesh: Option<&'r Mesh>,
}

/// A plan: what was decided, and what comes of it.
#[derive(Debug)]
pub struct Plan {
    /// With the axis of microbatches, where there is one.
    pub mesh: Mesh,
    pub microbatches: usize,
    /// Everything that was decided, from which the local program follows.
    pub recipe: Recipe,
    pub runs: Runs,
    /// What the arguments are for.
    pub classes: Vec<ArgumentClass>,
    pub timeline: Timeline,
    pub peak_bytes: u64,
    /// What each class of ops does.
    pub decisions: Vec<Decision>,
    /// What products and attention take whatever is decided, each cut in the best way: no plan takes less.
    pub lower_bound_seconds: f64,
    /// How far the labelling is from its bound, as a share.
    pub search_gap: f64,
    /// What fits, the fastest first, each once.
    pub alternatives: Vec<Considered>,
    /// Of what fits, what no other beats in both time and memory, the fastest first.
    pub pareto: Vec<Considered>,
}

impl Plan {
    /// What lies on the host for each device.
    pub fn held_bytes(&self) -> u64 {
        let Some(local) = self.runs.one() else { return 0 };
        let program = &local.program;
        let bytes = |&argument: &usize| program.ty(program.body().arguments[argument]).bytes() as u64;
        self.recipe.held.iter().map(bytes).sum()
    }
}

/// What devices run.
#[derive(Clone, Debug)]
pub enum Runs {
    /// All the same.
    One(Box<LocalProgram>),
    /// Those of each stage the same. Of every chunk, the modules of its forward pass.
    Stages { pipeline: Box<Pipeline>, modules: Vec<String> },
}

impl Runs {
    /// What can be simulated.
    pub fn prepared(&self, classes: &[ArgumentClass], engine: &Engine) -> Prepared {
        match self {
            Runs::One(local) => Prepared::whole(local, classes, engine),
            Runs::Stages { pipeline, .. } => Prepared::new((**pipeline).clone(), classes, engine),
        }
    }

    /// What it costs, at a first estimate.
    pub fn measures(&self) -> Measures {
        match self {
            Runs::One(local) => measure(&local.program),
            Runs::Stages { pipeline, .. } => pipeline.measures(),
        }
    }

    /// The program that all devices run, where it is one.
    pub fn one(&self) -> Option<&LocalProgram> {
        match self {
            Runs::One(local) => Some(local),
            Runs::Stages { .. } => None,
        }
    }

    /// Of every chunk, the modules of its forward pass; none where there are no stages.
    pub fn modules(&self) -> &[String] {
        match self {
            Runs::One(_) => &[],
            Runs::Stages { modules, .. } => modules,
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The program cannot be planned.
    Unplannable(String),
    /// The best that was found does not fit.
    TooLarge(Box<TooLarge>),
}

/// What came closest to fitting.
#[derive(Clone, Debug, PartialEq)]
pub struct TooLarge {
    /// The least that any plan was found to take, and how much more that is than there may be.
    pub least_bytes: u64,
    pub missing_bytes: u64,
    /// The plan that takes it.
    pub closest: Considered,
    /// What it takes that for.
    pub binding: Binding,
}

/// Seconds are told apart that differ by as much.
pub(super) const NANOSECOND: f64 = 1e-9;
/// So many frames are lowered and simulated, unless none of them fits.
pub(super) const MOST_SIMULATED: usize = 4;
/// So many at once: what comes of them tells which others are worth it.
pub(super) const AT_ONCE: usize = 4;
/// Frames whose labelling is worse than the best that was simulated by more than this factor are not simulated.
pub(super) const MOST_WORSE: f64 = 1.03;
/// What should be faster than what was simulated by less than this share is not worth another simulation.
pub(super) const LEAST_FASTER: f64 = 1e-3;

/// The fastest plan found that fits.
pub fn plan(request: &Request<'_>) -> Result<Plan, Refusal> {
    let Request { program, cluster, engine, limit_bytes, .. } = *request;
    let plan = request.in_space(|space| choose(request, search(request, space, Otherwise::FindLeast)))??;
    if cfg!(debug_assertions) {
        let checked = check(program, &plan.recipe, cluster, engine, limit_bytes).map(|checked| checked.step_seconds);
        debug_assert_eq!(checked, Ok(plan.timeline.step_seconds), "a plan is not what the search found");
    }
    Ok(plan)
}

/// What is done where nothing fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    GiveUp,
    /// The plan is sought that comes closest.
    FindLeast,
}

/// What was simulated of a sketch.
pub(super) type Found<'g> = (Arc<Sketch<'g>>, Outcome);

/// What a search found, whether it fits or not.
pub(super) struct Searched<'g> {
    pub(super) found: Vec<Found<'g>>,
    lower_bound_seconds: f64,
    /// The first reason for which something could not be lowered.
    pub(super) first_error: Option<String>,
}

impl Default for Searched<'_> {
    fn default() -> Self {
        Searched { found: Vec::new(), lower_bound_seconds: f64::INFINITY, first_error: None }
    }
}

impl<'r> Request<'r> {
    /// Does something with all frames of the request.
    pub(super) fn in_space<R>(&self, act: impl FnOnce(&Space<'_>) -> R) -> Result<R, Refusal> {
        let (runner, engine) = (self.runner(), self.engine);
        let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
        let worker = Some(Worker { device: runner.device, engine });
        // A byte is far less than the clock tells, so that many are asked for.
        let host_seconds_per_byte = runner.host_copy_seconds(1 << 30) / f64::from(1 << 30);
        let costs =
            Costs { worker, price: &price, host_seconds_per_byte, unit: NANOSECOND, memory_model: engine.memory_model };
        let base = Layout::new(self.program, Mesh::default());
        let ground = Ground::new(base, costs, self.told).map_err(Refusal::Unplannable)?;
        let space = Space::new(self, &ground)?;
        Ok(act(&space))
    }

    pub(super) fn runner(&self) -> Runner<'r> {
        Runner { cluster: self.cluster, device: self.cluster.slowest_device(), engine: self.engine }
    }

    pub(super) fn fits(&self, outcome: &Outcome) -> bool {
        outcome.peak_bytes <= self.limit_bytes
    }

    /// The limit without what the engine takes besides the program.
    pub(super) fn own_limit_bytes(&self) -> u64 {
        let limit = self.limit_bytes.saturating_sub(self.engine.reserved_bytes as u64) as f64;
        (limit / (1.0 + self.engine.fragmentation)) as u64
    }
}

/// Everything worth simulating under a limit, simulated.
pub(super) fn search<'g>(request: &Request<'_>, space: &Space<'g>, otherwise: Otherwise) -> Searched<'g> {
    let ranked = rank(request, space);
    let mut searched = Searched { first_error: space.first_error(), ..Searched::default() };
    searched.bound(&ranked);
    let mut rest = simulate_ranked(request, ranked, &mut searched);
    if searched.best(request).is_none() {
        let held = held(request, space, &mut searched);
        refine(request, held, f64::INFINITY, &mut searched);
    }
    if otherwise == Otherwise::FindLeast && searched.best(request).is_none() {
        // The labelling may be wrong about what fits. What was found before does not, and is forgotten, so that the
        // least does not depend on the limit.
        let mut smallest = smallest(request, space);
        // Nor may the least be more than what is found where there is no limit.
        let unlimited = Request { limit_bytes: UNLIMITED, ..*request };
        smallest.found.extend(search(&unlimited, space, Otherwise::GiveUp).found);
        if !smallest.found.is_empty() {
            let first_error = searched.first_error.take();
            searched = Searched { first_error, ..smallest };
        }
    }
    // What helps where memory is short is tried beside the rest, so that neither waits for the other.
    rest.extend(sliced(request, space, &mut searched));
    if searched.best(request).is_some_and(|(sketch, _)| !sketch.frame.is_held) {
        rest.extend(held(request, space, &mut searched));
    }
    let best = searched.best_seconds(request).unwrap_or(f64::INFINITY);
    let rest = if best.is_finite() { rest.into_iter().map(Candidate::later).collect() } else { rest };
    refine(request, rest, best, &mut searched);
    improve(request, space, &mut searched);
    settle(request, &mut searched);
    searched
}

/// The plans that take least, whatever the limit.
pub(super) fn smallest<'g>(request: &Request<'_>, space: &Space<'g>) -> Searched<'g> {
    let mut searched = Searched::default();
    let least = least(space);
    searched.bound(&least);
    // Nothing fits into nothing, so that no candidate is preferred for its speed.
    let request = Request { limit_bytes: 0, ..*request };
    refine(&request, least, f64::INFINITY, &mut searched);
    let sliced = sliced(&request, space, &mut searched);
    refine(&request, sliced, f64::INFINITY, &mut searched);
    searched
}

impl<'g> Searched<'g> {
    /// Notes that no plan takes less than products of candidates do.
    pub(super) fn bound(&mut self, candidates: &[Candidate<'_>]) {
        let bounds = candidates.iter().map(|candidate| candidate.sketch.least_seconds());
        self.lower_bound_seconds = bounds.fold(self.lower_bound_seconds, f64::min);
    }

    /// Whether labels of a sketch were simulated.
    pub(super) fn knows(&self, sketch: &Sketch<'_>, labelled: &Labelled) -> bool {
        let is_same =
            |(other, outcome): &Found<'g>| other.frame == sketch.frame && outcome.labelled.labels == labelled.labels;
        self.found.iter().any(is_same)
    }

    /// How long the fastest takes of what fits.
    pub(super) fn best_seconds(&self, request: &Request<'_>) -> Option<f64> {
        self.best(request).map(|(_, outcome)| outcome.timeline.step_seconds)
    }

    /// The fastest of what fits.
    pub(super) fn best(&self, request: &Request<'_>) -> Option<&Found<'g>> {
        let fitting = self.found.iter().filter(|(_, outcome)| request.fits(outcome));
        fitting.min_by(|left, right| left.1.timeline.step_seconds.total_cmp(&right.1.timeline.step_seconds))
    }
}

/// Simulates frames, those first that should be fastest, until something fits. Gives what else could be the best.
fn simulate_ranked<'g>(
    request: &Request<'_>,
    mut ranked: Vec<Candidate<'g>>,
    searched: &mut Searched<'g>,
) -> Vec<Candidate<'g>> {
    let mut count = 0;
    while !ranked.is_empty() && searched.best(request).is_none() {
        let most_seconds = ranked.first().map_or(0.0, |first| first.seconds() * MOST_WORSE);
        let alike = ranked.iter().take(AT_ONCE).take_while(|ranked| ranked.seconds() <= most_seconds).count();
        let later = ranked.split_off(alike.max(1).min(ranked.len()));
        let next = std::mem::replace(&mut ranked, later);
        count += next.len();
        refine(request, next, f64::INFINITY, searched);
    }
    if let Some((_, outcome)) = searched.best(request) {
        // Labels of others may promise as much too little as its own did, by the measure that frames are ranked by.
        let promised = outcome.labelled.likely_seconds().max(outcome.timeline.step_seconds);
        ranked.retain(|ranked| ranked.seconds() <= promised * MOST_WORSE);
        ranked.truncate(MOST_SIMULATED.saturating_sub(count));
    }
    ranked
}

/// The fastest of what fits, or else why there is none.
pub(super) fn choose(request: &Request<'_>, searched: Searched<'_>) -> Result<Plan, Refusal> {
    if searched.best(request).is_none() {
        return Err(refusal(request, searched));
    }
    let Searched { found, lower_bound_seconds, .. } = searched;
    let fitting = found.into_iter().filter(|(_, outcome)| request.fits(outcome));
    let mut fitting: Vec<(Considered, Arc<Sketch<'_>>, Outcome)> =
        fitting.map(|(sketch, outcome)| (Considered::new(&sketch.frame, &outcome), sketch, outcome)).collect();
    fitting.sort_by(|left, right| by_time(&left.0, &right.0));
    let considered: Vec<Considered> = fitting.iter().map(|(considered, ..)| considered.clone()).collect();
    let (Considered { microbatches, .. }, sketch, outcome) = fitting.swap_remove(0);
    let decisions = decisions(&sketch, &outcome.labelled, outcome.limit_bytes(request));
    let Outcome { labelled, recipe, local, timeline, peak_bytes, classes } = outcome;
    let search_gap = labelled.gap();
    Ok(Plan {
        mesh: local.mesh.clone(),
        microbatches,
        recipe,
        runs: Runs::One(Box::new(local)),
        classes,
        timeline,
        peak_bytes,
        lower_bound_seconds,
        search_gap,
        alternatives: distinct(considered.clone()),
        pareto: pareto(considered),
        decisions,
    })
}

/// What came closest to fitting. Where nothing could be lowered at all, that is no matter of memory.
pub(super) fn refusal(request: &Request<'_>, searched: Searched<'_>) -> Refusal {
    let Some((sketch, outcome)) = searched.found.iter().min_by_key(|(_, outcome)| outcome.peak_bytes) else {
        return Refusal::Unplannable(searched.first_error.unwrap_or_else(|| nothing_found(request)));
    };
    Refusal::TooLarge(Box::new(TooLarge {
        least_bytes: outcome.peak_bytes,
        missing_bytes: outcome.peak_bytes.saturating_sub(request.limit_bytes),
        closest: Considered::new(&sketch.frame, outcome),
        binding: Binding::new(request.engine, outcome),
    }))
}

/// That nothing was found, for no reason that was told: of microbatches the likely one is known.
pub(super) fn nothing_found(request: &Request<'_>) -> String {
    match request.microbatches {
        Some(count) if count > 1 => format!(
            "no way to run the step in {count} microbatches was found; what needs all of a batch at once, as batch norms and \
             losses that compare its samples do, has one microbatch"
        ),
        _ => "no way to cut the program was found".to_owned(),
    }
}

impl Outcome {
    /// The limit for labels with which what comes of them just fits, which it does already.
    pub(super) fn limit_bytes(&self, request: &Request<'_>) -> u64 {
        self.labelled.peak_bytes + (request.limit_bytes - self.peak_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Model;
    use crate::plan::candidate::exposed;

    /// What labels take of time and memory, beside what the lowered plan does: free, short of memory, in microbatches.
    #[track_caller]
    fn check_labels(preset: &str, settings: &[(&str, &str)], cluster: &str, limits: &[(f64, usize)], most_off: f64) {
        let mut model = Model::preset(preset).expect("a preset");
        settings.iter().for_each(|(key, value)| model.set(key, value).expect("a setting"));
        let program = model.build().expect("a model");
        let cluster = crate::cluster::parse(cluster).expect("a cluster");
        let engine = crate::simulate::engine("xla").expect("an engine");
        for &(own_limit, microbatches) in limits {
            let limit_bytes = (own_limit * (1.0 + engine.fragmentation)) as u64 + engine.reserved_bytes as u64;
            let request = Request {
                program: &program,
                cluster: &cluster,
                engine,
                limit_bytes,
                microbatches: Some(microbatches),
                told: None,
                mesh: None,
            };
            let far = |left: f64, right: f64| (left / right - 1.0).abs();
            let measure = |space: &Space<'_>| {
                let searched = search(&request, space, Otherwise::GiveUp);
                let (_, outcome) = searched.best(&request).expect("a plan");
                let own_peak = outcome.peak_bytes as f64 / (1.0 + engine.fragmentation) - engine.reserved_bytes as f64;
                // How much is hidden is for simulations to tell.
                let time = far(outcome.labelled.seconds_with(exposed(outcome)), outcome.timeline.step_seconds);
                (time, far(outcome.labelled.peak_bytes as f64, own_peak))
            };
            let (time, memory) = request.in_space(measure).expect("a space");
            assert!(time < 0.08 && memory < most_off, "{own_limit} bytes: {time} off in time, {memory} in memory");
        }
    }

    #[test]
    fn labels_come_to_what_simulations_say() {
        let limits = [(60e9, 1), (6.4e9, 1), (2.9e9, 4)];
        check_labels("gpt-2.6b", &[("layers", "4"), ("batch", "64")], "8xa100-80g", &limits, 0.04);
    }

    /// Of what layers add to, the backward pass reads some in the last layer alone. Labels have all of a layer that is made
    /// again in memory at once, so that they are further off.
    #[test]
    fn labels_of_layers_that_differ_in_the_last_come_to_what_simulations_say() {
        let settings = [("layers", "24"), ("vocab", "1024"), ("batch", "64")];
        check_labels("llama2-7b", &settings, "8xh100", &[(28e9, 1)], 0.09);
    }

    /// Devices with a part of the queries have a causal mask that is written out, of which nothing is left out.
    #[test]
    fn labels_of_attention_of_some_queries_come_to_what_simulations_say() {
        let mut model = Model::preset("gpt-1.3b").expect("a preset");
        [("layers", "1"), ("seq", "8192"), ("batch", "8")]
            .into_iter()
            .for_each(|(key, value)| model.set(key, value).expect("a setting"));
        let program = model.build().expect("a model");
        let cluster = crate::cluster::parse("8xa100-80g").expect("a cluster");
        let engine = crate::simulate::engine("xla").expect("an engine");
        let tactics = "tactic = [{ axis = 'sequence', tile = { 'batch.**' = 1 } }, { auto = true, only = ['state'] }]";
        let (tactics, all) = (crate::tactics::parse(tactics).expect("tactics"), Default::default());
        let told = Some(Told::new(&tactics, &all).expect("a plan can be made"));
        let mesh = Mesh::parse("sequence=8").expect("a mesh");
        let (program, cluster, limit_bytes) = (&program, &cluster, 80 << 30);
        let request = Request { program, cluster, engine, limit_bytes, microbatches: Some(1), told, mesh: Some(&mesh) };
        let measure = |space: &Space<'_>| {
            let searched = search(&request, space, Otherwise::GiveUp);
            let (_, outcome) = searched.best(&request).expect("a plan");
            let labelled = outcome.labelled.loads.forward.computing + outcome.labelled.loads.backward.computing;
            labelled / outcome.timeline.stages[0].compute_seconds
        };
        let share = request.in_space(measure).expect("a space");
        assert!((0.95..1.05).contains(&share), "labels have {share} of what is computed");
    }
}

//! The search for the fastest plan that fits.

use super::check::check;
use super::costs::{Costs, combined_seconds};
use std::collections::BTreeMap;
use std::sync::Mutex;

use super::decision::Decision;
use super::fixed::{Fixed, Told};
use super::frames::{batch, frames, microbatch_counts, named_frames};
use super::label::{Exposure, Labelled};
use super::recipe::Recipe;
use super::sketch::{Frame, Ground, Outcome, Sketch};
use super::time::Time;
use super::work::Worker;
use crate::cluster::Cluster;
use crate::lower::{LocalProgram, Movement};
use crate::program::{ArgumentClass, Program};
use crate::shard::{Layout, Mesh};
use crate::simulate::{Engine, Runner, Timeline, movement_seconds};
use crate::tactics::Freedom;

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
    pub local: LocalProgram,
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
    /// What fits, the fastest first.
    pub alternatives: Vec<Considered>,
}

/// A plan that was found on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    pub mesh: Mesh,
    pub microbatches: usize,
    pub step_seconds: f64,
    pub peak_bytes: u64,
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The program cannot be planned.
    Unplannable(String),
    /// The best that was found does not fit.
    TooLarge { least_bytes: Option<u64> },
}

/// Seconds are told apart that differ by as much.
const NANOSECOND: f64 = 1e-9;
/// So many frames are lowered and simulated at once.
const MOST_SIMULATED: usize = 4;
/// So often is a frame labelled and simulated with what was told before.
const MOST_ROUNDS: usize = 3;
/// Those whose labelling is worse than the best by more than this factor are not simulated.
const MOST_WORSE: f64 = 1.1;
/// The same for labellings of frames that have been simulated, which know more.
const MOST_WORSE_AGAIN: f64 = 1.03;
/// Into how many runs layers alike are split where memory is short.
const RUNS: usize = 4;

/// The fastest plan found that fits.
pub fn plan(request: &Request<'_>) -> Result<Plan, Refusal> {
    let Request { program, cluster, engine, .. } = *request;
    let runner = request.runner();
    let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
    let combined = move |mesh: &Mesh, movement: &Movement<'_>| combined_seconds(runner, mesh, movement);
    let worker = Some(Worker { device: runner.device, engine });
    let costs =
        Costs { worker, price: &price, combined: &combined, unit: NANOSECOND, memory_model: engine.memory_model };
    let base = Layout::new(program, Mesh::default());
    let ground = Ground::new(base, costs, request.told).map_err(Refusal::Unplannable)?;
    let mut ranked = rank(request, &ground)?;
    drop_refined(&mut ranked);
    ranked.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
    let Some(best) = ranked.first().map(Candidate::seconds) else {
        return Err(Refusal::TooLarge { least_bytes: None });
    };
    let bounds = ranked.iter().map(|ranked| ranked.sketch.least_seconds());
    let lower_bound_seconds = bounds.fold(f64::INFINITY, f64::min);
    let mut found = simulate_ranked(request, by_kind(ranked), best * MOST_WORSE);
    // Where memory was short, layers of the best frame may do different things.
    let tightest = found
        .iter()
        .filter(|(_, outcome)| request.fits(outcome))
        .min_by(|left, right| left.1.timeline.step_seconds.total_cmp(&right.1.timeline.step_seconds));
    if let Some((frame, outcome)) = tightest.filter(|(_, outcome)| outcome.labelled.is_bound) {
        let frame = Frame { runs: RUNS, ..frame.clone() };
        let limit_bytes = outcome.labelled.peak_bytes + (request.limit_bytes - outcome.peak_bytes);
        let (exposure, seconds) = (exposed(outcome), outcome.timeline.step_seconds);
        let sketch = Sketch::new(&ground, frame).ok();
        let candidate = sketch.and_then(|sketch| Candidate::new(sketch, limit_bytes, exposure));
        found.extend(refine(request, candidate.into_iter().collect(), seconds));
    }
    let plan = choose(request, found, lower_bound_seconds)?;
    if cfg!(debug_assertions) {
        let Request { limit_bytes, .. } = *request;
        let checked = check(program, &plan.recipe, cluster, engine, limit_bytes).map(|checked| checked.step_seconds);
        debug_assert_eq!(checked, Ok(plan.timeline.step_seconds), "a plan is not what the search found");
    }
    Ok(plan)
}

impl<'r> Request<'r> {
    fn runner(&self) -> Runner<'r> {
        Runner { cluster: self.cluster, device: self.cluster.device(0), engine: self.engine }
    }

    fn fits(&self, outcome: &Outcome) -> bool {
        outcome.peak_bytes <= self.limit_bytes
    }
}

/// Drops meshes that are no better than one of fewer axes: they do the same by more names.
fn drop_refined(ranked: &mut Vec<Candidate<'_>>) {
    let kind = |ranked: &Candidate<'_>| {
        let Frame { mesh, microbatches, is_eager, .. } = &ranked.sketch.frame;
        (*microbatches, *is_eager, mesh.axes.len(), ranked.seconds())
    };
    let kinds: Vec<_> = ranked.iter().map(kind).collect();
    ranked.retain(|ranked| {
        let (microbatches, is_eager, axes, seconds) = kind(ranked);
        let is_as_good = |other: &(usize, bool, usize, f64)| other.2 < axes && other.3 <= seconds * (1.0 + ALIKE);
        !kinds.iter().any(|other| (other.0, other.1) == (microbatches, is_eager) && is_as_good(other))
    });
}

/// Labellings whose times differ by less than this share are taken for the same.
const ALIKE: f64 = 1e-3;

/// The best mesh for every number of microbatches first: labellings of frames alike are closer to each other than to
/// the truth.
fn by_kind(ranked: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let mut kinds: Vec<(usize, bool)> = Vec::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for ranked in ranked {
        let kind = (ranked.sketch.frame.microbatches, ranked.sketch.frame.is_eager);
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

/// Simulates frames, those first that should be fastest: all that could be best, and as many more as it takes until
/// something fits.
fn simulate_ranked(request: &Request<'_>, ranked: Vec<Candidate<'_>>, most_seconds: f64) -> Vec<(Frame, Outcome)> {
    let mut found: Vec<(Frame, Outcome)> = Vec::new();
    let mut rest = ranked;
    while !rest.is_empty() && !found.iter().any(|(_, outcome)| request.fits(outcome)) {
        let near = rest.iter().take_while(|ranked| ranked.seconds() <= most_seconds).count();
        let count = if near > 0 { near } else { rest.len() };
        let later = rest.split_off(count.min(MOST_SIMULATED));
        let next = std::mem::replace(&mut rest, later);
        found.extend(refine(request, next, f64::INFINITY));
    }
    found
}

/// The fastest of what fits.
fn choose(request: &Request<'_>, found: Vec<(Frame, Outcome)>, lower_bound_seconds: f64) -> Result<Plan, Refusal> {
    let least_bytes = found.iter().map(|(_, outcome)| outcome.peak_bytes).min();
    let mut fitting: Vec<(Frame, Outcome)> = found.into_iter().filter(|(_, outcome)| request.fits(outcome)).collect();
    fitting.sort_by(|left, right| left.1.timeline.step_seconds.total_cmp(&right.1.timeline.step_seconds));
    let mut alternatives: Vec<Considered> = Vec::new();
    for (frame, outcome) in &fitting {
        let considered = Considered {
            mesh: outcome.local.mesh.clone(),
            microbatches: frame.microbatches,
            step_seconds: outcome.timeline.step_seconds,
            peak_bytes: outcome.peak_bytes,
        };
        if !alternatives.contains(&considered) {
            alternatives.push(considered);
        }
    }
    let Some((frame, outcome)) = fitting.into_iter().next() else { return Err(Refusal::TooLarge { least_bytes }) };
    let Outcome { labelled, recipe, local, timeline, peak_bytes, classes, decisions } = outcome;
    let search_gap = (labelled.seconds - labelled.lower_bound_seconds) / labelled.seconds.max(1e-12);
    Ok(Plan {
        mesh: local.mesh.clone(),
        microbatches: frame.microbatches,
        recipe,
        local,
        classes,
        timeline,
        peak_bytes,
        lower_bound_seconds,
        search_gap,
        alternatives,
        decisions,
    })
}

/// A frame that is labelled and simulated again and again.
struct Candidate<'g> {
    sketch: Sketch<'g>,
    limit_bytes: u64,
    /// What is to be simulated next.
    next: Option<Labelled>,
    outcomes: Vec<Outcome>,
}

impl<'g> Candidate<'g> {
    /// `None` where nothing fits, as far as the labelling knows.
    fn new(sketch: Sketch<'g>, limit_bytes: u64, exposure: Exposure) -> Option<Candidate<'g>> {
        let next = Some(sketch.label(limit_bytes, exposure)?);
        Some(Candidate { sketch, limit_bytes, next, outcomes: Vec::new() })
    }

    /// What the labelling to be simulated next should take.
    fn seconds(&self) -> f64 {
        self.next.as_ref().map_or(f64::INFINITY, |labelled| labelled.seconds)
    }

    /// Simulates the next labelling, and makes another with what that told: how much memory in truth asks for, and
    /// how much of what is moved is hidden.
    fn proceed(mut self, request: &Request<'_>) -> Candidate<'g> {
        let Some(labelled) = self.next.take() else { return self };
        let labelled_peak = labelled.peak_bytes;
        let Ok(outcome) = self.sketch.realize(labelled, request.runner()) else { return self };
        let (peak, limit) = (outcome.peak_bytes, request.limit_bytes);
        if peak > limit {
            // As much less as there is too much.
            let excess = (peak - limit).max(self.limit_bytes / 64);
            self.limit_bytes = labelled_peak.min(self.limit_bytes).saturating_sub(excess);
        }
        let exposure = exposed(&outcome);
        self.outcomes.push(outcome);
        if self.outcomes.len() < MOST_ROUNDS {
            let next = self.sketch.label(self.limit_bytes, exposure);
            self.next = next.filter(|next| !self.outcomes.iter().any(|outcome| outcome.labelled.labels == next.labels));
        }
        self
    }
}

/// Simulates candidates as often as something could come of it that is faster than what was found, and than so many
/// seconds.
fn refine(request: &Request<'_>, mut candidates: Vec<Candidate<'_>>, most_seconds: f64) -> Vec<(Frame, Outcome)> {
    let mut best = most_seconds;
    while candidates.iter().any(|candidate| candidate.next.is_some()) {
        candidates = in_parallel(candidates, |candidate| candidate.proceed(request));
        let outcomes = candidates.iter().flat_map(|candidate| &candidate.outcomes);
        let fitting = outcomes.filter(|outcome| request.fits(outcome));
        best = fitting.map(|outcome| outcome.timeline.step_seconds).fold(best, f64::min);
        for candidate in &mut candidates {
            candidate.next.take_if(|next| next.seconds > best * MOST_WORSE_AGAIN);
        }
    }
    let outcomes = candidates.into_iter().flat_map(|candidate| {
        let frame = candidate.sketch.frame;
        candidate.outcomes.into_iter().map(move |outcome| (frame.clone(), outcome))
    });
    outcomes.collect()
}

/// What is hidden behind computing before any simulation has told.
const FIRST_EXPOSURE: Exposure = Exposure(0.3);

/// Labels all frames, roughly.
fn rank<'g>(request: &Request<'_>, ground: &'g Ground<'g>) -> Result<Vec<Candidate<'g>>, Refusal> {
    let meshes = meshes(request).map_err(Refusal::Unplannable)?;
    if let Some(told) = request.told {
        // What cannot be laid out on the first mesh is told; on others it may only not divide.
        let batch = batch(request.program, &ground.arguments);
        let tried = meshes.first().map(|mesh| Fixed::new(&ground.base, mesh, told, batch));
        tried.transpose().map_err(Refusal::Unplannable)?;
    }
    let counts = match request.microbatches {
        Some(count) => {
            let batch = batch(request.program, &ground.arguments);
            if !batch.is_multiple_of(count) {
                return Err(Refusal::Unplannable(format!("a batch of {batch} is not cut into {count} microbatches")));
            }
            vec![count]
        }
        None if request.told.is_some_and(|told| !told.auto.may(Freedom::Microbatches)) => vec![1],
        None => microbatch_counts(request.program, &ground.arguments),
    };
    // What the engine takes besides the program.
    let engine = request.engine;
    let limit = request.limit_bytes.saturating_sub(engine.reserved_bytes as u64) as f64;
    let limit_bytes = (limit / (1.0 + engine.fragmentation)) as u64;
    let times: Vec<Option<Time>> = in_parallel(counts, |count| Time::new(&ground.base, count).ok());
    let times: Vec<Time> = times.into_iter().flatten().collect();
    let jobs: Vec<(usize, usize)> =
        (0..times.len()).flat_map(|time| (0..meshes.len()).map(move |mesh| (mesh, time))).collect();
    // The numbers of microbatches that each mesh has been labelled for, and those that it need not be for.
    let progress: Vec<Mutex<Progress<'g>>> = meshes.iter().map(|_| Mutex::default()).collect();
    in_parallel(jobs, |(mesh, time)| {
        let is_wanted = progress[mesh].lock().is_ok_and(|progress| time < progress.enough(times.len()));
        if is_wanted {
            let labelled = label_frames(ground, &meshes[mesh], &times[time], limit_bytes);
            if let Ok(mut progress) = progress[mesh].lock() {
                progress.labelled.insert(time, labelled);
            }
        }
    });
    let mut ranked = Vec::new();
    for progress in progress {
        let progress = progress.into_inner().unwrap_or_default();
        let enough = progress.enough(times.len());
        ranked.extend(progress.labelled.into_iter().filter(|(time, _)| *time < enough).flat_map(|(_, frames)| frames));
    }
    Ok(ranked)
}

/// The meshes that are tried: the one that is given, those with the axes that tactics name, or all.
fn meshes(request: &Request<'_>) -> Result<Vec<Mesh>, String> {
    let devices = request.cluster.devices();
    if let Some(mesh) = request.mesh {
        let has_time = mesh.axes.iter().any(|axis| axis.temporal);
        if mesh.devices() != devices || has_time {
            return Err(format!("the mesh has to have {devices} devices, as the cluster, and no axis in time"));
        }
        return Ok(vec![mesh.clone()]);
    }
    let mut names: Vec<&String> = Vec::new();
    if let Some(told) = request.told {
        let axes = told.before.iter().filter_map(|tactic| tactic.axis.as_ref());
        for name in axes.chain(told.auto.axes.iter().flatten()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return frames(request.cluster);
    }
    // Where axes are not limited there is one more, for what nobody spoke of.
    let rest = REST.to_owned();
    if request.told.is_some_and(|told| told.auto.axes.is_none()) && !names.contains(&&rest) {
        names.insert(0, &rest);
    }
    named_frames(&names, devices)
}

/// The axis that is left to planning where tactics name others.
const REST: &str = "rest";

/// What is known of a mesh, by the number of the number of microbatches.
#[derive(Default)]
struct Progress<'g> {
    labelled: BTreeMap<usize, Vec<Candidate<'g>>>,
}

impl Progress<'_> {
    /// How many of the numbers of microbatches have to be tried, as far as all up to some are known. More save memory,
    /// which is not needed once everything fits, and hide more, which soon ends.
    fn enough(&self, count: usize) -> usize {
        let mut best = f64::INFINITY;
        for time in 0..count {
            let Some(frames) = self.labelled.get(&time) else { return count };
            let is_bound = |frame: &Candidate<'_>| frame.next.as_ref().is_none_or(|labelled| labelled.is_bound);
            let seconds = frames.iter().map(Candidate::seconds).fold(f64::INFINITY, f64::min);
            if !frames.iter().all(is_bound) && seconds > best {
                return time + 1;
            }
            best = best.min(seconds);
        }
        count
    }
}

/// Labels a mesh with a number of microbatches, both ways to gather and reduce.
fn label_frames<'g>(ground: &'g Ground<'g>, mesh: &Mesh, time: &Time, limit_bytes: u64) -> Vec<Candidate<'g>> {
    let frame = Frame { mesh: mesh.clone(), microbatches: time.microbatches, is_eager: false, runs: 1 };
    let Ok(lazy) = Sketch::in_time(ground, frame, time.clone()) else { return Vec::new() };
    let eager = (time.microbatches > 1).then(|| lazy.made_eager());
    [Some(lazy), eager]
        .into_iter()
        .flatten()
        .filter_map(|sketch| Candidate::new(sketch, limit_bytes, FIRST_EXPOSURE))
        .collect()
}

/// What a simulation tells about how much of what could be hidden is not.
fn exposed(outcome: &Outcome) -> Exposure {
    let Labelled { waiting_seconds, hideable_seconds, .. } = outcome.labelled;
    let exposed = outcome.timeline.stages[0].exposed_seconds - waiting_seconds;
    Exposure((exposed / hideable_seconds.max(1e-9)).clamp(0.05, 1.0))
}

/// Does something with each of a list on two threads; gives what comes of it in the order of the list.
fn in_parallel<T: Send, R: Send>(list: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(list.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some((index, item)) = next.lock().ok().and_then(|mut next| next.next()) else { break };
                    let result = act(item);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

const THREADS: usize = 2;

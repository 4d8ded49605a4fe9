//! The search for the fastest plan that fits.

use super::check::check;
use super::decision::Decision;
use super::frames::{batch, frames, microbatch_counts};
use super::label::{Exposure, Labelled};
use super::recipe::Recipe;
use super::sketch::{Frame, Ground, Outcome, Sketch};
use crate::cluster::Cluster;
use crate::lower::LocalProgram;
use crate::program::{ArgumentClass, Program};
use crate::shard::Mesh;
use crate::simulate::{Engine, Runner, Timeline};

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

/// So many frames are lowered and simulated at most.
const MOST_SIMULATED: usize = 6;
/// So often is a frame labelled again with what its simulation told.
const MOST_ROUNDS: usize = 3;
/// Those whose labelling is worse than the best by more than this factor are not simulated.
const MOST_WORSE: f64 = 1.1;
/// Into how many runs layers alike are split where memory is short.
const RUNS: usize = 4;

/// The fastest plan found that fits.
pub fn plan(request: &Request<'_>) -> Result<Plan, Refusal> {
    let Request { program, cluster, engine, .. } = *request;
    let runner = Runner { cluster, device: cluster.device(0), engine };
    let ground = Ground::new(program, runner).map_err(Refusal::Unplannable)?;
    let mut ranked = rank(request, &ground)?;
    drop_refined(&mut ranked);
    ranked.sort_by(|left, right| left.labelled.seconds.total_cmp(&right.labelled.seconds));
    let Some(best) = ranked.first().map(|ranked| ranked.labelled.seconds) else {
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
        let ranked = Sketch::new(&ground, frame).ok().and_then(|sketch| Ranked::new(sketch, limit_bytes));
        found.extend(ranked.into_iter().flat_map(|ranked| refine(request, ranked)));
    }
    let plan = choose(request, found, lower_bound_seconds)?;
    if cfg!(debug_assertions) {
        let Request { limit_bytes, .. } = *request;
        let checked = check(program, &plan.recipe, cluster, engine, limit_bytes).map(|checked| checked.step_seconds);
        debug_assert_eq!(checked, Ok(plan.timeline.step_seconds), "a plan is not what the search found");
    }
    Ok(plan)
}

impl Request<'_> {
    fn fits(&self, outcome: &Outcome) -> bool {
        outcome.peak_bytes <= self.limit_bytes
    }
}

/// Drops meshes that are no better than one of fewer axes: they do the same by more names.
fn drop_refined(ranked: &mut Vec<Ranked<'_>>) {
    let kind = |ranked: &Ranked<'_>| {
        let Frame { mesh, microbatches, is_eager, .. } = &ranked.sketch.frame;
        (*microbatches, *is_eager, mesh.axes.len(), ranked.labelled.seconds)
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
fn by_kind(ranked: Vec<Ranked<'_>>) -> Vec<Ranked<'_>> {
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
fn simulate_ranked(request: &Request<'_>, ranked: Vec<Ranked<'_>>, most_seconds: f64) -> Vec<(Frame, Outcome)> {
    let mut found: Vec<(Frame, Outcome)> = Vec::new();
    let mut rest = ranked;
    while !rest.is_empty() && !found.iter().any(|(_, outcome)| request.fits(outcome)) {
        let near = rest.iter().take_while(|ranked| ranked.labelled.seconds <= most_seconds).count();
        let count = if near > 0 { near } else { rest.len() };
        let later = rest.split_off(count.min(MOST_SIMULATED));
        let next = std::mem::replace(&mut rest, later);
        found.extend(in_parallel(next, |ranked| refine(request, ranked)).into_iter().flatten());
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

/// A frame with its first labelling.
struct Ranked<'g> {
    sketch: Sketch<'g>,
    labelled: Labelled,
    limit_bytes: u64,
}

impl<'g> Ranked<'g> {
    /// `None` where nothing fits, as far as the labelling knows.
    fn new(sketch: Sketch<'g>, limit_bytes: u64) -> Option<Ranked<'g>> {
        let labelled = sketch.label(limit_bytes, FIRST_EXPOSURE)?;
        Some(Ranked { sketch, labelled, limit_bytes })
    }
}

/// What is hidden behind computing before any simulation has told.
const FIRST_EXPOSURE: Exposure = Exposure(0.3);

/// Labels all frames, roughly.
fn rank<'g>(request: &Request<'_>, ground: &'g Ground<'g>) -> Result<Vec<Ranked<'g>>, Refusal> {
    let meshes = frames(request.cluster).map_err(Refusal::Unplannable)?;
    let counts = match request.microbatches {
        Some(count) => {
            let batch = batch(request.program, &ground.arguments);
            if !batch.is_multiple_of(count) {
                return Err(Refusal::Unplannable(format!("a batch of {batch} is not cut into {count} microbatches")));
            }
            vec![count]
        }
        None => microbatch_counts(request.program, &ground.arguments),
    };
    // What the engine takes besides the program.
    let engine = request.engine;
    let limit = request.limit_bytes.saturating_sub(engine.reserved_bytes as u64) as f64;
    let limit_bytes = (limit / (1.0 + engine.fragmentation)) as u64;
    let tried = in_parallel(meshes, |mesh| {
        let mut ranked: Vec<Ranked<'g>> = Vec::new();
        let mut best = f64::INFINITY;
        for &microbatches in &counts {
            let (mut fits_easily, mut seconds) = (false, f64::INFINITY);
            for is_eager in [false, true] {
                if is_eager && microbatches == 1 {
                    continue;
                }
                let frame = Frame { mesh: mesh.clone(), microbatches, is_eager, runs: 1 };
                let sketch = Sketch::new(ground, frame).ok();
                let Some(next) = sketch.and_then(|sketch| Ranked::new(sketch, limit_bytes)) else { continue };
                fits_easily |= !next.labelled.is_bound;
                seconds = seconds.min(next.labelled.seconds);
                ranked.push(next);
            }
            // More microbatches save memory, which is not needed, and hide more, which soon ends.
            if fits_easily && seconds > best {
                break;
            }
            best = best.min(seconds);
        }
        ranked
    });
    Ok(tried.into_iter().flatten().collect())
}

/// Labels a frame again with what its simulation told: how much its memory in truth asks for, and how much of what is
/// moved is hidden.
fn refine(request: &Request<'_>, ranked: Ranked<'_>) -> Vec<(Frame, Outcome)> {
    let Ranked { sketch, labelled, mut limit_bytes } = ranked;
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut next = Some(labelled);
    while let Some(labelled) = next.take() {
        if outcomes.iter().any(|outcome| outcome.labelled.labels == labelled.labels) {
            break;
        }
        let labelled_peak = labelled.peak_bytes;
        let Ok(outcome) = sketch.realize(labelled) else { break };
        let (peak, limit) = (outcome.peak_bytes, request.limit_bytes);
        let exposure = exposed(&outcome);
        outcomes.push(outcome);
        if peak > limit {
            // As much less as there is too much.
            limit_bytes = labelled_peak.min(limit_bytes).saturating_sub((peak - limit).max(limit_bytes / 64));
        }
        if outcomes.len() < MOST_ROUNDS {
            next = sketch.label(limit_bytes, exposure);
        }
    }
    outcomes.into_iter().map(|outcome| (sketch.frame.clone(), outcome)).collect()
}

/// What a simulation tells about how much of what could be hidden is not.
fn exposed(outcome: &Outcome) -> Exposure {
    let Labelled { waiting_seconds, hideable_seconds, .. } = outcome.labelled;
    let exposed = outcome.timeline.stages[0].exposed_seconds - waiting_seconds;
    Exposure((exposed / hideable_seconds.max(1e-9)).clamp(0.05, 1.0))
}

/// Does something with each of a list on two threads; gives what comes of it in the order of the list.
fn in_parallel<T: Send, R: Send>(list: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let next = std::sync::Mutex::new(list.into_iter().enumerate());
    let done = std::sync::Mutex::new(Vec::new());
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

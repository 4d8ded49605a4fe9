//! Plans with stages: which layers run on which devices, and how each of them does.

mod divide;
mod menu;
mod order;
mod place;
mod realize;
mod search;
mod union;

use self::place::kinds;
use self::search::{Searching, Staged};
use super::considered::{Considered, distinct, pareto};
use super::costs::Costs;
use super::search::{NANOSECOND, Otherwise, Plan, Refusal, Request, choose, plan, search};
use super::sketch::Ground;
use super::space::Space;
use super::work::Worker;
use crate::lower::Movement;
use crate::pipeline::Layers;
use crate::shard::{Layout, Mesh};
use crate::simulate::{Runner, movement_seconds};

/// How many stages there are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageCount {
    /// As many as are fastest.
    Any,
    Exactly(usize),
}

/// What should take longer than something that was simulated, by this factor, is not looked at: formulas are a few
/// percent off.
const MOST_WORSE: f64 = 1.04;

/// The same for one stage, of which formulas know less than the search for it finds.
const MOST_WORSE_ALONE: f64 = 1.25;

/// The fastest plan found that fits, in stages where these are faster.
pub fn plan_stages(request: &Request<'_>, count: StageCount) -> Result<Plan, Refusal> {
    if count == StageCount::Exactly(1) || request.told.is_some() || request.mesh.is_some() {
        return plan(request);
    }
    request.in_space(|space| {
        with_grounds(request, space.ground(), |grounds| {
            let Some(layers) = Layers::find(request.program, &grounds[0].base.anatomy) else {
                return one_stage(request, space, Otherwise::FindLeast);
            };
            let searching = Searching { request, grounds, kinds: kinds(request.cluster), layers: &layers };
            match count {
                StageCount::Any => any_count(&searching, space),
                StageCount::Exactly(count) => {
                    let found = searching.search(searching.candidates(count), f64::INFINITY).into_plan();
                    found.ok_or_else(|| {
                        let reason = format!("no way to cut the model into {count} stages that fits was found");
                        Refusal::Unplannable(reason)
                    })
                }
            }
        })
    })??
}

fn one_stage(request: &Request<'_>, space: &Space<'_>, otherwise: Otherwise) -> Result<Plan, Refusal> {
    choose(request, search(request, space, otherwise))
}

/// Searches for one stage and for several, what should be faster first.
fn any_count(searching: &Searching<'_, '_>, space: &Space<'_>) -> Result<Plan, Refusal> {
    let request = searching.request;
    let (one, several) = searching.all_candidates();
    let least = |candidates: &[search::Candidate<'_>]| {
        candidates.iter().map(search::Candidate::seconds).fold(f64::INFINITY, f64::min)
    };
    let (one_seconds, several_seconds) = (least(&one), least(&several));
    if one_seconds < several_seconds {
        let first = one_stage(request, space, Otherwise::GiveUp);
        let most = first.as_ref().map_or(f64::INFINITY, |plan| plan.timeline.step_seconds);
        let staged = searching.search(several, most * MOST_WORSE).into_plan();
        return match (first, staged) {
            (Ok(first), Some(staged)) => Ok(better(staged, first)),
            (Ok(first), None) => Ok(first),
            (Err(_), Some(staged)) => Ok(staged),
            (Err(_), None) => one_stage(request, space, Otherwise::FindLeast),
        };
    }
    let staged: Staged<'_> = searching.search(several, f64::INFINITY);
    match staged.into_plan() {
        Some(staged) if one_seconds > staged.timeline.step_seconds * MOST_WORSE_ALONE => Ok(staged),
        Some(staged) => Ok(match one_stage(request, space, Otherwise::GiveUp) {
            Ok(one) => better(staged, one),
            Err(_) => staged,
        }),
        None => one_stage(request, space, Otherwise::FindLeast),
    }
}

/// The faster of two, with what both know.
fn better(staged: Plan, one: Plan) -> Plan {
    let all: Vec<Considered> = staged.alternatives.iter().chain(&one.alternatives).cloned().collect();
    let ends: Vec<Considered> = staged.pareto.iter().chain(&one.pareto).cloned().collect();
    let lower_bound_seconds = staged.lower_bound_seconds.min(one.lower_bound_seconds);
    let is_staged = staged.timeline.step_seconds < one.timeline.step_seconds;
    let best = if is_staged { staged } else { one };
    Plan { alternatives: distinct(all), pareto: pareto(ends), lower_bound_seconds, ..best }
}

/// Does something with what is known of the program for every kind of device, of which the first is known.
fn with_grounds<R>(
    request: &Request<'_>,
    first: &Ground<'_>,
    act: impl FnOnce(&[&Ground<'_>]) -> R,
) -> Result<R, Refusal> {
    let Request { program, cluster, engine, told, .. } = *request;
    type Pricing<'p> = Box<dyn Fn(&Mesh, &Movement<'_>) -> f64 + Sync + 'p>;
    let kinds = kinds(cluster);
    let parts: Vec<_> = kinds.iter().map(|kind| cluster.around(kind.devices.clone())).collect();
    let mut prices: Vec<(Worker<'_>, Pricing<'_>)> = Vec::new();
    for (kind, part) in kinds.iter().zip(&parts).skip(1) {
        let device = kind.device;
        let runner = Runner { cluster: part, device, engine };
        prices.push((
            Worker { device, engine },
            Box::new(move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement)),
        ));
    }
    let mut others = Vec::new();
    for (worker, price) in &prices {
        let memory_model = engine.memory_model;
        // Stages leave nothing on the host.
        let host_seconds_per_byte = 0.0;
        let unit = NANOSECOND;
        let costs = Costs { worker: Some(*worker), price, host_seconds_per_byte, unit, memory_model };
        let base = Layout::new(program, Mesh::default());
        others.push(Ground::new(base, costs, told).map_err(Refusal::Unplannable)?);
    }
    let grounds: Vec<&Ground<'_>> = std::iter::once(first).chain(&others).collect();
    Ok(act(&grounds))
}

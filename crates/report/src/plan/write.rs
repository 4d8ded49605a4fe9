//! From a plan to its file.

use std::collections::BTreeMap;

use meshwright::cluster::Cluster;
use meshwright::plan::{Decision, OpRecipe, Plan, Recipe, RunnerUp};
use meshwright::program::{ArgumentClass, OpId, Phase, Program};
use meshwright::shard::{Mesh, Sharding, factor_name};

use super::file::{
    ArgumentPart, ClassPart, ClusterPart, ModelPart, NodesPart, PlanFile, RecomputedPart, ResultsPart, RunnerUpPart,
    SplitPart, StagesPart, StrategyPart, VERSION,
};
use super::fingerprint::Fingerprint;
use super::ranges::{fold, fold_names};
use super::text::{keeping_name, phase_name};
use crate::names::names;
use crate::place::{op_name, op_place, position};

/// What a plan was made for.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'s> {
    pub model: &'s str,
    pub settings: &'s [String],
    pub program: &'s Program,
    /// With all of its memory.
    pub cluster: &'s Cluster,
    pub engine: &'s str,
    pub memory_limit: u64,
}

pub fn plan_file(setting: &Setting<'_>, plan: &Plan, mfu: f64) -> PlanFile {
    let (program, recipe) = (setting.program, &plan.recipe);
    let names = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
    PlanFile {
        meshwright_plan: VERSION,
        model: model_part(setting),
        cluster: cluster_part(setting.cluster),
        engine: setting.engine.to_owned(),
        memory_limit: setting.memory_limit,
        mesh: recipe.mesh.to_string(),
        microbatches: recipe.microbatches,
        eager: recipe.is_eager,
        results: ResultsPart {
            step_seconds: plan.timeline.step_seconds,
            peak_bytes: plan.peak_bytes,
            mfu,
            lower_bound_seconds: plan.lower_bound_seconds,
            search_gap: plan.search_gap,
        },
        classes: plan.decisions.iter().map(|decision| class_part(program, &names, decision)).collect(),
        arguments: argument_parts(program, names, plan),
        strategies: strategy_parts(recipe),
        recomputed: recomputed_parts(recipe),
        splits: split_parts(recipe),
        stages: stages_part(plan),
    }
}

fn model_part(setting: &Setting<'_>) -> ModelPart {
    let Fingerprint { whole, ops } = Fingerprint::new(setting.program);
    ModelPart {
        name: setting.model.to_owned(),
        settings: setting.settings.to_vec(),
        fingerprint: whole,
        ops: ops.len(),
        op_digests: ops.concat(),
    }
}

pub(super) fn cluster_part(cluster: &Cluster) -> ClusterPart {
    let nodes = cluster.nodes.iter().map(|nodes| NodesPart {
        count: nodes.count,
        devices: nodes.devices,
        device: nodes.device.name.to_string(),
        memory_bytes: nodes.device.memory_bytes as u64,
    });
    let file = cluster.to_toml().lines().map(str::to_owned).collect();
    ClusterPart { name: cluster.name.clone(), nodes: nodes.collect(), file }
}

fn class_part(program: &Program, arguments: &[String], decision: &Decision) -> ClassPart {
    let mut scopes: Vec<String> = Vec::new();
    for bundle in &decision.bundles {
        let place = bundle.first().and_then(|&op| op_place(program, op)).unwrap_or_default();
        if !scopes.contains(&place) {
            scopes.push(place);
        }
    }
    // Updates are all in one module; they are known by what they update.
    if decision.phase == Phase::Update && !decision.arguments.is_empty() {
        scopes = decision.arguments.iter().map(|&argument| arguments[argument].clone()).collect();
    }
    let first: &[OpId] = decision.bundles.first().map_or(&[], Vec::as_slice);
    let mut ops: Vec<String> = Vec::new();
    for &op in first {
        let name = op_name(program, op);
        if !ops.iter().any(|known| known == name) {
            ops.push(name.to_owned());
        }
    }
    let source = first.iter().find_map(|&op| position(&program.locations[program.ops[op].location]));
    ClassPart {
        scopes: fold_names(scopes),
        phase: phase_name(decision.phase).to_owned(),
        ops,
        count: decision.bundles.len(),
        result: decision.lies.clone(),
        keeping: keeping_name(decision.keeping).to_owned(),
        compute_seconds: decision.compute_seconds,
        inner_seconds: decision.inner_seconds,
        moving_seconds: decision.moving_seconds,
        runner_ups: decision.runner_ups.iter().map(runner_up_part).collect(),
        source,
    }
}

fn runner_up_part(other: &RunnerUp) -> RunnerUpPart {
    RunnerUpPart {
        result: other.lies.clone(),
        keeping: keeping_name(other.keeping).to_owned(),
        more_compute_seconds: other.more_compute_seconds,
        more_moving_seconds: other.more_moving_seconds,
        over_bytes: other.over_bytes,
    }
}

fn argument_parts(program: &Program, names: Vec<String>, plan: &Plan) -> Vec<ArgumentPart> {
    let mut decided_by: Vec<Option<usize>> = vec![None; names.len()];
    for (class, decision) in plan.decisions.iter().enumerate() {
        decision.arguments.iter().for_each(|&argument| decided_by[argument] = Some(class));
    }
    let rows = names.into_iter().zip(&program.body().arguments).zip(&plan.recipe.arguments);
    let rows = rows.zip(&plan.classes).zip(decided_by);
    rows.enumerate()
        .map(|(number, ((((name, &value), lies), &class), decided_by))| {
            let (ty, local) = (program.ty(value), lies.local_type(&plan.recipe.mesh, program.ty(value)));
            ArgumentPart {
                name,
                ty: ty.to_string(),
                role: role_name(class).to_owned(),
                stored: lies.describe(&plan.recipe.mesh),
                local_type: local.to_string(),
                local_bytes: local.bytes() as u64,
                on_host: plan.recipe.held.binary_search(&number).is_ok(),
                decided_by,
            }
        })
        .collect()
}

fn role_name(class: ArgumentClass) -> &'static str {
    match class {
        ArgumentClass::Parameter => "parameter",
        ArgumentClass::State => "state",
        ArgumentClass::Input => "input",
    }
}

/// Ops that are cut alike are told once, in the order of the first of each.
fn strategy_parts(recipe: &Recipe) -> Vec<StrategyPart> {
    let mut groups: Vec<(&OpRecipe, Vec<u32>)> = Vec::new();
    for next in &recipe.ops {
        let is_alike = |(first, _): &&mut (&OpRecipe, Vec<u32>)| {
            (&first.factors, &first.results) == (&next.factors, &next.results)
        };
        match groups.iter_mut().find(is_alike) {
            Some((_, ops)) => ops.push(next.op.0),
            None => groups.push((next, vec![next.op.0])),
        }
    }
    let part = |(first, ops): (&OpRecipe, Vec<u32>)| StrategyPart {
        factors: factors(first, &recipe.mesh),
        results: first.results.iter().map(|lies: &Sharding| lies.describe(&recipe.mesh)).collect(),
        ops: fold(ops),
    };
    groups.into_iter().map(part).collect()
}

fn factors(recipe: &OpRecipe, mesh: &Mesh) -> BTreeMap<String, String> {
    let name = |factor: u16| factor_name(usize::from(factor));
    recipe.factors.iter().map(|(factor, pieces)| (name(*factor), mesh.describe(pieces))).collect()
}

fn recomputed_parts(recipe: &Recipe) -> Vec<RecomputedPart> {
    let part = |again: &meshwright::plan::Again| RecomputedPart {
        ops: fold(again.ops.iter().map(|op| op.0)),
        reads: fold(again.reads.iter().map(|value| value.0)),
    };
    recipe.again.iter().map(part).collect()
}

fn stages_part(plan: &Plan) -> Option<StagesPart> {
    let staging = plan.recipe.staging.as_ref()?;
    Some(StagesPart {
        count: staging.stages(),
        schedule: staging.schedule.name().to_owned(),
        chunks: staging.chunks,
        starts: staging.starts.iter().map(|op| op.0).collect(),
        modules: plan.runs.modules().to_vec(),
        meshes: match staging.lacks.is_empty() {
            true => Vec::new(),
            false => staging.meshes(&plan.recipe.mesh).iter().map(Mesh::to_string).collect(),
        },
    })
}

fn split_parts(recipe: &Recipe) -> Vec<SplitPart> {
    let part = |split: &meshwright::plan::Split| {
        let mut numbers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for &(op, factor) in &split.ops {
            numbers.entry(factor_name(usize::from(factor))).or_default().push(op.0);
        }
        let factors = numbers.into_iter().map(|(name, ops)| (name, fold(ops))).collect();
        SplitPart { slices: split.slices, factors }
    };
    recipe.splits.iter().map(part).collect()
}

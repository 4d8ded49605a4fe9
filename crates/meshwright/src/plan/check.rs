//! What comes of a plan, found from the program that devices run and from nothing that the search believed.

use super::recipe::Recipe;
use super::search::Runs;
use crate::cluster::Cluster;
use crate::lower::{LocalProgram, Movement, Price};
use crate::pipeline::{Pipelined, Stored};
use crate::profile::profile;
use crate::program::Program;
use crate::shard::{Layout, Mesh, Sharding};
use crate::simulate::{Engine, Prepared, Runner, Timeline, movement_seconds, simulate};

/// A plan that holds what plans promise.
#[derive(Clone, Debug)]
pub struct Checked {
    pub runs: Runs,
    pub timeline: Timeline,
    pub step_seconds: f64,
    /// With what the engine takes for itself.
    pub peak_bytes: u64,
}

/// Lowers and simulates a plan, and says all that is wrong with it: what the devices run is no program, state does not
/// come out as it went in, parts are of different sizes, or there is too much in memory.
pub fn check(
    program: &Program,
    recipe: &Recipe,
    cluster: &Cluster,
    engine: &Engine,
    limit_bytes: u64,
) -> Result<Checked, Vec<String>> {
    let (planned, there) = (recipe.devices(), cluster.devices());
    if planned != there {
        return Err(vec![format!("the mesh has {planned} devices, `{}` has {there}", cluster.name)]);
    }
    let runner = Runner { cluster, device: cluster.device(0), engine };
    let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
    if recipe.staging.is_some() {
        return check_stages(program, recipe, runner, &price, limit_bytes);
    }
    let (local, classes) = recipe.lower(program, &price).map_err(|reason| vec![reason])?;
    let mut faults = Vec::new();
    if let Err(error) = local.program.verify() {
        return Err(vec![format!("what devices run is no program: {error}")]);
    }
    check_state(program, &local, &mut faults);
    check_parts(program, recipe, &local, &mut faults);
    let prepared = Prepared::whole(&local, &classes, engine);
    let timeline = simulate(&prepared, cluster, engine);
    let peak_bytes = timeline.stages.iter().map(|stage| stage.memory.peak_bytes).max().unwrap_or(0) as u64;
    let counted = peak_bytes.max(own_bytes(program, &local, engine));
    if counted > limit_bytes {
        faults.push(format!("{counted} bytes are in memory at the peak, {limit_bytes} may be"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let runs = Runs::One(Box::new(local));
    Ok(Checked { step_seconds: timeline.step_seconds, runs, timeline, peak_bytes })
}

/// The same for a plan with stages, each of which has devices of its own.
fn check_stages(
    program: &Program,
    recipe: &Recipe,
    runner: Runner<'_>,
    price: Price<'_>,
    limit_bytes: u64,
) -> Result<Checked, Vec<String>> {
    let found = recipe.pipeline_on(&Layout::new(program, Mesh::default()), price).map_err(|reason| vec![reason])?;
    let Pipelined { pipeline, modules, anatomy, .. } = found;
    let mut faults = Vec::new();
    for (number, piece) in pipeline.pieces.iter().enumerate() {
        if let Err(error) = piece.program.verify() {
            return Err(vec![format!("{} is no program: {error}", pipeline.piece_name(number))]);
        }
    }
    for (argument, next) in program.anatomy().next.iter().enumerate() {
        let Some(result) = *next else { continue };
        // Where several stages hold it, each makes its own next value.
        let lies = |copies: &[Stored]| {
            let stage = |copy: &Stored| pipeline.buffers[copy.buffer].stage;
            let mut lies: Vec<(usize, Sharding)> =
                copies.iter().map(|copy| (stage(copy), copy.sharding.clone())).collect();
            lies.sort_by_key(|(stage, _)| *stage);
            lies
        };
        let after = lies(&pipeline.results[result]);
        let before = lies(&pipeline.arguments[argument]);
        if after.iter().any(|stored| !before.contains(stored)) {
            let name = &program.arguments[argument].name;
            faults.push(format!("the next value of `{name}` does not lie as it does on all stages that hold it"));
        }
    }
    let prepared = Prepared::new(pipeline.clone(), &anatomy.classes, runner.engine);
    let timeline = simulate(&prepared, runner.cluster, runner.engine);
    let mut peak_bytes = 0;
    for (number, stage) in timeline.stages.iter().enumerate() {
        let bytes = stage.memory.peak_bytes as u64;
        let most = device_limit(runner.cluster, pipeline.devices_of(number).start, limit_bytes);
        if bytes > most {
            faults.push(format!("{bytes} bytes are in memory at the peak of stage {number}, {most} may be"));
        }
        peak_bytes = bytes.max(peak_bytes);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let runs = Runs::Stages { pipeline: Box::new(pipeline), modules };
    Ok(Checked { step_seconds: timeline.step_seconds, runs, timeline, peak_bytes })
}

/// What a device may have in memory. A limit that is what the smallest device has is no limit for larger ones.
pub(super) fn device_limit(cluster: &Cluster, device: usize, limit_bytes: u64) -> u64 {
    let own = cluster.device(device).memory_bytes as u64;
    if limit_bytes == cluster.memory_bytes() as u64 { own } else { limit_bytes }
}

/// What the program takes by itself, counted once more beside the simulation, which leaves results that are no
/// argument's next value to the caller.
fn own_bytes(program: &Program, local: &LocalProgram, engine: &Engine) -> u64 {
    let next = program.anatomy().next;
    let is_given_away = |result: &usize| !next.contains(&Some(*result));
    let results = &local.program.body().results;
    let given_away: usize =
        (0..results.len()).filter(is_given_away).map(|result| local.program.ty(results[result]).bytes()).sum();
    let peak_bytes = profile(&local.program, engine.memory_model).memory.peak_bytes();
    peak_bytes.saturating_sub(given_away) as u64
}

/// What an argument becomes lies as the argument does, or the next step could not begin.
fn check_state(program: &Program, local: &LocalProgram, faults: &mut Vec<String>) {
    let anatomy = program.anatomy();
    for (argument, next) in anatomy.next.iter().enumerate() {
        let Some(result) = *next else { continue };
        let (before, after) = (&local.arguments[argument], &local.results[result]);
        if before != after {
            let (before, after) = (before.describe(&local.mesh), after.describe(&local.mesh));
            let name = &program.arguments[argument].name;
            faults.push(format!("`{name}` lies as {before}, its next value as {after}"));
        }
    }
}

/// Engines store only parts of equal size.
fn check_parts(program: &Program, recipe: &Recipe, local: &LocalProgram, faults: &mut Vec<String>) {
    let mut check = |name: &str, shape: &[usize], mesh: &Mesh, lies: &Sharding| {
        for (dim, &size) in shape.iter().enumerate() {
            if lies.is_padded(mesh, dim, size) {
                let lies = lies.describe(mesh);
                faults.push(format!("`{name}` lies as {lies}, which cuts dimension {dim} of size {size} unevenly"));
            }
        }
    };
    let body = program.body();
    for ((&value, lies), info) in body.arguments.iter().zip(&local.arguments).zip(&program.arguments) {
        check(&info.name, program.shape(value), &local.mesh, lies);
    }
    for ((&value, lies), info) in body.results.iter().zip(&local.results).zip(&program.results) {
        check(&info.name, program.shape(value), &local.mesh, lies);
    }
    for recipe_of_op in &recipe.ops {
        for (&value, lies) in program.ops[recipe_of_op.op].results.iter().zip(&recipe_of_op.results) {
            check(&value.to_string(), program.shape(value), &recipe.mesh, lies);
        }
    }
}

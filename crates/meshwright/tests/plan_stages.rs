//! Plans with stages compute what the program does, and fit.

mod small_steps;

use std::sync::Arc;

use meshwright::cluster::{Cluster, parse, parse_file};
use meshwright::import::import;
use meshwright::interpret::{Options, difference, evaluate, evaluate_pipeline, generate_arguments};
use meshwright::lower::estimate;
use meshwright::pipeline::Instruction;
use meshwright::plan::{Plan, Recipe, Refusal, Request, Runs, StageCount, check as recipe_check, plan_stages};
use meshwright::program::{OpId, Program};
use meshwright::shard::Mesh;

use small_steps::{model, small_engine};

fn planned(program: &Program, cluster: &Cluster, limit_bytes: u64, stages: usize) -> Result<Plan, Refusal> {
    let engine = small_engine();
    let request =
        Request { program, cluster, engine: &engine, limit_bytes, microbatches: None, told: None, mesh: None };
    plan_stages(&request, StageCount::Exactly(stages))
}

/// Plans without a limit, and with a share of what that takes; every plan is run on all devices and compared with the
/// whole step, and its recipe alone leads to the same.
#[track_caller]
fn check(name: &str, settings: &str, cluster: &str, stages: usize, share: Option<f64>) {
    let program = model(name, settings);
    let is_file = cluster.contains('\n');
    let cluster = if is_file { parse_file(cluster).ok() } else { parse(cluster).ok() }.expect("a cluster");
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let free = planned(&program, &cluster, u64::MAX >> 8, stages).expect("a plan without a limit");
    let limit = share.map(|share| (free.peak_bytes as f64 * share) as u64);
    let mut plans = vec![free];
    plans.extend(limit.map(|limit| planned(&program, &cluster, limit, stages).expect("a plan with a limit")));
    for (plan, limit) in plans.iter().zip([None, limit]) {
        let Runs::Stages { pipeline, .. } = &plan.runs else { panic!("{name}: one stage") };
        assert_eq!(pipeline.stages.len(), stages);
        assert!(limit.is_none_or(|limit| plan.peak_bytes <= limit), "{name}: {} bytes", plan.peak_bytes);
        assert!(plan.lower_bound_seconds <= plan.timeline.step_seconds, "{name}");
        let found = evaluate_pipeline(pipeline, &arguments, Options { wide: true });
        let found = found.unwrap_or_else(|error| panic!("{name} on {}: {error:?}", plan.mesh));
        let apart = difference(&whole, &found);
        assert!(apart.relative < 1e-9, "{name} in {stages} stages of {}: {apart:?}", plan.mesh);
        let checked = recipe_check(&program, &plan.recipe, &cluster, &small_engine(), plan.peak_bytes);
        let checked = checked.unwrap_or_else(|faults| panic!("{name} on {}: {faults:?}", plan.mesh));
        assert_eq!((checked.step_seconds, checked.peak_bytes), (plan.timeline.step_seconds, plan.peak_bytes));
        let tight = recipe_check(&program, &plan.recipe, &cluster, &small_engine(), plan.peak_bytes - 1);
        assert!(tight.is_err_and(|faults| faults[0].contains("at the peak")), "{name}");
    }
}

/// Takes axes of the mesh from some stages of a plan: what they cut is whole there, and all else as it was.
#[track_caller]
fn check_lacking(name: &str, settings: &str, cluster: &str, stages: usize) {
    let program = model(name, settings);
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let plan = planned(&program, &parse(cluster).expect("a cluster"), u64::MAX >> 8, stages).expect("a plan");
    let axes = plan.recipe.mesh.axes.len();
    for turn in 0..axes * stages {
        let mut recipe = plan.recipe.clone();
        let staging = recipe.staging.as_mut().expect("stages");
        staging.lacks.resize(stages, Vec::new());
        // Of one stage an axis, and every other time of the first stage all.
        staging.lacks[turn / axes].push(turn % axes);
        if turn % 2 == 1 {
            staging.lacks[0] = (0..axes).collect();
        }
        let pipeline = recipe.pipeline(&program, &estimate).expect("stages").pipeline;
        assert_eq!(recipe.devices(), pipeline.devices());
        let found = evaluate_pipeline(&pipeline, &arguments, Options { wide: true });
        let found = found.unwrap_or_else(|error| panic!("{name} on {:?}: {error:?}", staging_meshes(&recipe)));
        let apart = difference(&whole, &found);
        assert!(apart.relative < 1e-9, "{name} on {:?}: {apart:?}", staging_meshes(&recipe));
    }
}

fn staging_meshes(recipe: &Recipe) -> Vec<String> {
    let staging = recipe.staging.as_ref().expect("stages");
    staging.meshes(&recipe.mesh).iter().map(Mesh::to_string).collect()
}

#[test]
fn stages_that_lack_axes_compute_the_same() {
    let small = "layers=2 hidden=32 heads=4 vocab=64 seq=16 batch=16";
    check_lacking("gpt2", small, "8xa100-80g", 2);
    check_lacking("gpt2", &format!("{small} layers=4"), "4x4xv100-16g", 4);
    let experts = format!("{small} experts=4 expert_group=16");
    check_lacking("moe-380m", &experts, "2x4xh100", 2);
    check_lacking("resnet-18", "batch=16 norm_group=2 image=32 channels=4 classes=8", "2x2xh100", 2);
    check_lacking("unet", "batch=4 image=16 channels=32", "8xh100", 4);
}

/// A gradient that one stage finishes, since it alone has what that is made of, and that another updates with.
const FINISHED_ELSEWHERE: &str = include_str!("../../../tests/pipeline/a_gradient_that_another_stage_finishes.mlir");

#[test]
fn a_gradient_is_sent_in_the_form_in_which_it_is_given_back() {
    let program = import(&Arc::from(FINISHED_ELSEWHERE)).program.expect("a program");
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let cluster = parse("4xh100").expect("a cluster");
    let free = planned(&program, &cluster, u64::MAX >> 8, 2).expect("a plan");
    // Where memory is short, parameters and their gradients are cut.
    let cut = planned(&program, &cluster, free.peak_bytes * 4 / 5, 2).expect("a plan with a limit");
    let of_second = |op: &&OpId| program.locations[program.ops[**op].location].scope.contains("layers.1");
    let start = *program.body().ops.iter().find(of_second).expect("a second layer");
    for (plan, lacking) in
        [&free, &cut].into_iter().flat_map(|plan| [None, Some(0), Some(1)].map(|stage| (plan, stage)))
    {
        let mut recipe = plan.recipe.clone();
        let staging = recipe.staging.as_mut().expect("stages");
        staging.starts = vec![start];
        staging.lacks = vec![Vec::new(); 2];
        lacking.into_iter().for_each(|stage: usize| staging.lacks[stage].push(0));
        let pipeline = recipe.pipeline(&program, &estimate).expect("stages").pipeline;
        let found = evaluate_pipeline(&pipeline, &arguments, Options { wide: true }).expect("results");
        let apart = difference(&whole, &found);
        assert!(apart.relative < 1e-9, "{apart:?} on {:?}", staging_meshes(&recipe));
        let gradient = pipeline.results.last().expect("the gradient")[0].buffer;
        let is_sent = |instruction: &Instruction| matches!(instruction, Instruction::Send { buffer, microbatch: None, .. } if *buffer == gradient);
        assert!(pipeline.stages[1].iter().any(is_sent), "on {:?}\n{pipeline}", staging_meshes(&recipe));
    }
}

#[test]
fn stages_of_gpt_compute_what_it_does() {
    let small = "layers=4 hidden=32 heads=4 vocab=64 seq=16 batch=16";
    check("gpt2", small, "8xa100-80g", 2, Some(0.85));
    check("gpt2", small, "2x4xv100-16g", 4, Some(0.9));
}

#[test]
fn stages_of_different_sizes_compute_what_one_device_does() {
    let small = "layers=4 hidden=32 heads=4 vocab=64 seq=16 batch=16";
    // Two stages of three nodes, or of four devices and eight, have different sizes or none.
    check("gpt2", small, "3x2xv100-16g", 2, Some(0.9));
    let mixed = "name = \"mixed\"\n[[nodes]]\nbase = \"2xa100-40g\"\n[[nodes]]\nbase = \"4xv100-16g\"\n";
    check("gpt2", small, mixed, 2, None);
    check("resnet-18", "batch=16 norm_group=2 image=32 channels=4 classes=8", "3x1xh100", 2, None);
}

#[test]
fn stages_of_experts_compute_what_they_do() {
    let small = "layers=4 hidden=32 heads=4 experts=4 vocab=64 seq=16 batch=16 expert_group=16";
    check("moe-380m", small, "8xh100", 2, Some(0.9));
}

#[test]
fn stages_of_convolutions_compute_what_they_do() {
    check("resnet-18", "batch=8 image=32 channels=8 classes=16", "4xh100", 2, None);
    check("resnet-18", "batch=16 norm_group=2 image=32 channels=4 classes=8", "4xh100", 2, None);
    check("unet", "batch=4 image=16 channels=32", "4xh100", 2, None);
}

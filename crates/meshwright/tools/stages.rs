//! Plans with stages, beside what they are measured against:
//!
//! ```text
//! cargo run --release -p meshwright --example stages -- [--grid] [--only NAME]
//! cargo run --release -p meshwright --example stages -- --one MODEL CLUSTER N|auto [KEY=VALUE]...
//! cargo run --release -p meshwright --example stages -- --large
//! cargo run --release -p meshwright --example stages -- --mixed
//! ```
//!
//! A table of Alpa's ladders: our plan, the plan that Alpa published, and with `--grid` the best of the grid of Megatron,
//! all simulated, and throughput beside what Alpa measured. `--one` shows one model, `--large` models on thousands of
//! devices beside the configurations that Megatron published, `--mixed` devices of two kinds.

#![expect(clippy::print_stdout, reason = "a tool tells its findings")]

use std::error::Error;
use std::time::Instant;

use meshwright::cluster::{Cluster, parse, parse_file};
use meshwright::models::Model;
use meshwright::plan::{Plan, Refusal, Request, StageCount, plan_stages};
use meshwright::program::{Program, expand_batch_norm};
use meshwright::simulate::{Engine, engine, model_flops, peak_flops_per_second};

#[path = "../tests/peers/mod.rs"]
#[expect(dead_code, reason = "another tool asks for the other peers")]
mod peers;

use peers::grid::{Choice, REMATS, STATES, Setting};
use peers::ladders::{Point, RUNGS, Rung, Tried, best_of_grid, best_published};

const GIB: f64 = (1_u64 << 30) as f64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let engine = engine("xla").ok_or("there is no engine `xla`")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["--one", model, cluster, count, settings @ ..] => one(model, cluster, count, settings, engine),
        ["--large"] => large(engine),
        ["--mixed"] => mixed(engine),
        ["--grid", "--only", name] => ladders(name, true, engine),
        ["--only", name] => ladders(name, false, engine),
        ["--grid"] => ladders("", true, engine),
        [] => ladders("", false, engine),
        _ => Err("see the head of tools/stages.rs for what can be asked".into()),
    }
}

fn build(model: &str, settings: &[&str]) -> Result<Program, Box<dyn Error>> {
    let mut built = Model::preset(model).ok_or_else(|| format!("there is no preset `{model}`"))?;
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("`{setting}` is no `key=value`"))?;
        built.set(key, value)?;
    }
    Ok(built.build()?)
}

fn find(program: &Program, cluster: &Cluster, engine: &Engine, count: StageCount) -> Result<(Plan, f64), String> {
    let started = Instant::now();
    let planned = expand_batch_norm(&program.unroll()?).into_owned();
    let limit_bytes = cluster.memory_bytes() as u64;
    let request =
        Request { program: &planned, cluster, engine, limit_bytes, microbatches: None, told: None, mesh: None };
    let found = plan_stages(&request, count).map_err(|refusal| match refusal {
        Refusal::Unplannable(reason) => reason,
        Refusal::TooLarge(large) => format!("{:.2} GiB are missing", large.missing_bytes as f64 / GIB),
    });
    found.map(|plan| (plan, started.elapsed().as_secs_f64()))
}

fn one(model: &str, cluster: &str, count: &str, settings: &[&str], engine: &Engine) -> Result<(), Box<dyn Error>> {
    let program = build(model, settings)?;
    let cluster = parse(cluster).map_err(|error| error.message)?;
    let count = if count == "auto" { StageCount::Any } else { StageCount::Exactly(count.parse()?) };
    let (plan, seconds) = find(&program, &cluster, engine, count)?;
    println!("{}, found in {seconds:.2} s", describe(&plan));
    for other in plan.alternatives.iter().skip(1) {
        let (step, peak) = (other.step_seconds, other.peak_bytes as f64 / GIB);
        println!("   {step:>9.3} s {peak:>7.2} GiB {:>3} stages of {}", other.stages, other.mesh);
    }
    for (number, stage) in plan.timeline.stages.iter().enumerate() {
        println!(
            "   stage {number}: computes {:.3} s, waits {:.3} s, idle {:.3} s, {:.2} GiB, {}",
            stage.compute_seconds,
            stage.exposed_seconds,
            stage.bubble_seconds,
            stage.memory.peak_bytes as f64 / GIB,
            plan.runs.modules().get(number).map_or("", String::as_str)
        );
    }
    Ok(())
}

fn describe(plan: &Plan) -> String {
    let schedule = plan.recipe.staging.as_ref().map_or("", |staging| staging.schedule.name());
    let stages = plan.timeline.stages.len();
    let (step, peak) = (plan.timeline.step_seconds, plan.peak_bytes as f64 / GIB);
    let meshes = plan.recipe.staging.as_ref().map_or_else(Vec::new, |staging| staging.meshes(&plan.recipe.mesh));
    let is_even = meshes.iter().all(|mesh| *mesh == plan.recipe.mesh);
    let sizes: Vec<String> = meshes.iter().map(|mesh| mesh.devices().to_string()).collect();
    let sizes = if is_even { String::new() } else { format!(" with {} devices", sizes.join(", ")) };
    format!("{step:.3} s, {peak:.2} GiB, {stages} stages {schedule} of {}{sizes}", plan.mesh)
}

fn told(tried: Option<&Tried>) -> String {
    tried.map_or_else(|| "-".to_owned(), |tried| format!("{:.3} s", tried.seconds))
}

fn ladders(name: &str, has_grid: bool, engine: &Engine) -> Result<(), Box<dyn Error>> {
    println!(
        "{:<14}{:>8}{:>11}{:>9}{:>11}{:>11}{:>9}{:>10}  plan",
        "model", "devices", "planned", "in", "published", "grid", "PFLOPS", "measured"
    );
    for rung in RUNGS.iter().filter(|rung| rung.model.contains(name)) {
        let (program, cluster) = (build(rung.model, rung.settings())?, rung.cluster()?);
        let setting = Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() };
        let found = find(&program, &cluster, engine, StageCount::Any);
        let published = rung.published.and_then(|published| best_published(&program, setting, published));
        let grid = if has_grid { best_of_grid(&program, setting, batch(rung)) } else { None };
        let flops = model_flops(&program, &program.anatomy()).flops;
        let (planned, seconds, rate, plan) = match &found {
            Ok((plan, seconds)) => {
                let step = plan.timeline.step_seconds;
                (
                    format!("{step:.3} s"),
                    format!("{seconds:.1} s"),
                    format!("{:.3}", flops / step / 1e15),
                    describe(plan),
                )
            }
            Err(reason) => ("-".to_owned(), String::new(), String::new(), reason.clone()),
        };
        println!(
            "{:<14}{:>8}{planned:>11}{seconds:>9}{:>11}{:>11}{rate:>9}{:>10}  {plan}",
            rung.model,
            cluster.devices(),
            told(published.as_ref()),
            told(grid.as_ref()),
            rung.measured.map_or_else(|| "-".to_owned(), |measured| format!("{measured:.3}")),
        );
        for tried in [published, grid].into_iter().flatten() {
            println!("{:>22}{:.3} s  {}", "", tried.seconds, tried.point.describe());
        }
    }
    Ok(())
}

/// Samples in a step, as the presets have it.
fn batch(rung: &Rung) -> usize {
    if rung.model.starts_with("wresnet") { 1536 } else { 1024 }
}

/// What Megatron published for models on thousands of devices (Narayanan and others, 2021, table 1 and section 5.1):
/// tensor parallelism of 8, and as many stages.
fn large(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let rows: [(&str, &str, &[&str], &[usize]); 2] =
        [("gpt-175b", "128x8xa100-80g", &["vocab=51200"], &[8, 16]), ("gpt-1t", "384x8xa100-80g", &[], &[64])];
    for (model, cluster_name, settings, stages) in rows {
        let program = build(model, settings)?;
        let cluster = parse(cluster_name).map_err(|error| error.message)?;
        let flops = model_flops(&program, &program.anatomy());
        let peak = peak_flops_per_second(&cluster, engine, flops.dtype, cluster.devices());
        let mfu = |seconds: f64| 100.0 * flops.flops / seconds / peak;
        let (plan, seconds) = find(&program, &cluster, engine, StageCount::Any)?;
        let step = plan.timeline.step_seconds;
        println!("{model} on {cluster_name}: MFU {:.1}%, {}, found in {seconds:.1} s", mfu(step), describe(&plan));
        let setting = Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() };
        let batch = if model == "gpt-1t" { 3072 } else { 1536 };
        for &stages in stages {
            let data = cluster.devices() / 8 / stages;
            for (chunks, state, remat) in
                [1, 2].into_iter().flat_map(|chunks| [STATES[0], STATES[2]].map(|state| (chunks, state, REMATS[2])))
            {
                let microbatches = batch / data;
                let choice =
                    Choice { data, tensor: 8, microbatches, expert: false, sequence: false, vocab: true, state, remat };
                match (Point { choice, stages, chunks }).try_on(&program, setting) {
                    Ok(tried) => println!(
                        "    MFU {:.1}% {} {}",
                        mfu(tried.seconds),
                        if tried.fits { "fits" } else { "too large" },
                        tried.point.describe()
                    ),
                    Err(reason) => println!("    {reason}"),
                }
            }
        }
    }
    Ok(())
}

/// Four A100 and eight V100 as they are, and as if all were V100.
fn mixed(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let kinds = |first: &str| {
        let text = format!("name = \"mixed\"\n\n[[nodes]]\nbase = \"4x{first}\"\n\n[[nodes]]\nbase = \"8xv100-16g\"\n");
        parse_file(&text).map_err(|error| error.message)
    };
    for (model, settings) in [("gpt-1.3b", &["batch=192"][..]), ("gpt-2.6b", &["batch=192"])] {
        let program = build(model, settings)?;
        for (name, first) in [("4 A100 and 8 V100", "a100-40g"), ("as if all were V100", "v100-16g")] {
            match find(&program, &kinds(first)?, engine, StageCount::Any) {
                Ok((plan, seconds)) => println!("{model} on {name}: {}, found in {seconds:.1} s", describe(&plan)),
                Err(reason) => println!("{model} on {name}: {reason}"),
            }
        }
    }
    Ok(())
}

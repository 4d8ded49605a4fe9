//! `meshwright plan`: the fastest way to run a model on a cluster that fits its memory.

mod apply;
mod file;
mod fingerprint;
mod json;
mod ranges;
#[cfg(test)]
mod round_trip;
mod text;
mod write;

pub(crate) use apply::{AppliedPlan, given, planned_model};
pub(crate) use file::{ArgumentPart, ClassPart, PlanFile, RunnerUpPart};
pub(crate) use ranges::{fold_names, unfold_name};

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use meshwright::cluster::{Cluster, parse_bytes};
use meshwright::plan::{Plan, Refusal, Request, plan};
use meshwright::program::Program;
use meshwright::simulate::{Engine, Prepared};
use meshwright::tactics::Auto;

use crate::cluster;
use crate::error::{Answer, Error, tell};
use crate::model::ModelArguments;
use crate::output::{self, Overwrite};
use crate::schedule::Given;
use crate::simulate::{EngineArguments, Simulation, Step, Summary};
use crate::table::{size, terminal_width};
use write::{Setting, plan_file};

/// Plan how to run a model on a cluster: the fastest way found that fits its memory
///
/// Devices are put into a mesh, and for every operation is chosen how the mesh cuts it, how parameters
/// and the optimizer's state are stored, what is computed again for the backward pass, and in how many
/// microbatches the step runs. What you see is the simulation of the program that devices would run.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Cluster such as `4x8xh100` (see `meshwright clusters`), or a TOML file
    #[arg(long, value_name = "CLUSTER")]
    cluster: PathBuf,
    /// Memory of a device that may be used, such as `14GiB` [default: all of it]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// In how many microbatches a step runs [default: what is fastest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    microbatches: Option<u64>,
    /// TOML file of tactics: what they decide stays, `auto` decides the rest
    #[arg(long, value_name = "FILE")]
    tactics: Option<PathBuf>,
    /// Axes of devices and their sizes, such as `data=2,model=4` [default: what is fastest]
    #[arg(long, value_name = "AXES")]
    mesh: Option<String>,
    #[command(flatten)]
    engine: EngineArguments,
    /// Write the plan to a file, which `explain`, `diff`, `simulate`, `verify` and `partition` read
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright plan gpt-2.6b --cluster 8xa100-80g
  meshwright plan llama3-8b --cluster 2x8xh100 --memory 40GiB -o plan.json
  meshwright plan llama3-8b --cluster 2x8xh100 --tactics mine.toml
  meshwright plan step.mlir --cluster 8xh100 --microbatches 4 --json | jq .step_seconds";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if let Some(path) = &arguments.output {
        output::check(path, arguments.overwrite)?;
    }
    let engine = arguments.engine.engine()?;
    let whole_cluster = cluster::load(&arguments.cluster)?;
    let given = Given::load(arguments.mesh.as_deref(), arguments.tactics.as_deref())?;
    let limit_bytes = limit(arguments, &whole_cluster)?;
    let limit_bytes = given.memory_bytes().map_or(limit_bytes, |bytes| bytes.min(limit_bytes));
    let mut cluster = whole_cluster.clone();
    for nodes in &mut cluster.nodes {
        nodes.device.memory_bytes = nodes.device.memory_bytes.min(limit_bytes as usize);
    }
    let program = planned_model(&arguments.model)?.program;
    let started = Instant::now();
    let microbatches = arguments.microbatches.map(|count| count as usize);
    let all = Auto::default();
    let told = given.told(&all)?;
    let mesh = given.mesh.as_ref();
    let request = Request { program: &program, cluster: &cluster, engine, limit_bytes, microbatches, told, mesh };
    let found = plan(&request);
    let planning_seconds = started.elapsed().as_secs_f64();
    let name = arguments.model.model.display().to_string();
    match found {
        Ok(plan) => {
            let step = step(&program, &plan, engine);
            let simulation = Simulation::new(&step, &cluster, engine);
            let simulated =
                Summary { name, step: &step, simulation: &simulation, notes: Vec::new(), seconds: planning_seconds };
            if let Some(path) = &arguments.output {
                let setting = Setting {
                    model: &simulated.name,
                    settings: arguments.model.settings(),
                    program: &program,
                    cluster: &whole_cluster,
                    engine: engine.name,
                    memory_limit: limit_bytes,
                };
                let text = plan_file(&setting, &plan, simulation.mfu).to_text()?;
                output::write(path, text.as_bytes(), arguments.overwrite)?;
            }
            let report = Report { program: &program, plan: &plan, simulated, limit_bytes, planning_seconds };
            if arguments.json {
                output::print_json(&report.to_json())?;
            } else {
                output::print(report.to_text(terminal_width()).as_bytes())?;
            }
            Ok(Answer::Yes)
        }
        Err(Refusal::Unplannable(message)) => Err(Error::new(message)),
        Err(Refusal::TooLarge { least_bytes }) => {
            if arguments.json {
                output::print_json(&json::refusal(limit_bytes, least_bytes, planning_seconds))?;
            } else {
                output::print(text::refusal(limit_bytes, least_bytes).as_bytes())?;
            }
            Ok(Answer::No)
        }
    }
}

/// What a device may have in memory.
fn limit(arguments: &Arguments, cluster: &Cluster) -> Result<u64, Error> {
    let own = cluster.memory_bytes() as u64;
    let Some(text) = &arguments.memory else { return Ok(own) };
    let refuse = |(message, hint)| Error::new(format!("`--memory`: {message}")).hint(hint);
    let limit_bytes = parse_bytes(text).map_err(refuse)? as u64;
    if limit_bytes > own {
        tell(format_args!("note: a device of `{}` has {}, less than `--memory`", cluster.name, size(own as usize)));
    }
    Ok(limit_bytes.min(own))
}

fn step(program: &Program, plan: &Plan, engine: &Engine) -> Step {
    let prepared = Prepared::whole(plan.local.clone(), &plan.classes, engine);
    Step::of(prepared, program, &program.anatomy(), &[])
}

/// Everything there is to tell.
struct Report<'a> {
    program: &'a Program,
    plan: &'a Plan,
    simulated: Summary<'a>,
    limit_bytes: u64,
    planning_seconds: f64,
}

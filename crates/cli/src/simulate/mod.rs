//! `meshwright simulate`: how long a step takes on a cluster, what for, and whether it fits.

mod step;
mod trace;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use meshwright::cluster::Cluster;
use meshwright::codes::Code;
use meshwright::simulate::{ENGINES, Engine, engine};
use meshwright_report::page::simulation_document;
use meshwright_report::plan::AppliedPlan;
use meshwright_report::simulate::{Simulation, Summary, check_devices};

use crate::cluster;
use crate::error::{Answer, Error, tell};
use crate::model::ModelArguments;
use crate::output::{self, Overwrite};
use crate::page::PageArguments;
use crate::schedule::{LayoutArguments, Schedule};
use crate::table::count;
use crate::terminal::terminal_width;
pub(crate) use step::step;

/// Simulate a step on a cluster: how long it takes, what for, and whether it fits
///
/// The model is laid out by tactics, as one program or in stages, or by a plan, and what every device
/// runs is put in time: kernels, collectives beside them, messages between stages. You see whether it
/// fits, the time of a step and what it goes to, memory at the peak, stages, and the dearest collectives.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Cluster such as `4x8xh100` (see `meshwright clusters`), or a TOML file
    #[arg(long, value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    layout: LayoutArguments,
    #[command(flatten)]
    engine: EngineArguments,
    /// Write what runs when as trace events, which Perfetto and Chrome open
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    page: PageArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// What runs programs.
#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// What runs the program on each device [default: xla]
    #[arg(long, value_name = "ENGINE", value_parser = engine_names())]
    engine: Option<String>,
}

impl EngineArguments {
    pub(crate) fn engine(&self) -> Result<&'static Engine, Error> {
        let name = self.engine.as_deref().unwrap_or("xla");
        engine(name).ok_or_else(|| Error::new(Code::Engine, format!("there is no engine `{name}`")))
    }

    /// The engine that was asked for.
    pub(crate) fn given(&self) -> Result<Option<&'static Engine>, Error> {
        self.engine.is_some().then(|| self.engine()).transpose()
    }
}

fn engine_names() -> PossibleValuesParser {
    PossibleValuesParser::new(ENGINES.iter().map(|engine| engine.name))
}

const AFTER_HELP: &str = "\
Examples:
  meshwright simulate gpt-2.6b --cluster 8xh100 --mesh data=8 --tactics zero.toml
  meshwright simulate llama3-8b --cluster 2x8xa100-80g --mesh data=2,model=4,micro=8@time \\
    --tactics stages.toml --trace trace.json
  meshwright simulate step.mlir --cluster 8xh100 --mesh data=8 --tactics zero.toml --json | jq .mfu
  meshwright simulate gpt-2.6b --cluster 8xh100 --plan plan.json";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let started = Instant::now();
    if let Some(path) = &arguments.trace {
        output::check(path, arguments.overwrite)?;
    }
    arguments.page.check(arguments.overwrite)?;
    let cluster = cluster::load(&arguments.cluster)?;
    let schedule = Schedule::load_layout(&arguments.model, &arguments.layout)?;
    let (engine, other_numbers) = match schedule.plan() {
        Some(plan) => (check_engine(plan, arguments.engine.given()?)?, check_cluster(plan, &cluster)?),
        None => (arguments.engine.engine()?, None),
    };
    let spare = check_devices(schedule.devices(), &cluster)
        .map_err(|(message, hint)| Error::new(Code::TooFewDevices, message).hint(hint))?;
    let step = step(&schedule, engine).map_err(|error| schedule.refuse(&error))?;
    let simulation = Simulation::new(&step, &cluster, engine);
    let summary = Summary {
        name: arguments.model.model.display().to_string(),
        step: &step,
        simulation: &simulation,
        notes: spare.into_iter().chain(other_numbers).chain(step.notes.iter().cloned()).collect(),
        seconds: started.elapsed().as_secs_f64(),
    };
    if let Some(path) = &arguments.trace {
        let (text, left_out) = trace::trace(&step.prepared, &simulation);
        output::write(path, text.as_bytes(), arguments.overwrite)?;
        if left_out > 0 {
            tell(format_args!("note: the trace leaves {} events out", count(left_out)));
        }
    }
    if arguments.json {
        output::print_json(&summary.to_json())?;
    } else {
        output::print(summary.to_text(terminal_width()).as_bytes())?;
    }
    let document = || simulation_document(&summary, schedule.laid_out_by());
    arguments.page.write(arguments.overwrite, document, |width| summary.to_text(width))?;
    Ok(if simulation.fits() { Answer::Yes } else { Answer::No })
}

/// Refuses other devices than a plan is for. Gives what there is to say otherwise.
fn check_cluster(plan: &AppliedPlan, cluster: &Cluster) -> Result<Option<String>, Error> {
    let refuse = |message| {
        Error::new(Code::OtherDevices, message)
            .hint(format!("plan again, or give `--cluster {}`", plan.file().cluster.name))
    };
    plan.check_cluster(cluster).map_err(refuse)
}

/// Refuses another engine than a plan is for.
fn check_engine(plan: &AppliedPlan, given: Option<&Engine>) -> Result<&'static Engine, Error> {
    match given.filter(|given| given.name != plan.engine().name) {
        Some(given) => {
            let (name, planned) = (plan.name(), plan.engine().name);
            let message = format!("`{name}` is a plan for the engine `{planned}`, not `{}`", given.name);
            Err(Error::new(Code::OtherDevices, message).hint("plan again, or leave `--engine` out"))
        }
        None => Ok(plan.engine()),
    }
}

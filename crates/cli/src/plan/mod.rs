//! `meshwright plan`: the fastest way to run a model on a cluster that fits its memory.

mod batch;
mod pareto;
mod refusal;
mod variant;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use clap::Args;
use meshwright::cluster::{Cluster, parse_bytes};
use meshwright::codes::Code;
use meshwright::models::Model;
use meshwright::plan::{Plan, Refusal, Request, StageCount, Told, plan, plan_stages};
use meshwright::program::Program;
use meshwright::simulate::Engine;
use meshwright::tactics::Auto;
use meshwright_report::page::plan_document;
use meshwright_report::plan::{PlanFile, Report, Setting, plan_file, step};
use meshwright_report::problem::Problem;
use meshwright_report::simulate::{Simulation, Summary};
use serde_json::json;

use crate::cluster;
use crate::error::{Answer, Error, tell, tell_hint};
use crate::input::{self, Wanted, is_stdin};
use crate::model::{self, ModelArguments};
use crate::output::{self, Overwrite};
use crate::page::PageArguments;
use crate::schedule::First;
use crate::simulate::EngineArguments;
use crate::table::size;
use crate::terminal::terminal_width;
pub(crate) use batch::reason;
use batch::{BatchSize, Batches};
use pareto::Ladder;
use refusal::Refused;
use variant::Given;
pub(crate) use variant::build;

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
    /// How many stages the model is cut into, or `auto` for what is fastest [default: 1]
    #[arg(long, value_name = "N|auto", conflicts_with_all = ["tactics", "mesh", "pareto"])]
    stages: Option<Stages>,
    /// TOML file of tactics: what they decide stays, `auto` decides the rest
    #[arg(long, value_name = "FILE")]
    tactics: Option<PathBuf>,
    /// Axes of devices and their sizes, such as `data=2,model=4` [default: what is fastest]
    #[arg(long, value_name = "AXES")]
    mesh: Option<String>,
    /// Batch of a preset, or `max` for the one that the most samples a second go through with
    #[arg(long, value_name = "N|max")]
    batch: Option<BatchSize>,
    /// Show time against memory: the fastest plans under a dozen limits
    #[arg(long, conflicts_with = "output")]
    pareto: bool,
    #[command(flatten)]
    engine: EngineArguments,
    /// Write the plan to a file, which `explain`, `diff`, `simulate`, `verify` and `partition` read
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    page: PageArguments,
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
  meshwright plan llama3-8b --cluster 2x8xh100 --html plan.html
  meshwright plan llama3-8b --cluster 2x8xh100 --tactics mine.toml
  meshwright plan gpt-39b --cluster 8x8xv100-16g --stages auto
  meshwright plan gpt-2.6b --cluster 8xa100-80g --batch max
  meshwright plan gpt-2.6b --cluster 8xa100-80g --pareto
  meshwright plan step.mlir --cluster 8xh100 --microbatches 4 --json | jq .step_seconds";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if let Some(path) = &arguments.output {
        output::check(path, arguments.overwrite)?;
    }
    arguments.page.check(arguments.overwrite)?;
    let engine = arguments.engine.engine()?;
    let whole_cluster = cluster::load(&arguments.cluster)?;
    let first = First::load(arguments.mesh.as_deref(), arguments.tactics.as_deref())?;
    let limit_bytes = limit(arguments, &whole_cluster)?;
    let limit_bytes = first.memory_bytes().map_or(limit_bytes, |bytes| bytes.min(limit_bytes));
    let mut cluster = whole_cluster.clone();
    let is_limited = arguments.memory.is_some() || first.memory_bytes().is_some();
    for nodes in cluster.nodes.iter_mut().filter(|_| is_limited) {
        nodes.device.memory_bytes = nodes.device.memory_bytes.min(limit_bytes as usize);
    }
    let all = Auto::default();
    let (told, first) = (first.told(&all)?, &first);
    let asked = Asked { arguments, engine, whole_cluster: &whole_cluster, cluster: &cluster, limit_bytes, told, first };
    match (arguments.batch, arguments.pareto) {
        (Some(BatchSize::Max), true) => {
            Err(Error::new(Code::FlagsExclude, "`--batch max` and `--pareto` cannot be given together")
                .hint("leave one of them out, or give `--batch` a number"))
        }
        (Some(BatchSize::Max), false) => asked.plan_batches(&batch::preset(&arguments.model)?),
        (Some(BatchSize::Samples(samples)), _) => {
            let preset = batch::preset(&arguments.model)?;
            let model = batch::with_batch(&preset, samples).map_err(Error::of(Code::Setting))?;
            let program = build(&model).map_err(Error::of(Code::Setting))?;
            asked.plan_one(&program, Some(&model))
        }
        (None, _) => {
            let program = model::load_planned(&arguments.model)?.program;
            asked.plan_one(&program, model::preset(&arguments.model)?.as_ref())
        }
    }
}

/// How many stages are asked for.
#[derive(Clone, Copy, Debug)]
struct Stages(StageCount);

impl FromStr for Stages {
    type Err = String;

    fn from_str(text: &str) -> Result<Stages, String> {
        let count = text.parse::<usize>().ok().filter(|&count| count > 0).map(StageCount::Exactly);
        let count = if text == "auto" { Some(StageCount::Any) } else { count };
        count.map(Stages).ok_or_else(|| "it has to be a number of at least 1, or `auto`".to_owned())
    }
}

/// What is asked for, whatever the model.
struct Asked<'a> {
    arguments: &'a Arguments,
    engine: &'static Engine,
    whole_cluster: &'a Cluster,
    /// With no more memory than may be used.
    cluster: &'a Cluster,
    limit_bytes: u64,
    told: Option<Told<'a>>,
    first: &'a First,
}

impl Asked<'_> {
    fn request<'r>(&'r self, program: &'r Program) -> Request<'r> {
        let microbatches = self.arguments.microbatches.map(|count| count as usize);
        let Asked { engine, cluster, limit_bytes, told, .. } = *self;
        let mesh = self.first.mesh.as_ref();
        Request { program, cluster, engine, limit_bytes, microbatches, told, mesh }
    }

    /// The fastest plan, in stages where these are asked for.
    fn find(&self, request: &Request<'_>) -> Result<Plan, Refusal> {
        match self.arguments.stages {
            None => plan(request),
            Some(Stages(count)) => plan_stages(request, count),
        }
    }

    /// Plans a program, once or under many limits.
    fn plan_one(&self, program: &Program, preset: Option<&Model>) -> Result<Answer, Error> {
        let started = Instant::now();
        // What cannot be is refused before planning.
        self.first.check_tiles(program)?;
        let request = self.request(program);
        let found = if self.arguments.pareto {
            Ladder::new(&request).map(|ladder| self.show_ladder(&ladder))
        } else {
            self.find(&request).map(|plan| self.show(program, &plan, None, started.elapsed().as_secs_f64()))
        };
        found.unwrap_or_else(|refusal| {
            let batch_flag = if self.arguments.batch.is_some() { "--batch " } else { "--set batch=" };
            let given = Given { program, cluster: self.cluster, preset, batch_flag };
            let planning_seconds = started.elapsed().as_secs_f64();
            Refused { request, given, planning_seconds }.tell(refusal, self.arguments.json)
        })
    }

    /// Plans for batches, and shows the plan of the best.
    fn plan_batches(&self, preset: &Model) -> Result<Answer, Error> {
        let started = Instant::now();
        let first = build(preset).map_err(Error::of(Code::Setting))?;
        let batches = batch::search(preset, &self.request(&first));
        let Some(best) = &batches.best else {
            // Why not even the smallest fits, and what would help.
            let smallest = batches.tried.first().map_or(1, |tried| tried.batch);
            let model = batch::with_batch(preset, smallest).map_err(Error::of(Code::Setting))?;
            return self.plan_one(&build(&model).map_err(Error::of(Code::Setting))?, Some(&model));
        };
        self.show(&best.program, &best.plan, Some(&batches), started.elapsed().as_secs_f64())
    }

    fn show(
        &self,
        program: &Program,
        plan: &Plan,
        batches: Option<&Batches>,
        planning_seconds: f64,
    ) -> Result<Answer, Error> {
        let step = step(program, plan, self.engine);
        let simulation = Simulation::new(&step, self.cluster, self.engine);
        let name = self.arguments.model.model.display().to_string();
        let simulated =
            Summary { name, step: &step, simulation: &simulation, notes: Vec::new(), seconds: planning_seconds };
        let file = self.file(program, plan, batches, simulation.mfu);
        if let Some(path) = &self.arguments.output {
            let text = file.to_text().map_err(Error::of(Code::PlanFile))?;
            output::write(path, text.as_bytes(), self.arguments.overwrite)?;
        }
        let report = Report { program, plan, simulated, limit_bytes: self.limit_bytes, planning_seconds };
        let to_json = || {
            let mut object = report.to_json();
            if let Some(batches) = batches {
                object["batch"] = json!(batches.best.as_ref().map(|best| best.batch));
                object["batches"] = batches.to_json();
            }
            object
        };
        let to_text = |width: usize| {
            batches.map(|batches| batches.to_text(width) + "\n").unwrap_or_default() + &report.to_text(width)
        };
        if self.arguments.json {
            output::print_json(&to_json())?;
        } else {
            output::print(to_text(terminal_width()).as_bytes())?;
            report.hints().iter().for_each(|hint| tell_hint(hint));
        }
        let document = || plan_document(&report, &file, to_json());
        self.arguments.page.write(self.arguments.overwrite, document, to_text)?;
        Ok(Answer::Yes)
    }

    /// The plan as a file, with the batch among the settings of its model.
    fn file(&self, program: &Program, plan: &Plan, batches: Option<&Batches>, mfu: f64) -> PlanFile {
        let best = batches.and_then(|batches| batches.best.as_ref()).map(|best| best.batch);
        let batch = match self.arguments.batch {
            Some(BatchSize::Samples(samples)) => Some(samples),
            Some(BatchSize::Max) | None => best,
        };
        let batch = batch.map(|batch| format!("batch={batch}"));
        let settings: Vec<String> = self.arguments.model.settings().iter().cloned().chain(batch).collect();
        let setting = Setting {
            model: &self.arguments.model.model.display().to_string(),
            settings: &settings,
            program,
            cluster: self.whole_cluster,
            engine: self.engine.name,
            memory_limit: self.limit_bytes,
        };
        plan_file(&setting, plan, mfu)
    }

    fn show_ladder(&self, ladder: &Ladder) -> Result<Answer, Error> {
        if self.arguments.json {
            output::print_json(&ladder.to_json())?;
        } else {
            output::print(ladder.to_text(terminal_width()).as_bytes())?;
        }
        let name = self.arguments.model.model.display().to_string();
        let document = || ladder.to_document(&name, &self.cluster.name);
        self.arguments.page.write(self.arguments.overwrite, document, |width| ladder.to_text(width))?;
        Ok(Answer::Yes)
    }
}

/// What a device may have in memory.
fn limit(arguments: &Arguments, cluster: &Cluster) -> Result<u64, Error> {
    let own = cluster.memory_bytes() as u64;
    let Some(text) = &arguments.memory else { return Ok(own) };
    let refuse = |(message, hint)| Error::new(Code::Amount, format!("`--memory`: {message}")).hint(hint);
    let limit_bytes = parse_bytes(text).map_err(refuse)? as u64;
    if limit_bytes > own {
        tell(format_args!("note: a device of `{}` has {}, less than `--memory`", cluster.name, size(own as usize)));
    }
    Ok(limit_bytes.min(own))
}

/// Reads the file of a plan.
pub(crate) fn read_plan(path: &Path) -> Result<PlanFile, Error> {
    let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    let bytes = input::read(path, Wanted { kind: "plan", names: &[] })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::new(Code::Unreadable, format!("`{name}` is not valid UTF-8")).hint("save the file as UTF-8")
    })?;
    PlanFile::parse(&text).map_err(|Problem { code, message, hint }| {
        Error::new(code, format!("cannot read the plan `{name}`: {message}")).maybe_hint(hint)
    })
}

//! `meshwright sweep`: a step on many clusters and at many sizes.

mod planned;
mod vary;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use meshwright::cluster::Cluster;
use meshwright::codes::Code;
use meshwright::models::Model as BuiltIn;
use meshwright::shard::{Axis, Mesh};
use meshwright::simulate::Engine;
use meshwright_report::page::{Document, SweptRow, sweep_document};
use meshwright_report::simulate::{Simulation, Step, check_devices, rate};
use planned::plan_rows;
use serde_json::{Map, Value, json};
use vary::{Choice, Key, combinations};

use crate::cluster;
use crate::error::{Answer, Error};
use crate::model::{self, Model, ModelArguments};
use crate::output::{self, Overwrite};
use crate::page::PageArguments;
use crate::schedule::{Schedule, ScheduleArguments};
use crate::simulate::{EngineArguments, step};
use crate::table::{Table, count, duration, paragraph, share, size};
use crate::terminal::terminal_width;

/// Plan or simulate a step for every combination of memory, batch, devices and bandwidth
///
/// A row for each combination, in the order in which the values are given, the last key fastest. Each is
/// planned for itself, as `meshwright plan` does; with `--mesh` and `--tactics`, all are laid out alike
/// and simulated. What cannot be laid out gets its reason in its row.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Cluster such as `4x8xh100` (see `meshwright clusters`), or a TOML file
    #[arg(long, value_name = "CLUSTER")]
    cluster: PathBuf,
    /// Axes of the mesh and their sizes, such as `data=2,model=4` [default: planned]
    #[arg(long, value_name = "AXES", requires = "tactics")]
    mesh: Option<String>,
    /// TOML file of tactics, or `-` for standard input [default: planned]
    #[arg(long, value_name = "FILE", requires = "mesh")]
    tactics: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArguments,
    /// Values to go through: `memory=40GiB,80GiB` of a device, `batch=256,512` of a preset,
    /// `devices=8,16` with the nodes of the cluster and the first axis of the mesh, `bandwidth=0.5,1,2`
    /// times that of all links; may be given for each
    #[arg(long, value_name = "KEY=LIST", required = true)]
    vary: Vec<String>,
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
  meshwright sweep gpt-2.6b --cluster 8xa100-80g --vary memory=20GiB,40GiB,80GiB --vary batch=64,256
  meshwright sweep gpt-2.6b --cluster 8xh100 --mesh data=8 --tactics zero.toml \\
    --vary batch=64,128,256 --vary memory=40GiB,80GiB
  meshwright sweep llama3-8b --cluster 8xh100 --mesh data=8 --tactics zero.toml --vary devices=8,16,32";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let started = Instant::now();
    arguments.page.check(arguments.overwrite)?;
    let combinations = combinations(&arguments.vary)?;
    let engine = arguments.engine.engine()?;
    let cluster = cluster::load(&arguments.cluster)?;
    check(arguments, &cluster, &combinations[0])?;
    let preset = model::preset(&arguments.model)?;
    let title = format!("{} on {}", arguments.model.model.display(), cluster.name);
    let rows: Vec<Row> = match (&arguments.mesh, &arguments.tactics) {
        (Some(mesh), Some(tactics)) => {
            let schedule = ScheduleArguments { mesh: mesh.clone(), tactics: tactics.clone() };
            let schedule = Schedule::load(&arguments.model, &schedule)?;
            let mesh = schedule.mesh.clone();
            let mut sweep = Sweep { preset, engine, cluster, mesh, schedule, laid_out: Vec::new() };
            combinations.into_iter().map(|choices| sweep.row(choices)).collect()
        }
        _ => {
            let model = model::load_one(&arguments.model)?;
            plan_rows(preset.as_ref(), &model.program, &cluster, engine, combinations)
        }
    };
    let runs: Vec<Value> = rows.iter().map(Row::to_json).collect();
    let object = json!({ "runs": runs, "seconds": started.elapsed().as_secs_f64() });
    let document = to_document(title, &rows, object.clone());
    let to_text = |width| paragraph(document.verdict(), "", "  ", width) + "\n" + &to_text(&rows, width);
    if arguments.json {
        output::print_json(&object)?;
    } else {
        output::print(to_text(terminal_width()).as_bytes())?;
    }
    arguments.page.write(arguments.overwrite, || &document, to_text)?;
    Ok(Answer::Yes)
}

/// Refuses what can be changed in no combination. All have the same keys.
fn check(arguments: &Arguments, cluster: &Cluster, choices: &[Choice]) -> Result<(), Error> {
    let varies = |key: Key| choices.iter().any(|choice| choice.key == key);
    if varies(Key::Batch) && model::preset(&arguments.model)?.is_none() {
        let name = arguments.model.model.display();
        return Err(Error::new(Code::Vary, format!("`{name}` is a file, whose batch is what it is"))
            .hint("`--vary batch=…` changes a preset; `meshwright models` lists them"));
    }
    if varies(Key::Devices) && cluster.nodes.len() != 1 {
        return Err(Error::new(Code::Cluster, format!("`{}` has nodes that differ", cluster.name))
            .hint("`--vary devices=…` changes how many nodes there are of one kind"));
    }
    Ok(())
}

struct Sweep {
    /// The model, where its batch can be changed.
    preset: Option<BuiltIn>,
    engine: &'static Engine,
    /// What is given; both change from row to row.
    cluster: Cluster,
    mesh: Mesh,
    /// The model and the mesh that were laid out last.
    schedule: Schedule,
    laid_out: Vec<LaidOut>,
}

/// A model laid out, or why it could not be.
struct LaidOut {
    batch: Option<usize>,
    mesh: String,
    step: Result<Step, String>,
}

/// A combination, and what becomes of it.
struct Row {
    choices: Vec<Choice>,
    outcome: Result<Outcome, Unfit>,
}

/// Why there is nothing to simulate.
#[derive(Clone, Debug)]
struct Unfit {
    reason: String,
    /// What the smallest plan takes, where that is the reason.
    least_bytes: Option<u64>,
}

struct Outcome {
    /// Where each row has its own.
    mesh: Option<Mesh>,
    step_seconds: f64,
    throughput: Option<(f64, &'static str)>,
    mfu: f64,
    peak_bytes: usize,
    memory_limit: usize,
    fits: bool,
}

impl Sweep {
    fn row(&mut self, choices: Vec<Choice>) -> Row {
        let outcome = self.outcome(&choices).map_err(|reason| Unfit { reason, least_bytes: None });
        Row { choices, outcome }
    }

    fn outcome(&mut self, choices: &[Choice]) -> Result<Outcome, String> {
        let value = |key: Key| choices.iter().find(|choice| choice.key == key).map(|choice| choice.value);
        let whole = |key: Key| value(key).map(|number| number as usize);
        let cluster = changed(&self.cluster, whole(Key::Memory), whole(Key::Devices), value(Key::Bandwidth));
        let stages = self.schedule.stage_count();
        let (mesh, devices) = match whole(Key::Devices) {
            Some(devices) => (scaled(&self.mesh, devices, stages)?, devices),
            None => (self.mesh.clone(), self.schedule.devices()),
        };
        check_devices(devices, &cluster).map_err(|(reason, _)| reason)?;
        let engine = self.engine;
        let simulation = Simulation::new(self.step(whole(Key::Batch), mesh)?, &cluster, engine);
        Ok(Outcome::new(&simulation, None))
    }

    /// The model laid out, once for all combinations that differ in the cluster alone.
    fn step(&mut self, batch: Option<usize>, mesh: Mesh) -> Result<&Step, String> {
        let name = mesh.to_string();
        let known = self.laid_out.iter().position(|known| known.batch == batch && known.mesh == name);
        let number = known.unwrap_or_else(|| {
            let step = self.lay_out(batch, mesh);
            self.laid_out.push(LaidOut { batch, mesh: name, step });
            self.laid_out.len() - 1
        });
        self.laid_out[number].step.as_ref().map_err(Clone::clone)
    }

    fn lay_out(&mut self, batch: Option<usize>, mesh: Mesh) -> Result<Step, String> {
        if let (Some(batch), Some(preset)) = (batch, &mut self.preset) {
            preset.set("batch", &batch.to_string())?;
            self.schedule.model = Model { program: preset.build()?, warnings: Vec::new() };
        }
        self.schedule.mesh = mesh;
        step(&self.schedule, self.engine).map_err(|error| format!("{}: {}", error.tactic, error.message))
    }
}

impl Outcome {
    fn new(simulation: &Simulation<'_>, mesh: Option<Mesh>) -> Outcome {
        Outcome {
            mesh,
            step_seconds: simulation.timeline.step_seconds,
            throughput: simulation.throughput(),
            mfu: simulation.mfu,
            peak_bytes: simulation.memory().peak_bytes,
            memory_limit: simulation.memory_limit(),
            fits: simulation.fits(),
        }
    }
}

/// The cluster with devices of another memory, as many nodes as so many devices take, and links so much faster.
fn changed(cluster: &Cluster, memory: Option<usize>, devices: Option<usize>, bandwidth: Option<f64>) -> Cluster {
    let mut cluster = cluster.clone();
    for nodes in &mut cluster.nodes {
        nodes.device.memory_bytes = memory.unwrap_or(nodes.device.memory_bytes);
        nodes.count = devices.map_or(nodes.count, |devices| devices.div_ceil(nodes.devices.max(1)));
        nodes.link.bytes_per_second *= bandwidth.unwrap_or(1.0);
    }
    cluster.network.bytes_per_second *= bandwidth.unwrap_or(1.0);
    cluster
}

/// The mesh with its first axis of devices so long that all stages have so many devices together.
fn scaled(mesh: &Mesh, devices: usize, stages: usize) -> Result<Mesh, String> {
    let Some(first) = mesh.axes.iter().position(|axis| !axis.temporal) else {
        return Err("the mesh has no axis of devices".to_owned());
    };
    let rest = mesh.devices() / mesh.axes[first].size * stages;
    if devices == 0 || !devices.is_multiple_of(rest) {
        return Err(format!(
            "not a multiple of {}, the devices along all but `{}`",
            count(rest),
            mesh.axes[first].name
        ));
    }
    let mut axes: Vec<Axis> = mesh.axes.clone();
    axes[first].size = devices / rest;
    Mesh::new(axes)
}

fn to_document(title: String, rows: &[Row], json: Value) -> Document {
    let keys = rows.first().map(|row| row.choices.iter().map(|choice| choice.key.name()).collect());
    let row = |row: &Row| {
        let outcome = row.outcome.as_ref().ok();
        SweptRow {
            values: row.choices.iter().map(|choice| choice.value).collect(),
            shown: row.choices.iter().copied().map(Choice::show).collect(),
            step_seconds: outcome.map(|outcome| outcome.step_seconds),
            throughput: outcome.and_then(|outcome| outcome.throughput).map(|(number, _)| number),
            mfu: outcome.map(|outcome| outcome.mfu),
            peak_bytes: outcome.map(|outcome| outcome.peak_bytes),
            memory_limit: outcome.map(|outcome| outcome.memory_limit),
            fits: outcome.is_some_and(|outcome| outcome.fits),
            mesh: outcome.and_then(|outcome| outcome.mesh.as_ref()).map(ToString::to_string),
            reason: row.outcome.as_ref().err().map(|unfit| unfit.reason.clone()),
        }
    };
    sweep_document(title, keys.unwrap_or_default(), rows.iter().map(row).collect(), json)
}

fn to_text(rows: &[Row], width: usize) -> String {
    let keys: Vec<&str> =
        rows.first().map(|row| row.choices.iter().map(|choice| choice.key.name()).collect()).unwrap_or_default();
    let unit = rows.iter().find_map(|row| row.outcome.as_ref().ok()?.throughput);
    let throughput = unit.map(|(_, unit)| format!("{unit}/s"));
    let mut heading = keys;
    heading.push("step");
    heading.extend(throughput.as_deref());
    // What is planned fits; how it does is worth more.
    let is_planned = rows.iter().any(|row| row.outcome.as_ref().is_ok_and(|outcome| outcome.mesh.is_some()));
    heading.extend(["MFU", "peak", if is_planned { "mesh" } else { "fits" }]);
    let columns = heading.len();
    let mut table = Table::new(&heading).ending_in_prose();
    for row in rows {
        let mut cells: Vec<String> = row.choices.iter().copied().map(Choice::show).collect();
        match &row.outcome {
            Ok(outcome) => {
                cells.push(duration(outcome.step_seconds));
                cells.extend(
                    throughput
                        .is_some()
                        .then(|| outcome.throughput.map_or_else(String::new, |(number, _)| rate(number))),
                );
                cells.extend([share(outcome.mfu, 1.0), size(outcome.peak_bytes)]);
                let fits = if outcome.fits { "yes" } else { "no" };
                cells.push(outcome.mesh.as_ref().map_or_else(|| fits.to_owned(), ToString::to_string));
            }
            Err(unfit) => {
                cells.resize(columns - 1, String::new());
                cells.push(unfit.reason.clone());
            }
        }
        table.row(cells);
    }
    table.render(width)
}

impl Row {
    fn to_json(&self) -> Value {
        let mut run = Map::new();
        for choice in &self.choices {
            run.insert(choice.key.name().to_owned(), choice.to_json());
        }
        match &self.outcome {
            Ok(outcome) => {
                run.insert("step_seconds".to_owned(), json!(outcome.step_seconds));
                if let Some((number, unit)) = outcome.throughput {
                    run.insert(format!("{unit}_per_second"), json!(number));
                }
                run.insert("mfu".to_owned(), json!(outcome.mfu));
                run.insert("peak_bytes".to_owned(), json!(outcome.peak_bytes));
                run.insert("memory_limit".to_owned(), json!(outcome.memory_limit));
                run.insert("fits".to_owned(), json!(outcome.fits));
                if let Some(mesh) = &outcome.mesh {
                    run.insert("mesh".to_owned(), json!(mesh.to_string()));
                }
            }
            Err(Unfit { reason, least_bytes }) => {
                run.insert("reason".to_owned(), json!(reason));
                if let Some(least) = least_bytes {
                    run.insert("fits".to_owned(), json!(false));
                    run.insert("least_bytes".to_owned(), json!(least));
                }
            }
        }
        Value::Object(run)
    }
}

//! `meshwright sweep`: a step on many clusters and at many sizes.

mod vary;

use std::time::Instant;

use clap::Args;
use meshwright::cluster::Cluster;
use meshwright::shard::{Axis, Mesh};
use meshwright::simulate::Engine;
use serde_json::{Map, Value, json};

use crate::cluster;
use crate::error::{Answer, Error};
use crate::model::{self, Model, ModelArguments};
use crate::output;
use crate::schedule::Schedule;
use crate::simulate::{RunArguments, Simulation, Step, check_devices, rate};
use crate::table::{Table, count, duration, share, size, terminal_width};
use vary::{Choice, Key, combinations};

/// Simulate a step for every combination of memory, batch, devices and bandwidth
///
/// A row for each combination, in the order in which the values are given, the last key fastest. What
/// cannot be laid out gets its reason in its row.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Values to go through: `memory=40GiB,80GiB` of a device, `batch=256,512` of a preset,
    /// `devices=8,16` with the first axis of the mesh and the nodes of the cluster, `bandwidth=0.5,1,2`
    /// times that of all links; may be given for each
    #[arg(long, value_name = "KEY=LIST", required = true)]
    vary: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright sweep gpt-2.6b --cluster 8xh100 --mesh data=8 --tactics zero.toml \\
    --vary batch=64,128,256 --vary memory=40GiB,80GiB
  meshwright sweep llama3-8b --cluster 8xh100 --mesh data=8 --tactics zero.toml --vary devices=8,16,32";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let started = Instant::now();
    let combinations = combinations(&arguments.vary)?;
    let engine = arguments.run.engine()?;
    let cluster = cluster::load(&arguments.run.cluster)?;
    let schedule = Schedule::load(&arguments.model, &arguments.run.schedule)?;
    let mut sweep = Sweep { arguments, engine, cluster, schedule, steps: Vec::new() };
    sweep.check(&combinations)?;
    let rows: Vec<Row> = combinations.into_iter().map(|choices| sweep.row(choices)).collect::<Result<_, Error>>()?;
    if arguments.json {
        let runs: Vec<Value> = rows.iter().map(Row::to_json).collect();
        output::print_json(&json!({ "runs": runs, "seconds": started.elapsed().as_secs_f64() }))?;
    } else {
        output::print(to_text(&rows, terminal_width()).as_bytes())?;
    }
    Ok(Answer::Yes)
}

struct Sweep<'a> {
    arguments: &'a Arguments,
    engine: &'static Engine,
    cluster: Cluster,
    schedule: Schedule,
    /// What was laid out, by batch and mesh, and why the rest could not be.
    steps: Vec<((Option<usize>, String), Result<Step, String>)>,
}

/// A combination, and what becomes of it.
struct Row {
    choices: Vec<Choice>,
    outcome: Result<Outcome, String>,
}

struct Outcome {
    step_seconds: f64,
    throughput: Option<(f64, &'static str)>,
    mfu: f64,
    peak_bytes: usize,
    memory_limit: usize,
    fits: bool,
}

impl Sweep<'_> {
    /// Refuses what can be changed in no combination.
    fn check(&self, combinations: &[Vec<Choice>]) -> Result<(), Error> {
        let varies = |key: Key| combinations.iter().flatten().any(|choice| choice.key == key);
        if varies(Key::Batch) && model::preset(&self.arguments.model)?.is_none() {
            let name = self.arguments.model.model.display();
            return Err(Error::new(format!("`{name}` is a file, whose batch is what it is"))
                .hint("`--vary batch=…` changes a preset; `meshwright models` lists them"));
        }
        if varies(Key::Devices) && self.cluster.nodes.len() != 1 {
            return Err(Error::new(format!("`{}` has nodes that differ", self.cluster.name))
                .hint("`--vary devices=…` changes how many nodes there are of one kind"));
        }
        Ok(())
    }

    fn row(&mut self, choices: Vec<Choice>) -> Result<Row, Error> {
        let value = |key: Key| choices.iter().find(|choice| choice.key == key).map(|choice| choice.value);
        let whole = |key: Key| value(key).map(|number| number as usize);
        let cluster = changed(&self.cluster, whole(Key::Memory), whole(Key::Devices), value(Key::Bandwidth));
        let mesh = match whole(Key::Devices) {
            Some(devices) => scaled(&self.schedule.mesh, devices, self.schedule.stage_count()),
            None => Ok(self.schedule.mesh.clone()),
        };
        let outcome = match mesh {
            Ok(mesh) => self.outcome(whole(Key::Batch), mesh, &cluster)?,
            Err(reason) => Err(reason),
        };
        Ok(Row { choices, outcome })
    }

    /// The error is of the command; a reason is of the combination.
    fn outcome(
        &mut self,
        batch: Option<usize>,
        mesh: Mesh,
        cluster: &Cluster,
    ) -> Result<Result<Outcome, String>, Error> {
        if let Err((reason, _)) = check_devices(mesh.devices() * self.schedule.stage_count(), cluster) {
            return Ok(Err(reason));
        }
        let number = self.step(batch, mesh)?;
        let step = match &self.steps[number].1 {
            Ok(step) => step,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let simulation = Simulation::new(step, cluster, self.engine);
        Ok(Ok(Outcome {
            step_seconds: simulation.timeline.step_seconds,
            throughput: simulation.throughput(),
            mfu: simulation.mfu,
            peak_bytes: simulation.memory().peak_bytes,
            memory_limit: simulation.memory_limit(),
            fits: simulation.fits(),
        }))
    }

    /// Lays the model out, once for all combinations that differ in the cluster alone.
    fn step(&mut self, batch: Option<usize>, mesh: Mesh) -> Result<usize, Error> {
        let key = (batch, mesh.to_string());
        if let Some(known) = self.steps.iter().position(|(other, _)| *other == key) {
            return Ok(known);
        }
        self.schedule.mesh = mesh;
        let step = match self.set_batch(batch)? {
            Ok(()) => {
                Step::new(&self.schedule, self.engine).map_err(|error| format!("{}: {}", error.tactic, error.message))
            }
            Err(reason) => Err(reason),
        };
        self.steps.push((key, step));
        Ok(self.steps.len() - 1)
    }

    fn set_batch(&mut self, batch: Option<usize>) -> Result<Result<(), String>, Error> {
        let (Some(batch), Some(mut preset)) = (batch, model::preset(&self.arguments.model)?) else { return Ok(Ok(())) };
        let built = preset.set("batch", &batch.to_string()).and_then(|()| preset.build());
        Ok(built.map(|program| self.schedule.model = Model { program, warnings: Vec::new() }))
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

fn to_text(rows: &[Row], width: usize) -> String {
    let keys: Vec<&str> =
        rows.first().map(|row| row.choices.iter().map(|choice| choice.key.name()).collect()).unwrap_or_default();
    let unit = rows.iter().find_map(|row| row.outcome.as_ref().ok()?.throughput);
    let throughput = unit.map(|(_, unit)| format!("{unit}/s"));
    let mut heading = keys;
    heading.push("step");
    heading.extend(throughput.as_deref());
    heading.extend(["MFU", "peak", "fits"]);
    let columns = heading.len();
    let mut table = Table::new(&heading).ending_in_prose();
    for row in rows {
        let mut cells: Vec<String> = row.choices.iter().map(Choice::show).collect();
        match &row.outcome {
            Ok(outcome) => {
                cells.push(duration(outcome.step_seconds));
                cells.extend(
                    throughput
                        .is_some()
                        .then(|| outcome.throughput.map_or_else(String::new, |(number, _)| rate(number))),
                );
                cells.extend([share(outcome.mfu, 1.0), size(outcome.peak_bytes)]);
                cells.push(if outcome.fits { "yes" } else { "no" }.to_owned());
            }
            Err(reason) => {
                cells.resize(columns - 1, String::new());
                cells.push(reason.clone());
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
            }
            Err(reason) => _ = run.insert("reason".to_owned(), json!(reason)),
        }
        Value::Object(run)
    }
}

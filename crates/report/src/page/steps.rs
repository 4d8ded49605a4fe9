//! What each decision did, one after the other: time, memory, collectives, and what is stored otherwise from then on.

use meshwright::cluster::Cluster;
use meshwright::lower::{CollectiveKind, LocalProgram, Measures, Movement, estimate, lower_layout, measure};
use meshwright::plan::Recipe;
use meshwright::profile::ByClass;
use meshwright::program::{ArgumentClass, Program};
use meshwright::shard::{Layout, Mesh, Sharding};
use meshwright::simulate::{Engine, Prepared, Runner, Timeline, movement_seconds, simulate};
use meshwright::tactics::LaidOut;
use serde::Serialize;
use serde_json::Value;

use crate::names::{group, names};
use crate::simulate::{Summary, by_class};
use crate::table::{count, counted};

/// The step after a decision.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StepPart {
    name: String,
    /// What was decided; literals stand in backticks.
    words: String,
    step_seconds: f64,
    compute_seconds: f64,
    exposed_seconds: f64,
    peak_bytes: usize,
    memory: Value,
    collectives: Value,
    bytes_moved: f64,
    /// What was asked for and could not be.
    notes: Vec<String>,
    changes: Vec<Change>,
}

impl StepPart {
    /// With the figures of all stages, which no program of a single stage has.
    pub(super) fn becomes_pipeline(&mut self, summary: &Summary<'_>) {
        let (simulation, pipeline) = (summary.simulation, &summary.step.prepared.pipeline);
        let [(_, compute), (_, exposed), ..] = simulation.time();
        let memory = simulation.memory();
        let stages = counted(pipeline.stages.len(), "stage");
        self.words = format!(
            "The model is cut into {stages}, each on devices of its own; all steps before ran on the devices of one. Time is the \
             mean of stages, memory that of the fullest, collectives are those of all."
        );
        self.step_seconds = simulation.timeline.step_seconds;
        self.compute_seconds = compute;
        self.exposed_seconds = exposed;
        self.peak_bytes = memory.peak_bytes;
        self.memory = by_class(memory.by_class);
        let measures = pipeline.measures();
        self.collectives = counts(&measures);
        self.bytes_moved = measures.bytes_moved;
    }
}

fn counts(measures: &Measures) -> Value {
    CollectiveKind::ALL.iter().zip(measures.collectives).map(|(kind, count)| (kind.name(), count)).collect()
}

/// Arguments that lie otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Change {
    name: String,
    count: usize,
    from: String,
    to: String,
}

/// What steps run on.
#[derive(Clone, Copy)]
pub(super) struct On<'o> {
    pub(super) cluster: &'o Cluster,
    pub(super) engine: &'o Engine,
}

/// The steps of tactics, from everything whole on. None where one of them cannot be lowered by itself.
pub(super) fn of_tactics(
    on: On<'_>,
    program: &Program,
    mesh: &Mesh,
    names: &[String],
    laid: &LaidOut<'_>,
) -> Vec<StepPart> {
    let first = Layout::new(program, mesh.clone());
    let mut steps = Steps::new(on, program, &first.anatomy.classes);
    let begin = "Every device does everything.".to_owned();
    let Ok((_, whole)) = lower_layout(first, &estimate) else { return Vec::new() };
    steps.add("as written", begin, &whole, Vec::new());
    for (number, (snapshot, notes)) in laid.snapshots.iter().zip(&laid.notes).enumerate() {
        let Ok((_, local)) = lower_layout(snapshot.clone(), &estimate) else { return Vec::new() };
        let words = format!("Tactic {} of {} is applied and carried through the program.", number + 1, names.len());
        steps.add(&names[number], words, &local, notes.clone());
    }
    steps.parts
}

/// The steps of a plan: what it decides, one kind of decision after the other.
pub(super) fn of_recipe(summary: &Summary<'_>, program: &Program, recipe: &Recipe) -> Vec<StepPart> {
    let (cluster, engine) = (summary.simulation.cluster, summary.simulation.engine);
    let runner = Runner { cluster, device: cluster.device(0), engine };
    let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
    let anatomy = program.anatomy();
    let mut steps = Steps::new(On { cluster, engine }, program, &anatomy.classes);
    for (name, words, recipe) in partial_recipes(program, recipe) {
        let Ok((local, _)) = recipe.lower(program, &price) else { return Vec::new() };
        steps.add(name, words, &local, Vec::new());
    }
    if let (Some(_), Some(last)) = (&recipe.staging, steps.parts.last().cloned()) {
        let mut staged = StepPart { name: "stages".to_owned(), changes: Vec::new(), ..last };
        staged.becomes_pipeline(summary);
        steps.parts.push(staged);
    }
    steps.parts
}

/// A recipe in parts, each with all before it: a name, what it adds in words, and itself. Stages are left out.
fn partial_recipes(program: &Program, recipe: &Recipe) -> Vec<(&'static str, String, Recipe)> {
    let arguments = program.body().arguments.iter().map(|&value| Sharding::whole(program.shape(value).len())).collect();
    let mut next = Recipe {
        mesh: recipe.mesh.clone(),
        microbatches: 1,
        is_eager: false,
        arguments,
        ops: Vec::new(),
        again: Vec::new(),
        splits: Vec::new(),
        held: Vec::new(),
        staging: None,
    };
    let mut parts = vec![("as written", "Every device does everything.".to_owned(), next.clone())];
    next.arguments.clone_from(&recipe.arguments);
    next.ops.clone_from(&recipe.ops);
    let (cut, all) = (count(recipe.ops.len()), counted(program.ops.len(), "operation"));
    parts.push((
        "cut over devices",
        format!("{cut} of {all} run in parts on the mesh `{}`.", recipe.mesh),
        next.clone(),
    ));
    if !recipe.again.is_empty() {
        let ops = counted(recipe.again.iter().map(|again| again.ops.len()).sum(), "operation");
        next.again.clone_from(&recipe.again);
        parts.push((
            "computed again",
            format!("{ops} of the forward pass run again for the backward pass."),
            next.clone(),
        ));
    }
    if recipe.microbatches > 1 {
        (next.microbatches, next.is_eager) = (recipe.microbatches, recipe.is_eager);
        let words = format!("The batch goes through in {} parts.", count(recipe.microbatches));
        parts.push(("microbatches", words, next.clone()));
    }
    if !recipe.splits.is_empty() {
        let ops = counted(recipe.splits.iter().map(|split| split.ops.len()).sum(), "operation");
        next.splits.clone_from(&recipe.splits);
        parts.push(("slices", format!("{ops} run a slice at a time."), next.clone()));
    }
    if !recipe.held.is_empty() {
        let arguments = counted(recipe.held.len(), "argument");
        next.held.clone_from(&recipe.held);
        parts.push(("state on the host", format!("{arguments} lie in the memory of the host."), next));
    }
    parts
}

struct Steps<'s> {
    on: On<'s>,
    classes: Vec<ArgumentClass>,
    names: Vec<String>,
    /// How arguments lay after the step before.
    lay: Vec<String>,
    parts: Vec<StepPart>,
}

impl<'s> Steps<'s> {
    fn new(on: On<'s>, program: &Program, classes: &[ArgumentClass]) -> Steps<'s> {
        let names = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
        Steps { on, classes: classes.to_vec(), names, lay: Vec::new(), parts: Vec::new() }
    }

    fn add(&mut self, name: &str, words: String, local: &LocalProgram, notes: Vec<String>) {
        let lies: Vec<String> = local.arguments.iter().map(|lies| lies.describe(&local.mesh)).collect();
        let measures = measure(&local.program);
        let prepared = Prepared::whole(local, &self.classes, self.on.engine);
        let timeline = simulate(&prepared, self.on.cluster, self.on.engine);
        let (peak_bytes, classes) = peak(&timeline);
        let first = timeline.stages.first();
        self.parts.push(StepPart {
            name: name.to_owned(),
            words,
            step_seconds: timeline.step_seconds,
            compute_seconds: first.map_or(0.0, |stage| stage.compute_seconds),
            exposed_seconds: first.map_or(0.0, |stage| stage.exposed_seconds),
            peak_bytes,
            memory: by_class(classes),
            collectives: counts(&measures),
            bytes_moved: measures.bytes_moved,
            notes,
            changes: self.changes(&lies),
        });
        self.lay = lies;
    }

    fn changes(&self, lies: &[String]) -> Vec<Change> {
        let changed = self.names.iter().zip(self.lay.iter().zip(lies)).filter(|(_, (from, to))| from != to);
        let changed = changed.map(|(name, (from, to))| (name.clone(), (from.clone(), to.clone())));
        let change = |alike: crate::names::Alike<(String, String)>| {
            let (from, to) = alike.what;
            Change { name: alike.name, count: alike.count, from, to }
        };
        group(changed).into_iter().map(change).collect()
    }
}

fn peak(timeline: &Timeline) -> (usize, ByClass) {
    let fullest = timeline.stages.iter().max_by_key(|stage| stage.memory.peak_bytes);
    fullest.map_or((0, ByClass::default()), |stage| (stage.memory.peak_bytes, stage.memory.by_class))
}

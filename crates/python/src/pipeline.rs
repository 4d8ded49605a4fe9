//! Steps in stages as Python sees them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use meshwright::cluster::Cluster;
use meshwright::codes::Code;
use meshwright::lower::estimate;
use meshwright::pipeline::{Instruction, Pipeline as Staged, Pipelined, pipeline};
use meshwright::plan::{Plan, Runs};
use meshwright::program::Program;
use meshwright::shard::{Axis, Mesh, Sharding};
use meshwright::simulate::{Prepared, engine};
use meshwright::tactics::{Action, StageCut, Stages, Tactic};
use meshwright_report::axes::Axes;
use meshwright_report::page::{LaidOutBy, applied_document, simulation_document};
use meshwright_report::plan::{AppliedPlan, PlanFile, Setting, plan_file, step};
use meshwright_report::problem::Problem;
use meshwright_report::simulate::{Simulation, Step, Summary, check_devices};
use meshwright_report::table::size;
use pyo3::prelude::*;

use crate::error::refuse;
use crate::plan::{UNWRITTEN, WIDTH, limited, matrix_flops, write};
use crate::program::{Asked, Refused, read_tactics};

/// What to do where a stage reads a buffer whose next value another makes.
const NEVER_UPDATED: &str = "run the step without stages, or have the layer that reads it make its next value";

/// The axis of the microbatches, where the user names none.
const MICROBATCHES: &str = "micro";
/// What is tried where the user says no number of microbatches.
const TRIED: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// A step in stages: what every stage runs and in which order, and what that comes to.
#[pyclass(frozen, module = "meshwright")]
pub(crate) struct Pipeline {
    pipeline: Staged,
    /// How an engine holds every buffer, also in whole axes.
    held: Vec<Sharding>,
    axes: Axes,
    /// For each argument, the number of the result that is its next value.
    next: Vec<Option<usize>>,
    /// As it was given.
    program: Arc<Program>,
    modules: Vec<String>,
    by: GivenBy,
    name: String,
    whole_cluster: Cluster,
    /// What `meshwright simulate` prints.
    #[pyo3(get)]
    summary: String,
    #[pyo3(get)]
    cluster: String,
    #[pyo3(get)]
    engine: String,
    #[pyo3(get)]
    step_seconds: f64,
    #[pyo3(get)]
    peak_bytes: u64,
    #[pyo3(get)]
    memory_limit: u64,
}

/// What gave a step its stages.
enum GivenBy {
    /// The text of `plan.json`.
    Plan(String),
    Tactics(Mesh, Vec<Tactic>),
}

impl Pipeline {
    /// Stages that were planned.
    pub(crate) fn found(
        asked: &Asked,
        program: &Arc<Program>,
        plan: Plan,
        started: Instant,
    ) -> Result<Pipeline, Refused> {
        let step = step(program, &plan, asked.engine);
        let simulation = Simulation::new(&step, &asked.cluster, asked.engine);
        let setting = Setting {
            model: &asked.name,
            settings: &[],
            program,
            cluster: &asked.whole_cluster,
            engine: asked.engine.name,
            memory_limit: asked.limit_bytes,
        };
        let unplannable = |message: String| Refused::Unplannable(Problem::new(Code::Unplannable, message));
        let json = plan_file(&setting, &plan, simulation.mfu).to_text().map_err(unplannable)?;
        let Runs::Stages { pipeline, modules } = plan.runs else {
            return Err(unplannable("there are no stages".into()));
        };
        let (feedback, conflicts, anatomy) = (Vec::new(), Vec::new(), Arc::new(program.anatomy()));
        let whole = Program::clone(program);
        let found = Pipelined { program: whole, anatomy, pipeline: *pipeline, modules, feedback, conflicts };
        asked.told(program, found, GivenBy::Plan(json), None, started)
    }

    /// Stages as the file of a plan has them.
    pub(crate) fn applied(name: &str, program: &Arc<Program>, plan: &AppliedPlan) -> Result<Pipeline, Problem> {
        let wrong =
            |reason: String| Problem::new(Code::PlanFile, format!("cannot use the plan `{}`: {reason}", plan.name()));
        let found = plan.pipeline(program).map_err(wrong)?;
        let asked = Asked {
            name: name.to_owned(),
            engine: plan.engine(),
            whole_cluster: plan.cluster().clone(),
            cluster: plan.cluster().clone(),
            limit_bytes: plan.file().memory_limit,
            mesh: None,
            tactics: None,
            microbatches: None,
        };
        let json = plan.file().to_text().map_err(Problem::of(Code::PlanFile))?;
        let told = asked.told(program, found, GivenBy::Plan(json), None, Instant::now());
        told.map_err(|(Refused::Unplannable(problem) | Refused::TooLarge(problem))| problem)
    }
}

impl Pipeline {
    /// What it comes to as a page, made of its plan or of its tactics as everybody makes it.
    fn page(&self) -> Result<String, Problem> {
        let unknown = || Problem::new(Code::Engine, format!("there is no engine `{}`", self.engine));
        let engine = engine(&self.engine).ok_or_else(unknown)?;
        let anatomy = self.program.anatomy();
        let prepared = Prepared::new(self.pipeline.clone(), &anatomy.classes, engine);
        let step = Step { modules: self.modules.clone(), ..Step::of(prepared, &self.program, &anatomy, &[]) };
        let cluster = limited(&self.whole_cluster, self.memory_limit);
        let simulation = Simulation::new(&step, &cluster, engine);
        let (name, notes) = (self.name.clone(), Vec::new());
        let summary = Summary { name, step: &step, simulation: &simulation, notes, seconds: 0.0 };
        let program = &*self.program;
        let document = match &self.by {
            GivenBy::Plan(json) => {
                let plan = AppliedPlan::new(&self.name, PlanFile::parse(json)?, program)?;
                applied_document(&summary, program, &plan)
            }
            GivenBy::Tactics(mesh, tactics) => {
                simulation_document(&summary, LaidOutBy::Tactics { program, mesh, tactics })
            }
        };
        document.to_html(&self.summary).map_err(Problem::of(Code::Unwritable))
    }
}

/// A buffer: its stage, whether there is one for every microbatch, the dimension that is cut into them, the type of
/// its elements, its whole shape, and the axes that cut each dimension.
type BufferRow = (usize, bool, Option<usize>, &'static str, Vec<usize>, Vec<Vec<String>>);

/// What is done: its name, two numbers that depend on it, and the microbatch.
type InstructionRow = (&'static str, usize, usize, Option<usize>);

#[pymethods]
impl Pipeline {
    /// Names and sizes of the axes that stages lie along, in the order of device numbers.
    #[getter]
    fn mesh(&self) -> Vec<(String, usize)> {
        self.axes.sizes.clone()
    }

    /// The same for every stage: size 1 along axes that it lacks.
    #[getter]
    fn meshes(&self) -> Vec<Vec<(String, usize)>> {
        self.pipeline.meshes.iter().map(|mesh| self.axes.sizes_on(mesh)).collect()
    }

    /// Of every device of a stage, the device of another that it has its part from; numbers are those within the stages.
    fn senders(&self, source: usize, target: usize) -> PyResult<Vec<usize>> {
        let meshes = &self.pipeline.meshes;
        let (Some(_), Some(mesh)) = (meshes.get(source), meshes.get(target)) else {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!("there is no stage {source} or {target}")));
        };
        Ok((0..mesh.devices()).map(|device| self.pipeline.sender(source, target, device)).collect())
    }

    #[getter]
    fn stage_count(&self) -> usize {
        self.pipeline.stages.len()
    }

    #[getter]
    fn microbatches(&self) -> usize {
        self.pipeline.microbatches
    }

    #[getter]
    fn schedule(&self) -> &'static str {
        self.pipeline.schedule.name()
    }

    /// The text of `plan.json`, where stages were planned.
    #[getter]
    fn json(&self) -> Option<&str> {
        match &self.by {
            GivenBy::Plan(json) => Some(json),
            GivenBy::Tactics(..) => None,
        }
    }

    /// Of every stage, the operations of a device in products of matrices and convolutions.
    #[getter]
    fn matrix_flops(&self) -> Vec<f64> {
        let pieces: Vec<f64> = self.pipeline.pieces.iter().map(|piece| matrix_flops(&piece.program)).collect();
        let flops = |instruction: &Instruction| match *instruction {
            Instruction::Run { piece, .. } => pieces[piece],
            _ => 0.0,
        };
        self.pipeline.stages.iter().map(|list| list.iter().map(flops).sum()).collect()
    }

    /// Writes the plan to a file: whole under its name, or not at all.
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths become ours")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let GivenBy::Plan(json) = &self.by else {
            let message = "stages that tactics give are no plan that a file holds";
            let hint = "keep the tactics, or have stages planned with `stages=`";
            return Err(refuse(&Problem::new(Code::PlanFile, message).hint(hint)));
        };
        Ok(py.detach(|| write(&path, json))?)
    }

    /// Writes a page that shows all of it, for a browser: whole under its name, or not at all.
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths become ours")]
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let page = py.detach(|| self.page()).map_err(|problem| refuse(&problem))?;
        Ok(py.detach(|| write(&path, &page))?)
    }

    #[getter]
    fn buffers(&self) -> Vec<BufferRow> {
        let row = |index: usize| {
            let buffer = &self.pipeline.buffers[index];
            let cut = self.held[index].dims.iter().map(|pieces| self.pipeline.meshes[buffer.stage].product(pieces));
            let whole = buffer.ty.shape.iter().zip(cut).map(|(&size, parts)| size * parts).collect();
            let dim = self.pipeline.microbatch_dim(index);
            (buffer.stage, buffer.each_microbatch, dim, buffer.ty.dtype.name(), whole, self.axes.dims[index].clone())
        };
        (0..self.pipeline.buffers.len()).map(row).collect()
    }

    /// Of every piece its name, its stage, and the buffers that it reads and writes.
    #[getter]
    fn pieces(&self) -> Vec<(String, usize, Vec<usize>, Vec<usize>)> {
        let pieces = self.pipeline.pieces.iter().enumerate();
        let stages = self.pipeline.stages.len();
        let row = |(index, piece): (usize, &meshwright::pipeline::Piece)| {
            (self.pipeline.piece_name(index), piece.chunk % stages, piece.reads.clone(), piece.writes.clone())
        };
        pieces.map(row).collect()
    }

    /// What the devices of a stage run of a piece, inside of a module of whole values.
    fn piece_stablehlo(&self, py: Python<'_>, piece: usize) -> PyResult<String> {
        if piece >= self.pipeline.pieces.len() {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!("there is no piece {piece}")));
        }
        Ok(py.detach(|| self.pipeline.piece_stablehlo(piece, &self.held)))
    }

    /// What the devices of a stage run of a piece as Python source for PyTorch, with the names of the arguments and
    /// results of the step.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists become ours")]
    fn piece_torch(
        &self,
        py: Python<'_>,
        piece: usize,
        arguments: Vec<String>,
        results: Vec<String>,
    ) -> PyResult<String> {
        if piece >= self.pipeline.pieces.len() {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!("there is no piece {piece}")));
        }
        let unplannable = |message, hint| refuse(&Problem::new(Code::Unplannable, message).hint(hint));
        self.pipeline.check_updates(&self.next, &arguments).map_err(|message| unplannable(message, NEVER_UPDATED))?;
        let source = py.detach(|| self.pipeline.piece_torch(piece, &arguments, &results));
        source.map_err(|message| unplannable(message, UNWRITTEN))
    }

    /// What every stage does, in order.
    #[getter]
    fn instructions(&self) -> Vec<Vec<InstructionRow>> {
        let row = |instruction: &Instruction| match *instruction {
            Instruction::Run { piece, microbatch } => ("run", piece, 0, microbatch),
            Instruction::Send { buffer, microbatch, into, .. } => ("send", buffer, into, microbatch),
            Instruction::Receive { buffer, microbatch, from } => ("receive", buffer, from, microbatch),
            Instruction::Accumulate { from, into, microbatch } => ("accumulate", from, into, microbatch),
            Instruction::Free { buffer, microbatch } => ("free", buffer, 0, microbatch),
        };
        self.pipeline.stages.iter().map(|list| list.iter().map(row).collect()).collect()
    }

    /// Of every argument, the buffers that hold it.
    #[getter]
    fn arguments(&self) -> Vec<Vec<usize>> {
        self.pipeline.arguments.iter().map(|copies| copies.iter().map(|stored| stored.buffer).collect()).collect()
    }

    /// Of every result, the buffers that hold it.
    #[getter]
    fn results(&self) -> Vec<Vec<usize>> {
        self.pipeline.results.iter().map(|copies| copies.iter().map(|stored| stored.buffer).collect()).collect()
    }

    /// Numbers of arguments and of the results that are their next values.
    #[getter]
    fn state(&self) -> Vec<(usize, usize)> {
        let next = self.next.iter().enumerate();
        next.filter_map(|(argument, result)| result.map(|result| (argument, result))).collect()
    }

    /// The number of the microbatch, as buffers of stages whose pieces read it.
    #[getter]
    fn numbers(&self) -> Vec<usize> {
        let is_number = |&index: &usize| self.pipeline.buffers[index].role == meshwright::pipeline::Role::Number;
        (0..self.pipeline.buffers.len()).filter(is_number).collect()
    }

    /// The instructions of all stages in words.
    #[getter]
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.pipeline.to_string())
    }

    fn __str__(&self) -> &str {
        &self.summary
    }

    fn __repr__(&self) -> String {
        let mesh: Vec<String> = self.axes.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        let (stages, microbatches) = (self.pipeline.stages.len(), self.pipeline.microbatches);
        format!("<Pipeline for {}: {stages} stages of {}, {microbatches} microbatches>", self.cluster, mesh.join(","))
    }
}

/// How many stages tactics ask for, if they do.
#[pyfunction]
pub(crate) fn stage_count(tactics: &str) -> PyResult<Option<usize>> {
    let tactics = read_tactics(tactics).map_err(|problem| crate::error::refuse(&problem))?;
    Ok(find_stages(&tactics).map(count))
}

fn find_stages(tactics: &[Tactic]) -> Option<&Stages> {
    let mut actions = tactics.iter().flat_map(|tactic| &tactic.actions);
    actions.find_map(|action| if let Action::Stages(stages) = action { Some(stages) } else { None })
}

fn count(stages: &Stages) -> usize {
    match &stages.cut {
        StageCut::Even(count) => *count,
        StageCut::Scopes(scopes) => scopes.len() / stages.chunks.max(1),
    }
}

impl Asked {
    /// Lays a step out in the stages that tactics ask for. Where the user says no number of microbatches, the fastest
    /// of a few is taken.
    pub(crate) fn pipeline(&self, program: &Arc<Program>) -> Result<Pipeline, Refused> {
        let tactics = self.tactics.as_deref().unwrap_or_default();
        let unplannable = |message: &str| Refused::Unplannable(Problem::new(Code::Unplannable, message));
        let stages = find_stages(tactics).ok_or_else(|| unplannable("no tactic has `stages`"))?;
        let mesh = self.stage_mesh(tactics, count(stages)).map_err(Refused::Unplannable)?;
        if let Some(axis) = mesh.axes.iter().find(|axis| axis.temporal) {
            if self.microbatches.is_some_and(|microbatches| microbatches != axis.size) {
                return Err(unplannable(&format!("axis `{}` has {} microbatches already", axis.name, axis.size)));
            }
            return self.pipeline_on(program, &mesh, tactics);
        }
        if let Some(microbatches) = self.microbatches {
            return self.pipeline_in(program, &mesh, tactics, microbatches);
        }
        let mut best: Result<Pipeline, Refused> = self.pipeline_in(program, &mesh, tactics, 1);
        for microbatches in TRIED.into_iter().filter(|&microbatches| microbatches > 1) {
            match (&best, self.pipeline_in(program, &mesh, tactics, microbatches)) {
                (Ok(known), Ok(found)) if found.step_seconds >= known.step_seconds => {}
                (_, Ok(found)) => best = Ok(found),
                // What is wrong with more microbatches, such as a batch that they do not divide, is no concern.
                (_, Err(_)) => {}
            }
        }
        best
    }

    /// The mesh of a stage: the one that was given, or the devices of a stage along the one axis that tactics name.
    fn stage_mesh(&self, tactics: &[Tactic], stages: usize) -> Result<Mesh, Problem> {
        if let Some(mesh) = &self.mesh {
            return Ok(mesh.clone());
        }
        let mut names: Vec<&str> = tactics.iter().filter_map(|tactic| tactic.axis.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let devices = self.cluster.devices();
        let each = devices / stages.max(1);
        if each * stages != devices {
            let problem =
                Problem::new(Code::TooFewDevices, format!("{devices} devices are not {stages} stages of as many each"));
            return Err(problem.hint("say how many each has with `mesh`"));
        }
        let hint = "say what the mesh of one stage is, such as `mesh={\"data\": 2, \"model\": 2}`";
        let name = match names[..] {
            [] => "data",
            [name] => name,
            _ => return Err(Problem::new(Code::Mesh, "tactics name several axes, and there is no mesh").hint(hint)),
        };
        let axis = Axis { name: name.to_owned(), size: each, temporal: false };
        Mesh::new(vec![axis]).map_err(|message| Problem::new(Code::Unplannable, message).hint(hint))
    }

    fn pipeline_in(
        &self,
        program: &Arc<Program>,
        mesh: &Mesh,
        tactics: &[Tactic],
        microbatches: usize,
    ) -> Result<Pipeline, Refused> {
        if microbatches == 1 {
            return self.pipeline_on(program, mesh, tactics);
        }
        let refuse = |problem: Problem| Refused::Unplannable(problem);
        let mut axes = mesh.axes.clone();
        axes.push(Axis { name: MICROBATCHES.to_owned(), size: microbatches, temporal: true });
        let mesh = Mesh::new(axes).map_err(|message| refuse(Problem::new(Code::Mesh, format!("mesh: {message}"))))?;
        // What comes first stays, so that devices cut the batch before time does.
        let mut tactics = tactics.to_vec();
        let cut = format!("[[tactic]]\naxis = \"{MICROBATCHES}\"\npreset = \"data\"\n");
        tactics.extend(read_tactics(&cut).map_err(refuse)?);
        self.pipeline_on(program, &mesh, &tactics)
    }

    fn pipeline_on(&self, program: &Arc<Program>, mesh: &Mesh, tactics: &[Tactic]) -> Result<Pipeline, Refused> {
        let started = Instant::now();
        let stages = find_stages(tactics).map_or(1, count);
        let spare = check_devices(mesh.devices() * stages, &self.cluster);
        let spare = spare
            .map_err(|(message, hint)| Refused::Unplannable(Problem::new(Code::Unplannable, message).hint(hint)))?;
        let found = pipeline(program, mesh, tactics, &estimate).map_err(|error| {
            let problem = Problem::new(Code::Tactic, format!("{}: {}", error.tactic, error.message));
            Refused::Unplannable(Problem { hint: error.hint, ..problem })
        })?;
        self.told(program, found, GivenBy::Tactics(mesh.clone(), tactics.to_vec()), spare, started)
    }

    /// What stages come to.
    fn told(
        &self,
        given: &Arc<Program>,
        found: Pipelined,
        by: GivenBy,
        spare: Option<String>,
        started: Instant,
    ) -> Result<Pipeline, Refused> {
        let Pipelined { program, anatomy, pipeline, modules, feedback, .. } = found;
        let prepared = Prepared::new(pipeline.clone(), &anatomy.classes, self.engine);
        let step = Step { modules: modules.clone(), ..Step::of(prepared, &program, &anatomy, &feedback) };
        let simulation = Simulation::new(&step, &self.cluster, self.engine);
        if !simulation.fits() {
            let (peak, limit) = (simulation.memory().peak_bytes, simulation.memory_limit());
            let stage = simulation.fullest();
            let message =
                format!("Does not fit: stage {stage} takes {} on a device, which has {}", size(peak), size(limit));
            let hint = "allow more `memory`, give more stages or devices, more `microbatches` or a smaller batch";
            return Err(Refused::TooLarge(Problem::new(Code::DoesNotFit, message).hint(hint)));
        }
        let summary = Summary {
            name: self.name.clone(),
            step: &step,
            simulation: &simulation,
            notes: spare.into_iter().chain(step.notes.iter().cloned()).collect(),
            seconds: started.elapsed().as_secs_f64(),
        };
        let held = pipeline.held();
        Ok(Pipeline {
            summary: summary.to_text(WIDTH),
            cluster: self.whole_cluster.name.clone(),
            engine: self.engine.name.to_owned(),
            step_seconds: simulation.timeline.step_seconds,
            peak_bytes: simulation.memory().peak_bytes as u64,
            memory_limit: self.limit_bytes,
            axes: Axes::new(&pipeline.mesh, held.iter()),
            next: anatomy.next.clone(),
            program: Arc::clone(given),
            modules,
            by,
            name: self.name.clone(),
            whole_cluster: self.whole_cluster.clone(),
            held,
            pipeline,
        })
    }
}

//! Plans as Python sees them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meshwright::cluster::Cluster;
use meshwright::codes::Code;
use meshwright::lower::{CollectiveKind, LocalProgram, measure, stablehlo};
use meshwright::plan::Plan as Found;
use meshwright::profile::work;
use meshwright::program::{Id, Op, Program, expand_attention};
use meshwright::simulate::Prepared;
use meshwright::torch::step_source;
use meshwright_report::axes::Axes;
use meshwright_report::page::applied_document;
use meshwright_report::plan::{AppliedPlan, PlanFile, Report, Setting, plan_file, step};
use meshwright_report::problem::Problem;
use meshwright_report::simulate::{Simulation, Step, Summary};
use pyo3::prelude::*;

use crate::error::refuse;
use crate::program::Asked;

/// How wide texts are.
pub(crate) const WIDTH: usize = 80;

/// What to do about an op that PyTorch has no words for.
pub(crate) const UNWRITTEN: &str = "write the model without this op, or run the step on XLA";

/// A plan: how every device runs a part of a step, and what that comes to.
#[pyclass(frozen, module = "meshwright")]
pub(crate) struct Plan {
    /// The step that it is for.
    program: Arc<Program>,
    local: LocalProgram,
    axes: Axes,
    /// The text of the plan as a file.
    #[pyo3(get)]
    json: String,
    /// What `meshwright plan` prints; for a plan that was loaded, what `meshwright simulate` does.
    #[pyo3(get)]
    summary: String,
    #[pyo3(get)]
    cluster: String,
    #[pyo3(get)]
    engine: String,
    #[pyo3(get)]
    microbatches: usize,
    #[pyo3(get)]
    step_seconds: f64,
    #[pyo3(get)]
    peak_bytes: u64,
    #[pyo3(get)]
    memory_limit: u64,
}

impl Plan {
    pub(crate) fn found(asked: &Asked, program: &Arc<Program>, found: &Found, seconds: f64) -> Result<Plan, Problem> {
        let step = step(program, found, asked.engine);
        let simulation = Simulation::new(&step, &asked.cluster, asked.engine);
        let setting = Setting {
            model: &asked.name,
            settings: &[],
            program,
            cluster: &asked.whole_cluster,
            engine: asked.engine.name,
            memory_limit: asked.limit_bytes,
        };
        let json = plan_file(&setting, found, simulation.mfu).to_text().map_err(Problem::of(Code::PlanFile))?;
        let simulated =
            Summary { name: asked.name.clone(), step: &step, simulation: &simulation, notes: Vec::new(), seconds };
        let limit_bytes = asked.limit_bytes;
        let report = Report { program, plan: found, simulated, limit_bytes, planning_seconds: seconds };
        let summary = report.to_text(WIDTH);
        let Some(local) = found.runs.one().cloned() else {
            return Err(Problem::new(Code::Unplannable, "a plan in stages is no single program"));
        };
        Ok(Plan {
            program: Arc::clone(program),
            axes: axes(&local),
            json,
            summary,
            cluster: asked.whole_cluster.name.clone(),
            engine: asked.engine.name.to_owned(),
            microbatches: found.microbatches,
            step_seconds: found.timeline.step_seconds,
            peak_bytes: found.peak_bytes,
            memory_limit: limit_bytes,
            local,
        })
    }

    pub(crate) fn applied(name: &str, program: &Arc<Program>, plan: &AppliedPlan) -> Result<Plan, Problem> {
        let wrong =
            |reason: String| Problem::new(Code::PlanFile, format!("cannot use the plan `{}`: {reason}", plan.name()));
        let partitioned = plan.partition(program).map_err(wrong)?;
        let (engine, file) = (plan.engine(), plan.file());
        let prepared = Prepared::whole(&partitioned.local, &partitioned.anatomy.classes, engine);
        let step = Step::of(prepared, program, &program.anatomy(), &[]);
        let simulation = Simulation::new(&step, plan.cluster(), engine);
        let seconds = 0.0;
        let summary =
            Summary { name: name.to_owned(), step: &step, simulation: &simulation, notes: Vec::new(), seconds };
        Ok(Plan {
            program: Arc::clone(program),
            axes: axes(&partitioned.local),
            json: file.to_text().map_err(Problem::of(Code::PlanFile))?,
            summary: summary.to_text(WIDTH),
            cluster: file.cluster.name.clone(),
            engine: engine.name.to_owned(),
            microbatches: file.microbatches,
            step_seconds: simulation.timeline.step_seconds,
            peak_bytes: simulation.memory().peak_bytes as u64,
            memory_limit: file.memory_limit,
            local: partitioned.local,
        })
    }
}

impl Plan {
    /// The plan as a page, made of its file as everybody makes it.
    fn page(&self) -> Result<String, Problem> {
        let file = PlanFile::parse(&self.json)?;
        let name = file.model.name.clone();
        let plan = AppliedPlan::new(&name, file, &self.program)?;
        let prepared = Prepared::whole(&self.local, &self.program.anatomy().classes, plan.engine());
        let step = Step::of(prepared, &self.program, &self.program.anatomy(), &[]);
        let cluster = limited(plan.cluster(), self.memory_limit);
        let simulation = Simulation::new(&step, &cluster, plan.engine());
        let summary = Summary { name, step: &step, simulation: &simulation, notes: Vec::new(), seconds: 0.0 };
        let document = applied_document(&summary, &self.program, &plan);
        document.to_html(&self.summary).map_err(Problem::of(Code::Unwritable))
    }
}

#[pymethods]
impl Plan {
    /// The local program inside of a module of whole values, which XLA compiles and runs.
    #[getter]
    fn stablehlo(&self, py: Python<'_>) -> String {
        py.detach(|| stablehlo(&self.local))
    }

    /// The local program as Python source for PyTorch: `forward`, `backward` and `update`.
    fn torch_source(&self, py: Python<'_>) -> PyResult<String> {
        let source = py.detach(|| step_source(&self.local.program));
        source.map_err(|message| refuse(&Problem::new(Code::Unplannable, message).hint(UNWRITTEN)))
    }

    /// Names and sizes of the axes of devices, in the order of device numbers.
    #[getter]
    fn mesh(&self) -> Vec<(String, usize)> {
        self.axes.sizes.clone()
    }

    /// For every argument and dimension, the axes that cut it.
    #[getter]
    fn arguments(&self) -> Vec<Vec<Vec<String>>> {
        self.axes.dims[..self.local.arguments.len()].to_vec()
    }

    /// For every result and dimension, the axes that cut it.
    #[getter]
    fn results(&self) -> Vec<Vec<Vec<String>>> {
        self.axes.dims[self.local.arguments.len()..].to_vec()
    }

    /// Numbers of arguments and of the results that take their places.
    #[getter]
    fn aliases(&self) -> Vec<(usize, usize)> {
        let arguments = self.local.program.arguments.iter().enumerate();
        arguments.filter_map(|(number, argument)| argument.alias.map(|result| (number, result))).collect()
    }

    /// How many collectives of each kind a step runs.
    #[getter]
    fn collectives(&self) -> BTreeMap<&'static str, usize> {
        let counts = measure(&self.local.program).collectives;
        CollectiveKind::ALL.iter().map(|kind| kind.name()).zip(counts).collect()
    }

    /// For every argument, how many all-gathers there are of it, in its own type or in another.
    #[getter]
    fn gathers(&self) -> Vec<usize> {
        let program = &self.local.program;
        let origins = program.anatomy().origins;
        let mut gathers = vec![0; program.arguments.len()];
        for (_, operation) in program.ops.iter() {
            if let (Op::AllGather(_), Some(&operand)) = (&operation.op, operation.operands.first())
                && let Some(argument) = origins[operand.index()]
            {
                gathers[argument] += 1;
            }
        }
        gathers
    }

    /// Which modules PyTorch's `fully_shard` would take, as near as that comes to the plan.
    fn to_fsdp2(slf: Bound<'_, Plan>) -> PyResult<Bound<'_, PyAny>> {
        exported("to_fsdp2", slf)
    }

    /// The arguments of Megatron-LM that come nearest to the plan.
    fn to_megatron_args(slf: Bound<'_, Plan>) -> PyResult<Bound<'_, PyAny>> {
        exported("to_megatron_args", slf)
    }

    /// For every parameter and all state, the axes that cut each dimension.
    fn to_pspecs(slf: Bound<'_, Plan>) -> PyResult<Bound<'_, PyAny>> {
        exported("to_pspecs", slf)
    }

    /// Operations of a device in products of matrices and convolutions, without what these read of padding.
    #[getter]
    fn matrix_flops(&self) -> f64 {
        matrix_flops(&self.local.program)
    }

    /// Writes the plan to a file: whole under its name, or not at all.
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths become ours")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| write(&path, &self.json))?)
    }

    /// Writes a page that shows all of the plan, for a browser: whole under its name, or not at all.
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths become ours")]
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let page = py.detach(|| self.page()).map_err(|problem| refuse(&problem))?;
        Ok(py.detach(|| write(&path, &page))?)
    }

    fn __str__(&self) -> &str {
        &self.summary
    }

    fn __repr__(&self) -> String {
        let mesh: Vec<String> = self.axes.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        format!("<Plan for {}: {}, {} microbatches>", self.cluster, mesh.join(","), self.microbatches)
    }
}

/// What a function of `meshwright.exports` makes of a plan.
fn exported<'py>(function: &str, plan: Bound<'py, Plan>) -> PyResult<Bound<'py, PyAny>> {
    plan.py().import("meshwright.exports")?.call_method1(function, (plan,))
}

/// A cluster with no more memory than may be used.
pub(crate) fn limited(cluster: &Cluster, limit_bytes: u64) -> Cluster {
    let mut cluster = cluster.clone();
    for nodes in &mut cluster.nodes {
        nodes.device.memory_bytes = nodes.device.memory_bytes.min(limit_bytes as usize);
    }
    cluster
}

/// Operations of a program in products of matrices and convolutions.
pub(crate) fn matrix_flops(program: &Program) -> f64 {
    let program = expand_attention(program);
    let trips = program.trips();
    program.ops.ids().map(|op| work(&program, op).matrix * trips.of_op(op) as f64).sum()
}

/// Writes a file: whole under its name, or not at all.
pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}

fn axes(local: &LocalProgram) -> Axes {
    Axes::new(&local.mesh, local.arguments.iter().chain(&local.results))
}

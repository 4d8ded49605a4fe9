//! Plans as Python sees them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use meshwright::lower::{CollectiveKind, LocalProgram, measure, stablehlo};
use meshwright::plan::Plan as Found;
use meshwright::profile::work;
use meshwright::program::{Program, expand_attention};
use meshwright::simulate::Prepared;
use meshwright_report::axes::Axes;
use meshwright_report::plan::{AppliedPlan, Report, Setting, plan_file, step};
use meshwright_report::problem::Problem;
use meshwright_report::simulate::{Simulation, Step, Summary};
use pyo3::prelude::*;

use crate::program::Asked;

/// How wide texts are.
pub(crate) const WIDTH: usize = 80;

/// A plan: how every device runs a part of a step, and what that comes to.
#[pyclass(frozen, module = "meshwright")]
pub(crate) struct Plan {
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
    pub(crate) fn found(asked: &Asked, program: &Program, found: &Found, seconds: f64) -> Result<Plan, Problem> {
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
        let json = plan_file(&setting, found, simulation.mfu).to_text().map_err(Problem::new)?;
        let simulated =
            Summary { name: asked.name.clone(), step: &step, simulation: &simulation, notes: Vec::new(), seconds };
        let limit_bytes = asked.limit_bytes;
        let report = Report { program, plan: found, simulated, limit_bytes, planning_seconds: seconds };
        let summary = report.to_text(WIDTH);
        let Some(local) = found.runs.one().cloned() else {
            return Err(Problem::new("a plan in stages is no single program"));
        };
        Ok(Plan {
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
        let wrong = |reason: String| Problem::new(format!("cannot use the plan `{}`: {reason}", plan.name()));
        let partitioned = plan.partition(program).map_err(wrong)?;
        let (engine, file) = (plan.engine(), plan.file());
        let prepared = Prepared::whole(partitioned.local.clone(), &partitioned.anatomy.classes, engine);
        let step = Step::of(prepared, program, &program.anatomy(), &[]);
        let simulation = Simulation::new(&step, plan.cluster(), engine);
        let seconds = 0.0;
        let summary =
            Summary { name: name.to_owned(), step: &step, simulation: &simulation, notes: Vec::new(), seconds };
        Ok(Plan {
            axes: axes(&partitioned.local),
            json: file.to_text().map_err(Problem::new)?,
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

#[pymethods]
impl Plan {
    /// The local program inside of a module of whole values, which XLA compiles and runs.
    #[getter]
    fn stablehlo(&self, py: Python<'_>) -> String {
        py.detach(|| stablehlo(&self.local))
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

    /// Operations of a device in products of matrices and convolutions, also with what these read of padding.
    #[getter]
    fn matrix_flops(&self) -> f64 {
        let program = expand_attention(&self.local.program);
        let trips = program.trips();
        program.ops.ids().map(|op| work(&program, op).padded_matrix * trips.of_op(op) as f64).sum()
    }

    /// Writes the plan to a file: whole under its name, or not at all.
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths become ours")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        py.detach(|| fs::write(&partial, &self.json).and_then(|()| fs::rename(&partial, &path)))?;
        Ok(())
    }

    fn __str__(&self) -> &str {
        &self.summary
    }

    fn __repr__(&self) -> String {
        let mesh: Vec<String> = self.axes.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        format!("<Plan for {}: {}, {} microbatches>", self.cluster, mesh.join(","), self.microbatches)
    }
}

fn axes(local: &LocalProgram) -> Axes {
    Axes::new(&local.mesh, local.arguments.iter().chain(&local.results))
}

//! Programs as Python sees them: read from text, planned, held against plans.

use std::sync::Arc;
use std::time::Instant;

use meshwright::cluster::{Cluster, ClusterError, parse, parse_bytes, parse_file};
use meshwright::codes::Code;
use meshwright::import::{Diagnostic, Severity, import};
use meshwright::interpret::{Options, Tensor, evaluate};
use meshwright::plan::{Refusal, Request, Runs, StageCount, Told, plan, plan_stages};
use meshwright::profile::MemoryModel;
use meshwright::program::Program as Parsed;
use meshwright::shard::Mesh;
use meshwright::simulate::{Engine, engine};
use meshwright::tactics::{Action, Auto, Tactic, batch_dims, check_tiles, parse as parse_tactics};
use meshwright::torch::{piece_bytes, piece_source};
use meshwright_cli::profile_report;
use meshwright_report::diagnostics::Module;
use meshwright_report::names::names;
use meshwright_report::plan::{AppliedPlan, PlanFile, check_whole, planned_program, refusal_text};
use meshwright_report::problem::Problem;
use pyo3::prelude::*;

use crate::error::{diagnosed, does_not_fit, refuse};
use crate::pipeline::Pipeline;
use crate::plan::{Plan, UNWRITTEN, WIDTH, limited};
use crate::work::interruptible;

/// A step as it is planned.
#[pyclass(frozen, module = "meshwright")]
pub(crate) struct Program {
    name: String,
    program: Arc<Parsed>,
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl Program {
    /// Reads the text of a StableHLO module in generic or pretty form.
    #[new]
    #[pyo3(signature = (text, name = "step"))]
    fn new(py: Python<'_>, text: String, name: &str) -> PyResult<Program> {
        let owned = name.to_owned();
        let read = interruptible(py, move || read(&owned, text))?;
        let (program, warnings) = read.map_err(|problem| refuse(&problem))?;
        Ok(Program { name: name.to_owned(), program: Arc::new(program), warnings })
    }

    /// The fastest way found to run it on a cluster that fits the memory, in so many stages, or with `auto` in as many
    /// as are fastest.
    #[pyo3(signature = (
        cluster, *, memory = None, mesh = None, tactics = None, microbatches = None, stages = None, engine = "xla"
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn plan(
        &self,
        py: Python<'_>,
        cluster: &str,
        memory: Option<&str>,
        mesh: Option<&str>,
        tactics: Option<&str>,
        microbatches: Option<usize>,
        stages: Option<&str>,
        engine: &str,
    ) -> PyResult<AnyPlan> {
        let words = Words { cluster, memory, mesh, tactics, microbatches, engine };
        let asked = Asked::new(&self.name, &words).map_err(|problem| refuse(&problem))?;
        let count = stages.map(stage_count).transpose().map_err(|problem| refuse(&problem))?;
        let program = Arc::clone(&self.program);
        interruptible(py, move || asked.plan(&program, count))?.map_err(Refused::into_error)
    }

    /// The step in the stages that tactics ask for.
    #[pyo3(signature = (cluster, *, memory = None, mesh = None, tactics = None, microbatches = None, engine = "xla"))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn pipeline(
        &self,
        py: Python<'_>,
        cluster: &str,
        memory: Option<&str>,
        mesh: Option<&str>,
        tactics: Option<&str>,
        microbatches: Option<usize>,
        engine: &str,
    ) -> PyResult<Pipeline> {
        let words = Words { cluster, memory, mesh, tactics, microbatches, engine };
        let asked = Asked::new(&self.name, &words).map_err(|problem| refuse(&problem))?;
        let program = Arc::clone(&self.program);
        interruptible(py, move || asked.pipeline(&program))?.map_err(Refused::into_error)
    }

    /// The plan of a file, by its text. One for another program, or another cluster, is refused.
    #[pyo3(signature = (text, name, cluster = None))]
    fn load(&self, py: Python<'_>, text: String, name: String, cluster: Option<&str>) -> PyResult<AnyPlan> {
        let (own_name, program) = (self.name.clone(), Arc::clone(&self.program));
        let cluster = cluster.map(read_cluster).transpose().map_err(|problem| refuse(&problem))?;
        let load = move || -> Result<AnyPlan, Problem> {
            let file = PlanFile::parse(&text).map_err(|problem| Problem {
                message: format!("cannot read the plan `{name}`: {}", problem.message),
                ..problem
            })?;
            let plan = AppliedPlan::new(&name, file, &program)?;
            if let Some(cluster) = &cluster {
                let refuse = |message| Problem::new(Code::OtherDevices, message).hint("plan again for these devices");
                plan.check_cluster(cluster).map_err(refuse)?;
            }
            if !plan.recipe.held.is_empty() {
                let message = format!("`{name}` leaves state on the host, which what runs plans here does not do");
                return Err(Problem::new(Code::Unplannable, message)
                    .hint("plan again here, or by a tactic with `auto = true` and `only`"));
            }
            if plan.recipe.staging.is_some() {
                return Pipeline::applied(&own_name, &program, &plan).map(AnyPlan::Pipeline);
            }
            Plan::applied(&own_name, &program, &plan).map(AnyPlan::Plan)
        };
        interruptible(py, load)?.map_err(|problem| refuse(&problem))
    }

    /// What it costs on one device, as `meshwright profile` tells it: text and JSON.
    #[pyo3(signature = (memory = "eager"))]
    fn profile(&self, py: Python<'_>, memory: &str) -> PyResult<(String, String)> {
        let model = match memory {
            "eager" => MemoryModel::Eager,
            "fused" => MemoryModel::Fused,
            _ => return Err(refuse(&Problem::new(Code::Usage, format!("there is no memory model `{memory}`")))),
        };
        let (name, program) = (self.name.clone(), Arc::clone(&self.program));
        interruptible(py, move || profile_report(&name, &program, model, WIDTH))
    }

    /// Its results by the reference interpreter, from its arguments, both as bytes.
    fn evaluate(&self, py: Python<'_>, arguments: Vec<Vec<u8>>) -> PyResult<Vec<Vec<u8>>> {
        let program = Arc::clone(&self.program);
        let evaluated = interruptible(py, move || evaluated(&program, &arguments))?;
        evaluated.map_err(|message| refuse(&Problem::new(Code::Evaluation, message)))
    }

    /// For each argument, the dimension that samples lie along: the first, unless these then depend on each other and along
    /// another they do not.
    fn batch_dims(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let program = Arc::clone(&self.program);
        interruptible(py, move || batch_dims(&program))
    }

    /// The program as Python source for PyTorch, in one function, `run`.
    fn torch_source(&self, py: Python<'_>) -> PyResult<String> {
        let source = py.detach(|| piece_source(&self.program));
        source.map_err(|message| refuse(&Problem::new(Code::Unplannable, message).hint(UNWRITTEN)))
    }

    /// The most bytes that this source has at a time, besides its arguments.
    fn torch_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        let bytes = py.detach(|| piece_bytes(&self.program));
        bytes.map_err(|message| refuse(&Problem::new(Code::Unplannable, message).hint(UNWRITTEN)))
    }

    /// The program as StableHLO text.
    #[getter]
    fn text(&self) -> String {
        self.program.to_string()
    }

    /// Names and types of the arguments.
    #[getter]
    fn arguments(&self) -> Vec<(String, String)> {
        let names = names("argument", self.program.arguments.iter().map(|argument| argument.name.as_str()));
        let types = self.program.body().arguments.iter().map(|&value| self.program.ty(value).to_string());
        names.into_iter().zip(types).collect()
    }

    /// Names and types of the results.
    #[getter]
    fn results(&self) -> Vec<(String, String)> {
        let names = names("result", self.program.results.iter().map(|result| result.name.as_str()));
        let types = self.program.body().results.iter().map(|&value| self.program.ty(value).to_string());
        names.into_iter().zip(types).collect()
    }
}

fn evaluated(program: &Parsed, arguments: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let types = program.body().arguments.iter().map(|&value| program.ty(value).clone());
    let tensors = types.zip(arguments).map(|(ty, bytes)| {
        let shown = ty.to_string();
        Tensor::from_bytes(ty, bytes).ok_or_else(|| format!("these are not the bytes of a `{shown}`"))
    });
    let tensors = tensors.collect::<Result<Vec<_>, String>>()?;
    let found = evaluate(program, &tensors, Options { wide: false }).map_err(|error| error.message)?;
    Ok(found.results.iter().map(Tensor::to_bytes).collect())
}

fn read(name: &str, text: String) -> Result<(Parsed, Vec<String>), Problem> {
    let text: Arc<str> = text.into();
    let imported = import(&text);
    let module = Module { text, first_line: 1 };
    let of = |severity: Severity| {
        let diagnostics = imported.diagnostics.iter();
        diagnostics.filter(|diagnostic| diagnostic.severity == severity).collect::<Vec<&Diagnostic>>()
    };
    let errors = of(Severity::Error);
    let Some(program) = imported.program.as_ref().filter(|_| errors.is_empty()) else {
        return Err(diagnosed(name, &module, &errors));
    };
    check_whole(program)?;
    let warnings = of(Severity::Warning).iter().map(|diagnostic| diagnostic.message.clone()).collect();
    Ok((planned_program(program).map_err(Problem::of(Code::Unplannable))?, warnings))
}

/// What is asked for, in the words of the command.
struct Words<'w> {
    cluster: &'w str,
    memory: Option<&'w str>,
    mesh: Option<&'w str>,
    tactics: Option<&'w str>,
    microbatches: Option<usize>,
    engine: &'w str,
}

/// The same understood.
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) engine: &'static Engine,
    pub(crate) whole_cluster: Cluster,
    /// With no more memory than may be used.
    pub(crate) cluster: Cluster,
    pub(crate) limit_bytes: u64,
    pub(crate) mesh: Option<Mesh>,
    pub(crate) tactics: Option<Vec<Tactic>>,
    pub(crate) microbatches: Option<usize>,
}

/// A plan as Python gets it.
#[derive(IntoPyObject)]
#[expect(clippy::large_enum_variant, reason = "it is given to Python at once")]
enum AnyPlan {
    Plan(Plan),
    Pipeline(Pipeline),
}

/// How many stages are asked for.
fn stage_count(text: &str) -> Result<StageCount, Problem> {
    let count = text.parse::<usize>().ok().filter(|&count| count > 0).map(StageCount::Exactly);
    let count = if text == "auto" { Some(StageCount::Any) } else { count };
    count.ok_or_else(|| Problem::new(Code::Usage, "`stages` has to be a number of at least 1, or `auto`"))
}

/// Why there is no plan.
pub(crate) enum Refused {
    Unplannable(Problem),
    TooLarge(Problem),
}

impl Refused {
    fn into_error(self) -> PyErr {
        match self {
            Refused::Unplannable(problem) => refuse(&problem),
            Refused::TooLarge(problem) => does_not_fit(&problem),
        }
    }
}

impl Asked {
    fn new(name: &str, words: &Words<'_>) -> Result<Asked, Problem> {
        let engine = engine(words.engine)
            .ok_or_else(|| Problem::new(Code::Engine, format!("there is no engine `{}`", words.engine)))?;
        let whole_cluster = read_cluster(words.cluster)?;
        let tactics = words.tactics.map(read_tactics).transpose()?;
        let mesh = words
            .mesh
            .map(|text| Mesh::parse(text).map_err(|message| Problem::new(Code::Mesh, format!("mesh: {message}"))));
        let mut limit_bytes = whole_cluster.memory_bytes() as u64;
        if let Some(text) = words.memory {
            let refuse = |(message, hint)| Problem::new(Code::Amount, format!("memory: {message}")).hint(hint);
            limit_bytes = limit_bytes.min(parse_bytes(text).map_err(refuse)? as u64);
        }
        let left = tactics.iter().flatten().flat_map(|tactic| &tactic.actions);
        let left = left.filter_map(|action| if let Action::Auto(auto) = action { auto.memory_bytes } else { None });
        limit_bytes = left.fold(limit_bytes, u64::min);
        if words.microbatches == Some(0) {
            return Err(Problem::new(Code::Unplannable, "a step has at least one microbatch"));
        }
        let cluster = limited(&whole_cluster, limit_bytes);
        let (mesh, microbatches) = (mesh.transpose()?, words.microbatches);
        Ok(Asked { name: name.to_owned(), engine, whole_cluster, cluster, limit_bytes, mesh, tactics, microbatches })
    }

    fn plan(&self, program: &Arc<Parsed>, count: Option<StageCount>) -> Result<AnyPlan, Refused> {
        let started = Instant::now();
        let all = Auto::default();
        let told = match &self.tactics {
            Some(tactics) => Some(Told::new(tactics, &all).map_err(|(number, message)| {
                Refused::Unplannable(Problem::new(Code::Tactic, format!("tactic {}: {message}", number + 1)))
            })?),
            None => None,
        };
        // What runs plans here leaves nothing on the host.
        let mut cluster = self.cluster.clone();
        cluster.nodes.iter_mut().for_each(|nodes| nodes.device.host.bytes_per_second = 0.0);
        let request = Request {
            program,
            cluster: &cluster,
            engine: self.engine,
            limit_bytes: self.limit_bytes,
            microbatches: self.microbatches,
            told,
            mesh: self.mesh.as_ref(),
        };
        self.check_tiles(program).map_err(Refused::Unplannable)?;
        let found = match count {
            Some(count) => plan_stages(&request, count),
            None => plan(&request),
        };
        let found = found.map_err(|refusal| match refusal {
            Refusal::Unplannable(message) => Refused::Unplannable(Problem::new(Code::Unplannable, message)),
            Refusal::TooLarge(large) => {
                let hint = "allow more `memory`, give more devices or a smaller batch, or leave `microbatches` open";
                Refused::TooLarge(
                    Problem::new(Code::DoesNotFit, refusal_text(&large, self.limit_bytes, 80).trim_end()).hint(hint),
                )
            }
        })?;
        if let Runs::Stages { .. } = found.runs {
            return Pipeline::found(self, program, found, started).map(AnyPlan::Pipeline);
        }
        let found = Plan::found(self, program, &found, started.elapsed().as_secs_f64());
        found.map(AnyPlan::Plan).map_err(Refused::Unplannable)
    }

    /// Whether what tactics want cut can be on the mesh that is given.
    fn check_tiles(&self, program: &Parsed) -> Result<(), Problem> {
        let (Some(mesh), Some(tactics)) = (&self.mesh, &self.tactics) else { return Ok(()) };
        check_tiles(program, mesh, tactics).map_err(|error| {
            let problem = Problem::new(Code::Tactic, format!("{}: {}", error.tactic, error.message));
            Problem { hint: error.hint, ..problem }
        })
    }
}

/// The name of the device that a cluster is made of, and how many it has.
#[pyfunction]
pub(crate) fn cluster_devices(cluster: &str) -> PyResult<(String, usize)> {
    let cluster = read_cluster(cluster).map_err(|problem| refuse(&problem))?;
    Ok((cluster.device(0).name.to_string(), cluster.devices()))
}

/// A cluster by its name; what has lines is a TOML file.
fn read_cluster(text: &str) -> Result<Cluster, Problem> {
    if !text.contains('\n') {
        return parse(text).map_err(|ClusterError { message, hint, .. }| Problem {
            code: Code::Cluster,
            message,
            hint,
        });
    }
    parse_file(text).map_err(|ClusterError { span, message, hint }| in_text("cluster", text, span, message, hint))
}

pub(crate) fn read_tactics(text: &str) -> Result<Vec<Tactic>, Problem> {
    parse_tactics(text).map_err(|error| in_text("tactics", text, error.span, error.message, error.hint))
}

fn in_text(name: &str, text: &str, span: std::ops::Range<usize>, message: String, hint: Option<String>) -> Problem {
    let module = Module { text: text.into(), first_line: 1 };
    let diagnostic =
        Diagnostic { code: Code::TacticsFile, severity: Severity::Error, span, message, label: String::new(), hint };
    diagnosed(name, &module, &[&diagnostic])
}

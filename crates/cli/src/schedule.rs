//! What commands that partition share: the mesh, the tactics, and what is wrong with them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use meshwright::codes::Code;
use meshwright::import::{Diagnostic, Severity};
use meshwright::lower::estimate;
use meshwright::pipeline::{Pipelined, pipeline};
use meshwright::plan::Told;
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::tactics::{self, Action, Auto, Partitioned, StageCut, Tactic, TacticError};
use meshwright_report::page::LaidOutBy;
use meshwright_report::plan::{AppliedPlan, check_whole};

use crate::diagnostics;
use crate::error::Error;
use crate::input::{self, Wanted, is_stdin};
use crate::model::{self, Model, ModelArguments, Module};
use crate::plan::read_plan;
use crate::table::count;

/// How a model is to be laid out.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArguments {
    /// Axes of the mesh and their sizes, such as `data=2,model=4`
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: String,
    /// TOML file of tactics, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) tactics: PathBuf,
}

/// How a model is to be laid out: by tactics, or as a plan says.
#[derive(Debug, Args)]
pub(crate) struct LayoutArguments {
    /// Axes of the mesh and their sizes, such as `data=2,model=4`
    #[arg(long, value_name = "AXES", required_unless_present = "plan")]
    mesh: Option<String>,
    /// TOML file of tactics, or `-` for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "plan")]
    tactics: Option<PathBuf>,
    /// File that `meshwright plan -o` wrote, instead of a mesh and tactics; what it is for goes with it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mesh", "tactics"])]
    plan: Option<PathBuf>,
}

/// A model that can be laid out, and how.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) model: Model,
    pub(crate) mesh: Mesh,
    by: By,
}

/// What decides how a model is laid out.
#[derive(Debug)]
enum By {
    Tactics(File),
    Plan(Box<AppliedPlan>),
}

/// Tactics with the text they were read from.
#[derive(Debug)]
struct File {
    name: String,
    text: Module,
    tactics: Vec<Tactic>,
    /// Where each of the tactics stands.
    spans: Vec<Range<usize>>,
}

/// Every collective lists all devices, so meshes beyond any cluster would only fill the memory.
const MAXIMUM_DEVICES: usize = 1 << 16;

impl Schedule {
    /// Reads everything; what is small comes first, so that mistakes in it are told at once.
    pub(crate) fn load(model: &ModelArguments, arguments: &ScheduleArguments) -> Result<Schedule, Error> {
        if is_stdin(&model.model) && is_stdin(&arguments.tactics) {
            return Err(Error::new(
                Code::StandardInputTwice,
                "the model and the tactics cannot both be standard input",
            )
            .hint("give one of them as a file instead of `-`"));
        }
        let mesh = parse_mesh(&arguments.mesh)?;
        let file = File::read(&arguments.tactics)?;
        let model = model::load_one(model)?;
        check_whole(&model.program)?;
        Ok(Schedule { model, mesh, by: By::Tactics(file) })
    }

    /// The same, or a plan and the model it is for.
    pub(crate) fn load_layout(model: &ModelArguments, arguments: &LayoutArguments) -> Result<Schedule, Error> {
        match arguments {
            LayoutArguments { plan: Some(path), .. } => Schedule::load_plan(model, path),
            LayoutArguments { mesh: Some(mesh), tactics: Some(tactics), plan: None } => {
                let arguments = ScheduleArguments { mesh: mesh.clone(), tactics: tactics.clone() };
                Schedule::load(model, &arguments)
            }
            LayoutArguments { .. } => Err(Error::new(Code::Usage, "give `--plan`, or `--mesh` and `--tactics`")),
        }
    }

    fn load_plan(model: &ModelArguments, path: &Path) -> Result<Schedule, Error> {
        if is_stdin(&model.model) && is_stdin(path) {
            return Err(Error::new(Code::StandardInputTwice, "the model and the plan cannot both be standard input")
                .hint("give one of them as a file instead of `-`"));
        }
        let model = model::load_planned(model)?;
        check_whole(&model.program)?;
        let plan = AppliedPlan::new(&path.display().to_string(), read_plan(path)?, &model.program)?;
        let mesh = plan.recipe.full_mesh().map_err(Error::of(Code::PlanFile))?;
        Ok(Schedule { model, mesh, by: By::Plan(Box::new(plan)) })
    }

    /// The plan that the model is laid out by, if it is one.
    pub(crate) fn plan(&self) -> Option<&AppliedPlan> {
        match &self.by {
            By::Plan(plan) => Some(plan),
            By::Tactics(_) => None,
        }
    }

    /// What lays the model out, for a page.
    pub(crate) fn laid_out_by(&self) -> LaidOutBy<'_> {
        let program = &self.model.program;
        match &self.by {
            By::Tactics(file) => LaidOutBy::Tactics { program, mesh: &self.mesh, tactics: &file.tactics },
            By::Plan(plan) => LaidOutBy::Plan { program, plan },
        }
    }

    fn tactics(&self) -> &[Tactic] {
        match &self.by {
            By::Tactics(file) => &file.tactics,
            By::Plan(_) => &[],
        }
    }

    /// Whether a tactic cuts the model into stages.
    pub(crate) fn has_stages(&self) -> bool {
        if let By::Plan(plan) = &self.by {
            return plan.recipe.staging.is_some();
        }
        let mut actions = self.tactics().iter().flat_map(|tactic| &tactic.actions);
        actions.any(|action| matches!(action, Action::Stages(_)))
    }

    /// How many devices all stages have.
    pub(crate) fn devices(&self) -> usize {
        match &self.by {
            By::Plan(plan) => plan.recipe.devices(),
            By::Tactics(_) => self.mesh.devices() * self.stage_count(),
        }
    }

    /// How many stages the model is cut into.
    pub(crate) fn stage_count(&self) -> usize {
        if let By::Plan(plan) = &self.by {
            return plan.stage_count();
        }
        let actions = self.tactics().iter().flat_map(|tactic| &tactic.actions);
        let stages = actions.filter_map(|action| match action {
            Action::Stages(stages) => Some(match &stages.cut {
                StageCut::Even(count) => *count,
                StageCut::Scopes(scopes) => scopes.len() / stages.chunks.max(1),
            }),
            _ => None,
        });
        stages.max().unwrap_or(1).max(1)
    }

    /// Applies the tactics in order and cuts the model into stages.
    pub(crate) fn pipeline(&self) -> Result<Pipelined, Error> {
        self.try_pipeline().map_err(|error| self.refuse(&error))
    }

    /// Applies the tactics in order and lowers the program.
    pub(crate) fn partition(&self) -> Result<Partitioned, Error> {
        self.try_partition().map_err(|error| self.refuse(&error))
    }

    /// The same for those who do not end where a tactic cannot be applied.
    pub(crate) fn try_pipeline(&self) -> Result<Pipelined, TacticError> {
        match &self.by {
            By::Tactics(file) => pipeline(&self.model.program, &self.mesh, &file.tactics, &estimate),
            By::Plan(plan) => plan.pipeline(&self.model.program).map_err(|message| unusable(plan, message)),
        }
    }

    pub(crate) fn try_partition(&self) -> Result<Partitioned, TacticError> {
        match &self.by {
            By::Tactics(file) => tactics::partition(&self.model.program, &self.mesh, &file.tactics, &estimate),
            By::Plan(plan) => plan.partition(&self.model.program).map_err(|message| unusable(plan, message)),
        }
    }

    /// Tells what is wrong with a tactic.
    pub(crate) fn refuse(&self, error: &TacticError) -> Error {
        match &self.by {
            By::Tactics(file) => file.refuse(error),
            By::Plan(_) => Error::new(Code::Tactic, format!("{}: {}", error.tactic, error.message)),
        }
    }
}

fn unusable(plan: &AppliedPlan, message: String) -> TacticError {
    let tactic = format!("cannot use the plan `{}`", plan.name());
    TacticError { number: None, tactic, message, hint: None }
}

fn parse_mesh(text: &str) -> Result<Mesh, Error> {
    let hint = "such as `--mesh data=2,model=4`";
    let mesh =
        Mesh::parse(text).map_err(|message| Error::new(Code::Mesh, format!("`--mesh`: {message}")).hint(hint))?;
    match mesh.devices() {
        devices if devices > MAXIMUM_DEVICES => {
            let (devices, most) = (count(devices), count(MAXIMUM_DEVICES));
            Err(Error::new(
                Code::Mesh,
                format!("`--mesh`: {devices} devices are more than {most}, the most that a mesh may have"),
            ))
        }
        _ => Ok(mesh),
    }
}

/// What a planner is given: axes, and tactics that come first.
#[derive(Debug)]
pub(crate) struct First {
    pub(crate) mesh: Option<Mesh>,
    file: Option<File>,
}

impl First {
    pub(crate) fn load(mesh: Option<&str>, tactics: Option<&Path>) -> Result<First, Error> {
        Ok(First { mesh: mesh.map(parse_mesh).transpose()?, file: tactics.map(File::read).transpose()? })
    }

    /// The memory that the tactics leave to a planner.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let actions = self.file.iter().flat_map(|file| &file.tactics).flat_map(|tactic| &tactic.actions);
        actions.filter_map(|action| if let Action::Auto(auto) = action { auto.memory_bytes } else { None }).min()
    }

    /// What is decided, and what is left.
    pub(crate) fn told<'g>(&'g self, all: &'g Auto) -> Result<Option<Told<'g>>, Error> {
        let Some(file) = &self.file else { return Ok(None) };
        let refuse = |(number, message): (usize, String)| {
            let tactic = file.tactics[number].name.clone();
            file.refuse(&TacticError { number: Some(number), tactic, message, hint: None })
        };
        Told::new(&file.tactics, all).map(Some).map_err(refuse)
    }

    /// Whether what tactics want cut can be on the mesh that is given.
    pub(crate) fn check_tiles(&self, program: &Program) -> Result<(), Error> {
        let (Some(mesh), Some(file)) = (&self.mesh, &self.file) else { return Ok(()) };
        tactics::check_tiles(program, mesh, &file.tactics).map_err(|error| file.refuse(&error))
    }
}

impl File {
    fn read(path: &Path) -> Result<File, Error> {
        let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
        let bytes = input::read(path, Wanted { kind: "tactics file", names: &[] })?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Error::new(Code::Unreadable, format!("`{name}` is not valid UTF-8")).hint("save the file as UTF-8")
        })?;
        let mut file =
            File { name, text: Module { text: text.into(), first_line: 1 }, tactics: Vec::new(), spans: Vec::new() };
        match tactics::parse_with_spans(&file.text.text) {
            Ok(parsed) if parsed.is_empty() => {
                Err(Error::new(Code::NoTactics, format!("`{}` has no tactics", file.name))
                    .hint("a tactic begins with a line `[[tactic]]`; see docs/guides/partition.md"))
            }
            Ok(parsed) => {
                (file.tactics, file.spans) = parsed.into_iter().unzip();
                Ok(file)
            }
            Err(error) => Err(file.tell(Code::TacticsFile, error.span, error.message, error.hint)),
        }
    }

    /// Tells what is wrong with a tactic, pointing at the words that are.
    fn refuse(&self, error: &TacticError) -> Error {
        match error.number.and_then(|number| self.spans.get(number)) {
            Some(span) => {
                // A tactic without a name is told by its number.
                let is_numbered = error.tactic.starts_with("tactic ");
                let quote = if is_numbered { "" } else { "`" };
                let kind = if is_numbered { "" } else { "tactic " };
                let message = format!("{kind}{quote}{}{quote}: {}", error.tactic, error.message);
                self.tell(Code::Tactic, self.find(&error.message, span), message, error.hint.clone())
            }
            None => {
                Error::new(Code::Tactic, format!("{}: {}", error.tactic, error.message)).maybe_hint(error.hint.clone())
            }
        }
    }

    /// Where the first literal of a message stands in a tactic, or else where the tactic begins.
    fn find(&self, message: &str, span: &Range<usize>) -> Range<usize> {
        let text = &*self.text.text;
        let next = self.spans.iter().map(|other| other.start).find(|&start| start > span.start);
        let end = next.unwrap_or(text.len());
        let literal = message.split('`').nth(1).filter(|literal| !literal.is_empty());
        let find =
            |words: &str| text[span.start..end].find(words).map(|at| span.start + at..span.start + at + words.len());
        let found = literal.and_then(|literal| find(&format!("\"{literal}\"")).or_else(|| find(literal)));
        found.unwrap_or_else(|| span.clone())
    }

    fn tell(&self, code: Code, span: Range<usize>, message: String, hint: Option<String>) -> Error {
        let diagnostic = Diagnostic { code, severity: Severity::Error, span, message, label: String::new(), hint };
        diagnostics::tell_all(&self.name, &[(&self.text, &diagnostic)]);
        Error::AlreadyTold
    }
}

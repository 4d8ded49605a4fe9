//! `meshwright profile`: what a step costs, without running it.

mod buffers;
mod chart;
mod json;
mod text;
mod tree;
mod vary;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use meshwright::codes::Code;
use meshwright::profile::{ByClass, Class, Holds, MemoryModel, Profile, profile};
use meshwright::program::{Phase, Program};
use meshwright_report::page::{Document, profile_document};

use crate::error::{Answer, Error};
use crate::model::{self, ModelArguments};
use crate::names::names;
use crate::output::{self, Overwrite};
use crate::page::PageArguments;
use crate::schedule::{Schedule, ScheduleArguments};
use crate::terminal::terminal_width;
use vary::{Costs, Sizes};

/// Show what a step costs: operations, parameters, and memory over time, by module
///
/// Nothing is executed or allocated. You see what is in memory when most is, how memory grows and
/// shrinks over the step, and a tree of modules with parameters, operations and what they keep for
/// the backward pass. With a mesh and tactics it is the step of one device.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
// Other commands must be told how a model is laid out; here that is left to the user.
#[command(mut_arg("mesh", |mesh| mesh.required(false).requires("tactics")))]
#[command(mut_arg("tactics", |tactics| tactics.required(false).requires("mesh")))]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    schedule: Option<ScheduleArguments>,
    /// Who gives memory to values: a compiler that fuses, as XLA, or an engine that runs op by op, as
    /// PyTorch
    #[arg(long, value_name = "MODEL", default_value = "fused")]
    memory: Memory,
    /// Levels of the tree of modules [default: 3, or all with `--json`]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Show the N kinds of buffers that take most memory at the peak
    #[arg(long, value_name = "N")]
    buffers: Option<usize>,
    /// Go through sizes of a preset, such as `batch=1,2,4` or `seq=512,1024`; may be given for both
    #[arg(long, value_name = "KEY=LIST", conflicts_with_all = ["mesh", "buffers", "depth", "html"])]
    vary: Vec<String>,
    #[command(flatten)]
    page: PageArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Memory {
    Fused,
    Ordered,
    Eager,
}

impl Memory {
    fn model(self) -> MemoryModel {
        match self {
            Memory::Fused => MemoryModel::Fused,
            Memory::Ordered => MemoryModel::Ordered,
            Memory::Eager => MemoryModel::Eager,
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  meshwright profile llama3-8b --set layers=4
  meshwright profile step.mlir --memory eager --buffers 10
  meshwright profile gpt2 --memory eager --vary batch=1,8,64 --vary seq=512,1024
  meshwright profile step.mlir --mesh data=8 --tactics zero.toml --json | jq .peak_bytes";

/// Levels of the tree that people see unless they ask for others.
const DEPTH: usize = 3;

/// Buffers that programs see unless they ask for others.
const BUFFERS: usize = 20;

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    arguments.page.check(arguments.overwrite)?;
    if !arguments.vary.is_empty() {
        return vary(arguments);
    }
    let (program, devices) = match &arguments.schedule {
        Some(schedule) => {
            let schedule = Schedule::load(&arguments.model, schedule)?;
            let devices = Devices { mesh: schedule.mesh.to_string(), count: schedule.mesh.devices() };
            (schedule.partition()?.local.program, Some(devices))
        }
        None => (Arc::new(model::load_one(&arguments.model)?.program), None),
    };
    let name = file_name(&arguments.model.model);
    let summary = Summary::new(name, arguments.memory.model(), &program, devices);
    if arguments.json {
        let depth = arguments.depth.unwrap_or(usize::MAX);
        output::print_json(&summary.to_json(depth, arguments.buffers.unwrap_or(BUFFERS)))?;
    } else {
        let depth = arguments.depth.unwrap_or(DEPTH);
        let text = summary.to_text(terminal_width(), depth, arguments.buffers);
        output::print(text.as_bytes())?;
    }
    let text = |width| summary.to_text(width, DEPTH, arguments.buffers);
    arguments.page.write(arguments.overwrite, || summary.to_document(), text)?;
    Ok(Answer::Yes)
}

/// What the command tells of a program, as text and as JSON.
pub fn profile_report(name: &str, program: &Program, memory_model: MemoryModel, width: usize) -> (String, String) {
    let summary = Summary::new(name.to_owned(), memory_model, program, None);
    (summary.to_text(width, DEPTH, None), summary.to_json(usize::MAX, BUFFERS).to_string())
}

fn vary(arguments: &Arguments) -> Result<Answer, Error> {
    let model = model::preset(&arguments.model)?.ok_or_else(|| {
        let name = arguments.model.model.display();
        Error::new(Code::Vary, format!("`{name}` is a file, whose sizes are what they are"))
            .hint("`--vary` changes a preset; `meshwright models` lists them")
    })?;
    let costs = Costs::new(&model, arguments.memory.model(), &Sizes::parse(&arguments.vary, &model)?)?;
    if arguments.json {
        output::print_json(&costs.to_json())?;
    } else {
        output::print(costs.to_text(terminal_width()).as_bytes())?;
    }
    Ok(Answer::Yes)
}

/// Everything there is to tell.
struct Summary<'p> {
    name: String,
    devices: Option<Devices>,
    profile: Profile<'p>,
    argument_names: Vec<String>,
    result_names: Vec<String>,
    /// Bytes of each class while each step runs.
    timeline: Vec<ByClass>,
    /// The step that finds most in memory.
    peak_step: Option<usize>,
    /// How long the profile took.
    seconds: f64,
}

/// Where the profiled program is one of several.
struct Devices {
    mesh: String,
    count: usize,
}

impl<'p> Summary<'p> {
    fn new(name: String, memory_model: MemoryModel, program: &'p Program, devices: Option<Devices>) -> Summary<'p> {
        let started = Instant::now();
        let profile = profile(program, memory_model);
        let seconds = started.elapsed().as_secs_f64();
        let (timeline, peak_step) = (profile.memory.timeline(), profile.memory.peak_step());
        Summary {
            name,
            devices,
            profile,
            argument_names: names("argument", program.arguments.iter().map(|argument| argument.name.as_str())),
            result_names: names("result", program.results.iter().map(|result| result.name.as_str())),
            timeline,
            peak_step,
            seconds,
        }
    }

    fn to_document(&self) -> Document {
        let title = match &self.devices {
            Some(devices) => format!("{} on {}", self.name, devices.mesh),
            None => self.name.clone(),
        };
        let json = self.to_json(usize::MAX, BUFFERS);
        profile_document(title, self.verdict().trim_end().to_owned(), &self.profile, json)
    }

    fn program(&self) -> &Program {
        &self.profile.program
    }

    fn flops(&self, phase: Option<Phase>) -> f64 {
        self.profile.flops(self.profile.work(phase))
    }

    /// Bytes of each class when most is in memory. A step in which nothing runs has its arguments.
    fn at_peak(&self) -> ByClass {
        if let Some(step) = self.peak_step {
            return self.timeline[step];
        }
        let mut classes = ByClass::default();
        self.profile.memory.buffers.iter().for_each(|buffer| classes[buffer.class as usize] += buffer.bytes);
        classes
    }

    fn peak_bytes(&self) -> usize {
        self.at_peak().iter().sum()
    }

    /// Bytes of arguments, and of results that overwrite none: they are there all the time.
    fn resident_bytes(&self) -> usize {
        let is_resident = |holds| matches!(holds, Holds::Argument(_) | Holds::Result(_));
        let resident = self.profile.memory.buffers.iter().filter(|buffer| is_resident(buffer.holds));
        resident.map(|buffer| buffer.bytes).sum()
    }

    fn parameter_bytes(&self) -> usize {
        let weights = self.profile.weights().map(|index| self.program().body().arguments[index]);
        weights.map(|value| self.program().ty(value).bytes()).sum()
    }

    /// Bytes while each step runs, as at most so many points: each is the most of some steps.
    fn points(&self, most: usize) -> Vec<usize> {
        let totals: Vec<usize> = self.timeline.iter().map(|classes| classes.iter().sum()).collect();
        let count = most.min(totals.len());
        let stretch = |point: usize| point * totals.len() / count..(point + 1) * totals.len() / count;
        (0..count).map(|point| totals[stretch(point)].iter().copied().max().unwrap_or(0)).collect()
    }
}

/// A file is known by its name, wherever it is.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).display().to_string()
}

const PHASES: [Phase; 3] = [Phase::Forward, Phase::Backward, Phase::Update];

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Update => "update",
    }
}

/// The classes in which there is something, with their bytes.
fn present(classes: ByClass) -> impl Iterator<Item = (Class, usize)> {
    Class::ALL.into_iter().zip(classes).filter(|(_, bytes)| *bytes > 0)
}

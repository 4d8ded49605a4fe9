//! `meshwright partition`: lays a model out by tactics and says what that costs.

mod json;
mod staged;
mod text;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use meshwright::codes::Code;
use meshwright::lower::{LocalProgram, Measures, stablehlo};
use meshwright::program::{ArgumentClass, Program, Type};
use meshwright::shard::{Mesh, Sharding};
use meshwright::tactics::Partitioned;

use crate::error::{Answer, Error, tell};
use crate::model::ModelArguments;
use crate::names::names;
use crate::output::{self, Overwrite};
use crate::schedule::{LayoutArguments, Schedule};
use crate::terminal::terminal_width;

use staged::StagedSummary;

/// Lay a model out on a mesh by tactics or a plan, and show what that costs
///
/// Tactics apply in order; after each you see how many collectives a step runs, how many bytes a
/// device sends, the most memory it needs, and a first estimate of the time that takes. Then come
/// conflicts between tactics, how arguments and results lie, and the dearest reshards with the
/// reason for each.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    schedule: LayoutArguments,
    /// Print the partitioned program instead: `local` is what one device runs, `stablehlo` a module
    /// of whole values that XLA runs on all of them
    #[arg(long, value_name = "FORM")]
    emit: Option<Form>,
    /// Write the program of `--emit` to a file, and the summary to standard output
    #[arg(short, long, value_name = "FILE", requires = "emit")]
    output: Option<PathBuf>,
    /// Show every kind of reshard, not only the ten dearest
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Local,
    Stablehlo,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright partition llama3-8b --mesh data=2,model=4 --tactics megatron.toml
  meshwright partition step.mlir --mesh data=8 --tactics zero.toml --json | jq .collectives
  meshwright partition step.mlir --mesh data=8 --tactics zero.toml --emit local | less
  meshwright partition step.mlir --plan plan.json --emit stablehlo -o local.mlir";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let started = Instant::now();
    if arguments.json && arguments.emit.is_some() && arguments.output.is_none() {
        return Err(Error::new(Code::FlagsExclude, "`--json` and `--emit` both write to standard output")
            .hint("give `-o FILE` for the program, or leave one of them out"));
    }
    if let Some(path) = &arguments.output {
        output::check(path, arguments.overwrite)?;
    }
    let schedule = Schedule::load_layout(&arguments.model, &arguments.schedule)?;
    if schedule.has_stages() {
        return execute_stages(arguments, &schedule, started);
    }
    let partitioned = schedule.partition()?;
    let summary = Summary {
        name: arguments.model.model.display().to_string(),
        program: &partitioned.program,
        mesh: &partitioned.local.mesh,
        partitioned: &partitioned,
        seconds: started.elapsed().as_secs_f64(),
    };
    let emitted = arguments.emit.map(|form| emit(form, &partitioned.local));
    let to_text = || summary.to_text(terminal_width(), arguments.all);
    answer(arguments, emitted, to_text, || summary.to_json())
}

fn execute_stages(arguments: &Arguments, schedule: &Schedule, started: Instant) -> Result<Answer, Error> {
    if arguments.emit == Some(Form::Stablehlo) {
        let message = "a model in stages is no single module";
        return Err(Error::new(Code::FlagsExclude, message).hint("`--emit local` prints what every stage runs"));
    }
    let pipelined = schedule.pipeline()?;
    let summary = StagedSummary {
        name: arguments.model.model.display().to_string(),
        pipelined: &pipelined,
        seconds: started.elapsed().as_secs_f64(),
    };
    let emitted = arguments.emit.map(|_| staged::emit(&pipelined.pipeline));
    answer(arguments, emitted, || summary.to_text(terminal_width()), || summary.to_json())
}

/// Prints or writes what was asked for.
fn answer(
    arguments: &Arguments,
    emitted: Option<String>,
    to_text: impl Fn() -> String,
    to_json: impl Fn() -> serde_json::Value,
) -> Result<Answer, Error> {
    match (emitted, &arguments.output) {
        (Some(text), None) => {
            output::print(text.as_bytes())?;
            // People see what it costs, programs read nothing but the program.
            if io::stderr().is_terminal() {
                tell(to_text().trim_end());
            }
            return Ok(Answer::Yes);
        }
        (Some(text), Some(path)) => output::write(path, text.as_bytes(), arguments.overwrite)?,
        (None, _) => {}
    }
    if arguments.json {
        output::print_json(&to_json())?;
    } else {
        output::print(to_text().as_bytes())?;
    }
    Ok(Answer::Yes)
}

fn emit(form: Form, local: &LocalProgram) -> String {
    match form {
        Form::Local => local.program.to_string(),
        Form::Stablehlo => stablehlo(local),
    }
}

/// Everything there is to tell.
struct Summary<'a> {
    name: String,
    program: &'a Program,
    mesh: &'a Mesh,
    partitioned: &'a Partitioned,
    seconds: f64,
}

impl Summary<'_> {
    /// What the program costs once all tactics are applied.
    fn measures(&self) -> Measures {
        self.partitioned.feedback.last().map(|feedback| feedback.measures.clone()).unwrap_or_default()
    }

    fn tactic(&self, number: u16) -> &str {
        self.partitioned.feedback.get(usize::from(number)).map_or("?", |feedback| &feedback.tactic)
    }

    fn arguments(&self) -> Vec<Stored<'_>> {
        let names = names("argument", self.program.arguments.iter().map(|argument| argument.name.as_str()));
        let rows = names.into_iter().zip(&self.partitioned.anatomy.classes).zip(&self.program.body().arguments);
        rows.zip(&self.partitioned.local.arguments)
            .map(|(((name, &class), &value), sharding)| Stored {
                name,
                class: Some(class),
                ty: self.program.ty(value),
                sharding,
            })
            .collect()
    }

    fn results(&self) -> Vec<Stored<'_>> {
        let names = names("result", self.program.results.iter().map(|result| result.name.as_str()));
        let rows = names.into_iter().zip(&self.program.body().results).zip(&self.partitioned.local.results);
        rows.map(|((name, &value), sharding)| Stored { name, class: None, ty: self.program.ty(value), sharding })
            .collect()
    }
}

/// An argument or result and how it lies.
struct Stored<'s> {
    name: String,
    /// What an argument is for; `None` for a result.
    class: Option<ArgumentClass>,
    ty: &'s Type,
    sharding: &'s Sharding,
}

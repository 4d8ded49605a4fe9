//! `meshwright print`: a model as StableHLO text, inlined and cleaned.

use std::path::PathBuf;

use clap::Args;
use meshwright::codes::Code;
use meshwright::program::{self, AttentionForm, PrintOptions, Program};

use crate::error::{Answer, Error};
use crate::model::{self, ModelArguments};
use crate::output::{self, Overwrite};

/// Print a model as StableHLO, with calls inlined and dead code gone
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print where each operation came from
    #[arg(long)]
    locations: bool,
    /// Write out loops whose number of trips is known
    #[arg(long)]
    unroll: bool,
    /// Print attention as plain StableHLO instead of one call
    #[arg(long)]
    expand_attention: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright print step.mlir.gz | less
  meshwright print step.mlir -o clean.mlir";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if let Some(path) = &arguments.output {
        output::check(path, arguments.overwrite)?;
    }
    let models = model::load(&arguments.model)?;
    let mut texts = Vec::new();
    for model in models {
        texts.push(text(model.program, arguments)?);
    }
    let text = texts.join("// -----\n");
    match &arguments.output {
        Some(path) => output::write(path, text.as_bytes(), arguments.overwrite)?,
        None => output::print(text.as_bytes())?,
    }
    Ok(Answer::Yes)
}

fn text(program: Program, arguments: &Arguments) -> Result<String, Error> {
    let program = if arguments.unroll {
        let refused = |error| {
            Error::new(Code::Unplannable, format!("cannot unroll the loops: {error}")).hint("leave `--unroll` out")
        };
        program.unroll().map_err(refused)?
    } else {
        program
    };
    let attention = if arguments.expand_attention { AttentionForm::Expanded } else { AttentionForm::CustomCall };
    Ok(program::print(&program, PrintOptions { locations: arguments.locations, attention }))
}

//! `meshwright print`: a model as StableHLO text, inlined and cleaned.

use std::path::PathBuf;

use clap::Args;

use crate::error::{Answer, Error};
use crate::model::{self, MODEL_HELP};
use crate::output::{self, Overwrite};

/// Print a model as StableHLO, with calls inlined and dead code gone
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[arg(help = MODEL_HELP)]
    model: PathBuf,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
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
    let texts: Vec<String> = models.iter().map(|model| format!("{:?}", model.program)).collect();
    let text = texts.join("\n// -----\n\n");
    match &arguments.output {
        Some(path) => output::write(path, text.as_bytes(), arguments.overwrite)?,
        None => output::print(text.as_bytes())?,
    }
    Ok(Answer::Yes)
}

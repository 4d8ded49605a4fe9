//! `meshwright run`: evaluates a model with the reference interpreter.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use meshwright::codes::Code;
use meshwright::interpret::{
    CheckFailure, EvaluateError, Evaluation, Options, Tensor, check_sizes, evaluate, generate_arguments,
};
use meshwright::program::Program;
use serde_json::json;

use crate::error::{Answer, Error};
use crate::input::is_stdin;
use crate::model::{self, Model, ModelArguments};
use crate::names::numbered;
use crate::output::{self, Overwrite};
use crate::place::place;
use crate::table::{count, counted};
use crate::tensors;

/// Evaluate a model with the reference interpreter
///
/// Inputs are generated from a seed or read from a file. Checks in the model (`check.expect_*`)
/// are counted; a failed check makes the exit code 1. A file may hold several modules, separated
/// by lines `// -----`; they are evaluated in turn.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Seed of the generated inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Read inputs from a safetensors file, plain or compressed with gzip; tensors are named like
    /// the arguments, or `argument.0`, `argument.1` and so on
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    inputs: Option<PathBuf>,
    /// Write results to a safetensors file, named `result.0`, `result.1` and so on
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
    /// Compute floats in f64 throughout, without rounding to their own types
    #[arg(long)]
    wide: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright run step.mlir
  meshwright run step.mlir --seed 7 --json
  meshwright run step.mlir --inputs batch.safetensors --outputs results.safetensors";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if is_stdin(&arguments.model.model) && arguments.inputs.as_deref().is_some_and(is_stdin) {
        return Err(Error::new(Code::StandardInputTwice, "the model and the inputs cannot both be standard input")
            .hint("give one of them as a file instead of `-`"));
    }
    if let Some(path) = &arguments.outputs {
        output::check(path, arguments.overwrite)?;
    }
    let models = if arguments.inputs.is_some() || arguments.outputs.is_some() {
        vec![model::load_one(&arguments.model)?]
    } else {
        model::load(&arguments.model)?
    };
    let mut runs = Vec::new();
    for model in &models {
        runs.push(run(model, arguments)?);
    }
    if let (Some(path), [run]) = (&arguments.outputs, &*runs) {
        write_results(path, run, arguments.overwrite)?;
    }
    if arguments.json {
        output::print_json(&to_json(&runs))?;
    } else {
        output::print(to_text(&runs).as_bytes())?;
    }
    Ok(if runs.iter().all(|run| run.evaluation.failures.is_empty()) { Answer::Yes } else { Answer::No })
}

/// One evaluated module.
#[derive(Debug)]
struct Run<'a> {
    program: &'a Program,
    evaluation: Evaluation,
}

impl Run<'_> {
    /// The tensors with their names by place and, where known, their own names.
    fn results(&self) -> impl Iterator<Item = (String, &str, &Tensor)> {
        let results = self.evaluation.results.iter().zip(&self.program.results).enumerate();
        results.map(|(index, (tensor, info))| (numbered("result", index), info.name.as_str(), tensor))
    }
}

fn run<'a>(model: &'a Model, arguments: &Arguments) -> Result<Run<'a>, Error> {
    let program = &model.program;
    check_sizes(program).map_err(|error| {
        refused(program, &error).hint("evaluate a smaller one: `--set` changes the sizes of a preset")
    })?;
    let inputs = match &arguments.inputs {
        Some(path) => tensors::read(path, program)?,
        None => generate_arguments(program, arguments.seed),
    };
    let evaluation =
        evaluate(program, &inputs, Options { wide: arguments.wide }).map_err(|error| refused(program, &error))?;
    Ok(Run { program, evaluation })
}

pub(crate) fn refused(program: &Program, error: &EvaluateError) -> Error {
    let place = place(program, error.location).map(|place| format!(" at {place}")).unwrap_or_default();
    Error::new(Code::Evaluation, format!("cannot evaluate the model{place}: {}", error.message))
}

fn write_results(path: &Path, run: &Run<'_>, overwrite: Overwrite) -> Result<(), Error> {
    let data = tensors::serialize(&run.evaluation.results)?;
    output::write(path, &data, overwrite)
}

fn to_text(runs: &[Run<'_>]) -> String {
    let mut text = String::new();
    for (index, run) in runs.iter().enumerate() {
        if runs.len() > 1 {
            let colon = if run.program.name.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "module {index}{colon}{}", run.program.name);
        }
        let name_width = run.results().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let type_width = run.results().map(|(.., tensor)| tensor.ty.to_string().len()).max().unwrap_or(0);
        for (name, path, tensor) in run.results() {
            let ty = tensor.ty.to_string();
            let line = format!("{name:name_width$}  {ty:type_width$}  checksum {}  {path}", checksum(tensor));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for failure in &run.evaluation.failures {
            let _ = writeln!(text, "failed: {}", failure_text(run.program, failure));
        }
    }
    let (passed, failed) = checks(runs);
    let _ = writeln!(text, "{} passed, {} failed", counted(passed, "check"), count(failed));
    text
}

fn to_json(runs: &[Run<'_>]) -> serde_json::Value {
    let (mut results, mut failures) = (Vec::new(), Vec::new());
    for (module, run) in runs.iter().enumerate() {
        for (name, path, tensor) in run.results() {
            let ty = tensor.ty.to_string();
            let checksum = checksum(tensor);
            results.push(json!({"module": module, "name": name, "path": path, "type": ty, "checksum": checksum}));
        }
        for failure in &run.evaluation.failures {
            let place = place(run.program, failure.location);
            failures.push(json!({"module": module, "message": failure.message, "location": place}));
        }
    }
    let (passed, failed) = checks(runs);
    json!({"checks": {"passed": passed, "failed": failed}, "results": results, "failures": failures})
}

fn checks(runs: &[Run<'_>]) -> (usize, usize) {
    let passed = runs.iter().map(|run| run.evaluation.checks_passed).sum();
    let failed = runs.iter().map(|run| run.evaluation.failures.len()).sum();
    (passed, failed)
}

fn failure_text(program: &Program, failure: &CheckFailure) -> String {
    match place(program, failure.location) {
        Some(place) => format!("{} at {place}", failure.message),
        None => failure.message.clone(),
    }
}

/// A number that changes when any stored byte does: FNV-1a of 64 bits.
fn checksum(tensor: &Tensor) -> String {
    let hash = tensor
        .to_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

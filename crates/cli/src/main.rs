//! The `meshwright` command.

mod inspect;
mod models;
mod print;
mod run;
mod solve;

mod model;

mod diagnostics;
mod error;
mod output;
mod suggest;
mod table;
mod tensors;
mod usage;

#[cfg(test)]
mod reference;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Turns a single-device training step into a distributed one
#[derive(Debug, Parser)]
#[command(name = "meshwright", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Arguments),
    Models(models::Arguments),
    Print(print::Arguments),
    Run(run::Arguments),
    Solve(solve::Arguments),
}

const AFTER_HELP: &str = "\
Examples:
  meshwright inspect gpt-2.6b            what is in a model
  meshwright run step.mlir --seed 1      evaluate it on generated inputs
  meshwright print step.mlir | less      read it, inlined and cleaned

Exit codes: 0 success, 1 the answer is no, 2 bad input or usage.";

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => return usage::finish(&error),
    };
    error::finish(match command {
        Command::Inspect(arguments) => inspect::execute(&arguments),
        Command::Models(arguments) => models::execute(&arguments),
        Command::Print(arguments) => print::execute(&arguments),
        Command::Run(arguments) => run::execute(&arguments),
        Command::Solve(arguments) => solve::execute(&arguments),
    })
}

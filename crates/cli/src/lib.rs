//! The `meshwright` command, as a library: a binary of its own starts it, and so does the Python package.

mod calibrate;
mod clusters;
mod diff;
mod explain;
mod inspect;
mod models;
mod partition;
mod plan;
mod print;
mod profile;
mod run;
mod simulate;
mod solve;
mod sweep;
mod validate;
mod verify;

mod cluster;
mod model;
mod schedule;

mod diagnostics;
mod error;
mod input;
mod output;
mod page;
mod suggest;
mod tensors;
mod terminal;
mod usage;

#[cfg(test)]
mod reference;

pub use profile::profile_report;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::{Parser, Subcommand};
use meshwright_report::{names, place, table};

/// Turns a single-device training step into a distributed one
#[derive(Debug, Parser)]
#[command(name = "meshwright", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Calibrate(calibrate::Arguments),
    Clusters(clusters::Arguments),
    Diff(diff::Arguments),
    Explain(explain::Arguments),
    Inspect(inspect::Arguments),
    Models(models::Arguments),
    Partition(partition::Arguments),
    Plan(plan::Arguments),
    Print(print::Arguments),
    Profile(profile::Arguments),
    Run(run::Arguments),
    Simulate(simulate::Arguments),
    Solve(solve::Arguments),
    Sweep(sweep::Arguments),
    Validate(validate::Arguments),
    Verify(verify::Arguments),
}

const AFTER_HELP: &str = "\
Examples:
  meshwright inspect gpt-2.6b            what is in a model
  meshwright profile gpt-2.6b            what a step of it costs
  meshwright run step.mlir --seed 1      evaluate it on generated inputs
  meshwright print step.mlir | less      read it, inlined and cleaned
  meshwright partition gpt-2.6b --mesh data=8 --tactics zero.toml
                                         cut it, and see what that costs
  meshwright simulate gpt-2.6b --cluster 8xh100 --mesh data=8 --tactics zero.toml
                                         how fast that runs, and whether it fits
  meshwright plan gpt-2.6b --cluster 8xh100
                                         the fastest way to run it that fits
  meshwright explain plan.json           why a plan that `plan -o` wrote is what it is
  meshwright explain MW060               what the code of an error means

Exit codes: 0 success, 1 the answer is no, 2 bad input or usage.";

/// Runs the command with a command line, whose first word is the name of the program, and gives its exit code.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let code = match Arguments::try_parse_from(words) {
        Ok(arguments) => error::finish(execute(arguments.command)),
        Err(error) => usage::finish(&error),
    };
    // A process that is not ours does not do so at its end. That nobody reads is no error.
    let _ = io::stdout().flush();
    code
}

fn execute(command: Command) -> Result<error::Answer, error::Error> {
    match command {
        Command::Calibrate(arguments) => calibrate::execute(&arguments),
        Command::Clusters(arguments) => clusters::execute(&arguments),
        Command::Diff(arguments) => diff::execute(&arguments),
        Command::Explain(arguments) => explain::execute(&arguments),
        Command::Inspect(arguments) => inspect::execute(&arguments),
        Command::Models(arguments) => models::execute(&arguments),
        Command::Partition(arguments) => partition::execute(&arguments),
        Command::Plan(arguments) => plan::execute(&arguments),
        Command::Print(arguments) => print::execute(&arguments),
        Command::Profile(arguments) => profile::execute(&arguments),
        Command::Run(arguments) => self::run::execute(&arguments),
        Command::Simulate(arguments) => simulate::execute(&arguments),
        Command::Solve(arguments) => solve::execute(&arguments),
        Command::Sweep(arguments) => sweep::execute(&arguments),
        Command::Validate(arguments) => validate::execute(&arguments),
        Command::Verify(arguments) => verify::execute(&arguments),
    }
}

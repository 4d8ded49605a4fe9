//! Starts the `meshwright` command.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(meshwright_cli::run(env::args_os()))
}

//! `meshwright calibrate`: measures the devices of this machine and writes them as a cluster.

mod measure;
mod text;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use meshwright::codes::Code;
use meshwright::simulate::calibrate;

use crate::error::{Answer, Error, tell};
use crate::output::{self, Overwrite};

/// Measure the devices of this machine, and write a cluster file that fits them
///
/// Products, chains of elementwise ops and collectives of many sizes run through JAX or PyTorch, on
/// all devices at once. Rates, shares and latencies are fitted to the times, with the model that
/// plans are made with.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// What to measure through [default: what the interpreter has, JAX first]
    #[arg(long)]
    engine: Option<Engine>,
    /// Interpreter that has the engine
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    python: PathBuf,
    /// How many devices to measure [default: all, or up to eight cores of a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    devices: Option<u16>,
    /// Measure for about 15 seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// Write the cluster as a TOML file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Jax,
    Torch,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright calibrate -o mine.toml
  meshwright calibrate --engine torch --python ~/venv/bin/python --quick
  meshwright clusters mine.toml";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if let Some(path) = &arguments.output {
        output::check(path, arguments.overwrite)?;
    }
    let time = if arguments.quick { "15 seconds" } else { "a minute" };
    tell(format_args!("measuring through `{}`, which takes about {time}", arguments.python.display()));
    let begin = Instant::now();
    let measured = measure::run(arguments)?;
    let seconds = begin.elapsed().as_secs_f64();
    let fitted = calibrate(&measured.node, &measured.device, &measured.collectives).map_err(|error| {
        Error::new(Code::Measuring, error.to_string())
            .hint("measure without `--quick`, while the machine does nothing else")
    })?;
    if let Some(path) = &arguments.output {
        let head = text::file_head(&measured);
        output::write(path, format!("{head}{}", fitted.cluster.to_toml()).as_bytes(), arguments.overwrite)?;
    }
    if arguments.json {
        output::print_json(&text::object(&measured, &fitted, seconds))?;
    } else {
        output::print(text::report(&measured, &fitted).as_bytes())?;
        match &arguments.output {
            Some(path) => output::print(format!("\nwrote `{}`\n", path.display()).as_bytes())?,
            None => tell("\nnothing was written: give `-o mine.toml` for a file"),
        }
    }
    Ok(Answer::Yes)
}

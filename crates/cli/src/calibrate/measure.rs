//! Runs the script that measures, and reads what it prints.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use meshwright::cluster::{Collective, MeasuredCollective};
use meshwright::codes::Code;
use meshwright::program::DType;
use meshwright::simulate::{MeasuredChain, MeasuredLaunches, MeasuredNode, MeasuredProduct, Measurements, Product};
use serde_json::Value;

use super::{Arguments, Engine};
use crate::error::{Error, reason};

/// What the script found.
#[derive(Debug)]
pub(super) struct Measured {
    /// The engine and its version, such as `jax 0.10.2`.
    pub(super) engine: String,
    pub(super) node: MeasuredNode,
    pub(super) device: Measurements,
    pub(super) collectives: Vec<MeasuredCollective>,
    /// For each kind, by how much the median of a time is above its best, in the order of the lines.
    pub(super) noise: Vec<(Kind, f64)>,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Launches,
    Chain,
    Product,
    Collective,
}

const SCRIPT: &str = include_str!("measure.py");

/// Beyond this nothing more is to be expected: the script ends by itself after a minute, and importing an engine
/// from a slow disk takes another.
const LIMIT: Duration = Duration::from_secs(300);

/// Measures with the interpreter and engine that the user wants.
pub(super) fn run(arguments: &Arguments) -> Result<Measured, Error> {
    let unwritable = |error: &std::io::Error| {
        Error::new(Code::Measuring, format!("cannot write the script that measures: {}", reason(error)))
    };
    // The script starts itself again for each device of PyTorch, so that it has to be a file.
    let mut script =
        tempfile::Builder::new().prefix("meshwright-").suffix(".py").tempfile().map_err(|error| unwritable(&error))?;
    script.write_all(SCRIPT.as_bytes()).map_err(|error| unwritable(&error))?;
    let mut command = Command::new(&arguments.python);
    command.arg(script.path()).args(["--seconds", if arguments.quick { "10" } else { "45" }]);
    if let Some(engine) = arguments.engine {
        command.args(["--engine", if engine == Engine::Jax { "jax" } else { "torch" }]);
    }
    if let Some(devices) = arguments.devices {
        command.args(["--devices", &devices.to_string()]);
    }
    let lines = output(&arguments.python, &mut command)?;
    read(&arguments.python, &lines)
}

/// What the interpreter prints, if it ends well and in time.
fn output(python: &Path, command: &mut Command) -> Result<String, Error> {
    let shown = python.display();
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| {
        Error::new(Code::Measuring, format!("cannot run `{shown}`: {}", reason(&error)))
            .hint("name an interpreter that has JAX or PyTorch with `--python`")
    })?;
    let (printed, told) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let Some(status) = wait(&mut child) else {
        return Err(Error::new(Code::Measuring, format!("`{shown}` still measured after {} seconds", LIMIT.as_secs()))
            .hint("give `--quick`, or fewer `--devices`"));
    };
    if status.success() {
        return Ok(printed.join().unwrap_or_default());
    }
    let told = told.join().unwrap_or_default();
    let lines: Vec<&str> = told.lines().filter(|line| !line.trim().is_empty()).collect();
    let last: Vec<String> =
        lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| format!("  {line}")).collect();
    let end = match status.code() {
        Some(code) => format!("ended with code {code}"),
        None => "was ended".to_owned(),
    };
    let told = if last.is_empty() { String::new() } else { format!(", after it said\n\n{}", last.join("\n")) };
    Err(Error::new(Code::Measuring, format!("`{shown}` {end} while it measured{told}")))
}

/// Lines of a failure that are shown: the error and the innermost calls.
const LAST_LINES: usize = 6;

/// Reads all of a stream while the child runs, which would wait for a full pipe.
fn reader(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read before an error is all there is to show.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// How the child ended; none if it had to be ended.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(20));
    }
    // A child that ended just now is none to end.
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn read(python: &Path, lines: &str) -> Result<Measured, Error> {
    let mut measured: Option<Measured> = None;
    for line in lines.lines() {
        let object: Value = serde_json::from_str(line).map_err(|_| unreadable(python, line))?;
        match (object["kind"].as_str(), &mut measured) {
            (Some("missing"), _) => return Err(missing(python, &object)),
            (Some("device"), _) => measured = Some(device(&object).ok_or_else(|| unreadable(python, line))?),
            (Some(kind), Some(measured)) => add(measured, kind, &object).ok_or_else(|| unreadable(python, line))?,
            _ => return Err(unreadable(python, line)),
        }
    }
    measured.ok_or_else(|| {
        Error::new(Code::Measuring, format!("`{}` printed no measurements", python.display())).hint(INTERPRETER)
    })
}

const INTERPRETER: &str = "`--python` names an interpreter of Python with JAX or PyTorch";

fn unreadable(python: &Path, line: &str) -> Error {
    let start: String = line.chars().take(80).collect();
    Error::new(Code::Measuring, format!("`{}` printed what is no measurement: `{start}`", python.display()))
        .hint(INTERPRETER)
}

fn missing(python: &Path, object: &Value) -> Error {
    let shown = python.display();
    let asked = object["engines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (message, packages) = match asked {
        [only] if only == "jax" => (format!("`{shown}` has no JAX"), "jax"),
        [only] if only == "torch" => (format!("`{shown}` has no PyTorch"), "torch"),
        _ => (format!("`{shown}` has neither JAX nor PyTorch"), "jax"),
    };
    let extra =
        if packages == "jax" { ", with `jax[cuda13]` for devices of NVIDIA and `jax[tpu]` for TPUs" } else { "" };
    Error::new(Code::Measuring, message)
        .hint(format!("run `{shown} -m pip install {packages}`{extra}, or name another interpreter with `--python`"))
}

fn device(object: &Value) -> Option<Measured> {
    Some(Measured {
        engine: format!("{} {}", object["engine"].as_str()?, object["version"].as_str()?),
        node: MeasuredNode {
            name: object["name"].as_str()?.to_owned(),
            devices: count(object, "devices")?,
            memory_bytes: count(object, "memory_bytes")?,
            processors: count(object, "processors"),
        },
        device: Measurements::default(),
        collectives: Vec::new(),
        noise: Vec::new(),
    })
}

/// Adds a line; none if it lacks something.
fn add(measured: &mut Measured, kind: &str, object: &Value) -> Option<()> {
    let seconds = object["seconds"].as_f64()?;
    let kind = match kind {
        "launches" => {
            measured.device.launches.push(MeasuredLaunches { kernels: count(object, "kernels")?, seconds });
            Kind::Launches
        }
        "chain" => {
            measured.device.chains.push(MeasuredChain { bytes: count(object, "bytes")?, seconds });
            Kind::Chain
        }
        "product" => {
            measured.device.products.push(product(object, seconds)?);
            Kind::Product
        }
        "collective" => {
            let (devices, bytes) = (count(object, "devices")?, count(object, "bytes")?);
            let collective = collective(object["collective"].as_str()?)?;
            measured.collectives.push(MeasuredCollective { collective, devices, bytes, seconds });
            Kind::Collective
        }
        _ => return None,
    };
    measured.noise.push((kind, object["median_seconds"].as_f64()? / seconds - 1.0));
    Some(())
}

fn product(object: &Value, seconds: f64) -> Option<MeasuredProduct> {
    let dtype = object["dtype"].as_str()?;
    let is_tf32 = dtype == "tf32";
    let dtype = if is_tf32 { DType::F32 } else { DType::from_name(dtype)? };
    let size = |key| count(object, key).map(|count| count as f64);
    let product =
        Product { count: size("count")?, rows: size("rows")?, columns: size("columns")?, depth: size("depth")?, dtype };
    Some(MeasuredProduct { product, is_tf32, seconds })
}

fn collective(name: &str) -> Option<Collective> {
    match name {
        "all_gather" => Some(Collective::AllGather),
        "all_reduce" => Some(Collective::AllReduce),
        "all_to_all" => Some(Collective::AllToAll),
        "collective_permute" => Some(Collective::CollectivePermute),
        "reduce_scatter" => Some(Collective::ReduceScatter),
        _ => None,
    }
}

fn count(object: &Value, key: &str) -> Option<usize> {
    object[key].as_u64().and_then(|count| usize::try_from(count).ok())
}

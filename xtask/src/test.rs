//! `cargo xtask test`: every test there is, whatever it is written in.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::summary::{Counts, Step, Summary};
use crate::{python, root, target, web};

/// What to run.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) rust: bool,
    pub(crate) python: bool,
    pub(crate) web: bool,
}

/// Runs the steps, each whether or not the one before went well, and says how it went.
pub(crate) fn run(steps: &Steps) -> bool {
    let mut summary = Summary::default();
    if steps.rust {
        summary.push(step("rust", rust_tests));
    }
    if steps.python || steps.web {
        summary.push(step("command", build_command));
    }
    if steps.web {
        summary.push(step("web", web_tests));
    }
    if steps.python {
        summary.push(step("python", python_tests));
        summary.push(step("package", || package_tests(&root().join("python/requirements.txt"))));
    }
    println!("\n{summary}");
    summary.succeeded()
}

/// Tests what the package makes of PyTorch, in an environment of its own, and says how it went.
pub(crate) fn run_with_torch() -> bool {
    let mut summary = Summary::default();
    summary.push(step("torch", torch_tests));
    println!("\n{summary}");
    summary.succeeded()
}

/// Tests the package with the JAX of an environment for that, and says how it went.
pub(crate) fn run_with_jax(version: &str) -> bool {
    let requirements = root().join("python/versions").join(format!("jax-{version}.txt"));
    let mut summary = Summary::default();
    summary.push(step("package", || package_tests(&requirements)));
    println!("\n{summary}");
    summary.succeeded()
}

fn step(name: &'static str, work: impl FnOnce() -> Result<Outcome>) -> Step {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = work().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        Outcome { succeeded: false, counts: Counts::default() }
    });
    Step { name, succeeded: outcome.succeeded, counts: outcome.counts, time: start.elapsed() }
}

#[derive(Debug)]
struct Outcome {
    succeeded: bool,
    counts: Counts,
}

fn rust_tests() -> Result<Outcome> {
    execute(cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

fn build_command() -> Result<Outcome> {
    let targets = ["--package", "meshwright-cli", "--package", "meshwright", "--bins", "--example", "layout"];
    execute(cargo().args(["build", "--release"]).args(targets))
}

fn python_tests() -> Result<Outcome> {
    let tests = root().join("python/tests");
    let python = python::environment(&root().join("python/requirements.txt"))?;
    let mut command = Command::new(python);
    // Those of the package need eight devices, which a process has from its start or not at all.
    command.args(["-m", "pytest", "-q"]).arg(&tests).arg("--ignore").arg(tests.join("package"));
    // Those of PyTorch have an environment of their own.
    command.arg("--ignore").arg(tests.join("torch"));
    execute(command.env("MESHWRIGHT", command_path()?))
}

/// The page in a browser. Where there is none, that is said and no failure.
fn web_tests() -> Result<Outcome> {
    match web::tests(&command_path()?)? {
        Ok(mut command) => execute(&mut command),
        Err(reason) => {
            println!("skipped: {reason}");
            Ok(Outcome { succeeded: true, counts: Counts::default() })
        }
    }
}

/// Builds the package as its users do, and tests what they get.
fn package_tests(requirements: &Path) -> Result<Outcome> {
    let python = python::environment(requirements)?;
    let package = target()?.join("package");
    python::install(&python, root(), &package)?;
    let tests = root().join("python/tests/package");
    execute(Command::new(python).args(["-m", "pytest", "-q"]).arg(tests).env("PYTHONPATH", package))
}

fn torch_tests() -> Result<Outcome> {
    let python = python::environment(&root().join("python/requirements-torch.txt"))?;
    let tests = root().join("python/tests/torch");
    let package = target()?.join("package");
    python::install(&python, root(), &package)?;
    execute(Command::new(python).args(["-m", "pytest", "-q"]).arg(tests).env("PYTHONPATH", package))
}

/// The built command, which Python tests start.
fn command_path() -> Result<PathBuf> {
    Ok(target()?.join("release").join(format!("meshwright{}", env::consts::EXE_SUFFIX)))
}

pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Runs a program, shows what it prints and counts the tests it reports.
fn execute(command: &mut Command) -> Result<Outcome> {
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    command.stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        // A test may print bytes that are not text; they are shown as far as they are.
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            counts.read(&line);
            println!("{line}");
        }
    }
    Ok(Outcome { succeeded: child.wait()?.success(), counts })
}

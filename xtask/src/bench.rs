//! `cargo xtask bench`: the importer beside jaxlib's parser and partitioning beside Shardy's propagation,
//! on the same texts in the same run; the profiler beside PyTorch, and beside what XLA and PyTorch said; the
//! simulator; calls of planned steps beside those of `jax.jit`; and the solver beside what is known of instances of the
//! contest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::test::cargo;
use crate::{python, root, target};

/// The machine may be busy at times, so the two take turns and the best of each counts.
const TURNS: usize = 3;

pub(crate) fn run() -> Result<()> {
    let python = python::environment(&root().join("python/requirements.txt"))?;
    let script = root().join("python/benches/parse.py");
    let folder = target()?.join("bench");
    fs::create_dir_all(&folder)?;
    let sample = root().join("tests/samples/gpt32.mlir.gz");
    output(Command::new(&python).arg(&script).arg("prepare").args([&sample, &folder]))?;
    println!("{:<20}{:>10}{:>12}{:>12}{:>8}", "text", "size", "jaxlib", "meshwright", "ratio");
    for name in ["with locations", "without locations"] {
        let text = folder.join(format!("{name}.mlir"));
        let (mut theirs, mut ours) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            theirs = theirs.min(seconds(Command::new(&python).arg(&script).arg("time").arg(&text))?);
            ours = ours.min(seconds(import_bench().arg(&text))?);
        }
        let megabytes = fs::metadata(&text)?.len() as f64 / 1e6;
        let (theirs, ours, ratio) = (theirs * 1e3, ours * 1e3, theirs / ours);
        println!("{name:<20}{megabytes:>7.1} MB{theirs:>9.1} ms{ours:>9.1} ms{ratio:>8.2}");
    }
    partition(&python, &folder.join("with locations.mlir"))?;
    profiler()?;
    simulator()?;
    calls(&python)?;
    solver()
}

/// What a call of a planned step costs beside one of `jax.jit`.
fn calls(python: &Path) -> Result<()> {
    let package = target()?.join("package");
    python::install(python, root(), &package)?;
    let mut command = Command::new(python);
    command.arg(root().join("python/benches/overhead.py")).env("PYTHONPATH", package);
    print!("\n{}", output(command.env("XLA_FLAGS", "--xla_force_host_platform_device_count=8"))?);
    Ok(())
}

/// How long a pipeline of GPT-3 takes to prepare, and to simulate once it is.
fn simulator() -> Result<()> {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", "meshwright", "--bench", "simulate"]);
    let line = output(&mut command)?;
    let numbers: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [prepare, simulate] = numbers[..] else { bail!("expected two numbers, got `{line}`") };
    println!("\n{:<40}{:>12}{:>12}", "simulating", "prepare", "simulate");
    println!("{:<40}{:>9.1} ms{:>9.1} ms", "gpt-175b, 12 stages, 64 microbatches", prepare * 1e3, simulate * 1e3);
    Ok(())
}

/// How long the contest let solvers search, by the letter of the instance, and what is known of each: the
/// winner's cost, the best known cost, and the best published bound.
const INSTANCES: [(&str, u32, [u64; 3]); 4] = [
    ("A", 60, [6_548_641_531, 6_548_641_531, 6_513_812_173]),
    ("G", 120, [217_039, 217_039, 216_931]),
    ("M", 180, [49_928_460_991, 49_928_157_537, 49_407_421_920]),
    ("S", 240, [1_534_613_444, 1_511_377_982, 1_511_240_136]),
];

/// The solver on instances of the contest. They are not part of the repository; where they lie beside it,
/// they are solved.
fn solver() -> Result<()> {
    let folder = root().join("../shared/data/iopddl");
    if !folder.is_dir() {
        return Ok(());
    }
    println!("\n{:<12}{:>16}{:>16}{:>16}", "contest", "winner", "best known", "bound");
    for (name, _, [winner, best, bound]) in INSTANCES {
        println!("{name:<12}{winner:>16}{best:>16}{bound:>16}");
    }
    println!();
    for (index, (name, seconds, _)) in INSTANCES.iter().enumerate() {
        let path = folder.join(format!("{name}.json.gz"));
        let table = output(solver_bench().arg(&path).arg(seconds.to_string()))?;
        // The first line is the header.
        table.lines().skip(usize::from(index > 0)).for_each(|line| println!("{line}"));
    }
    Ok(())
}

fn solver_bench() -> Command {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", "meshwright-solver", "--bench", "instances", "--"]);
    command
}

/// Data and tensor parallelism of a model, from tiles to shardings and on to what each device runs.
fn partition(python: &Path, text: &Path) -> Result<()> {
    let script = root().join("python/benches/shardy.py");
    let tool = example("layout")?;
    let (mut theirs, mut ours) = (f64::INFINITY, [f64::INFINITY; 3]);
    for _ in 0..TURNS {
        theirs = theirs.min(seconds(Command::new(python).arg(&script).arg("time").args([&tool, text]))?);
        let times = output(Command::new(python).arg(&script).arg("ours").args([&tool, text]))?;
        for (least, time) in ours.iter_mut().zip(times.split_whitespace()) {
            *least = least.min(time.parse()?);
        }
    }
    println!("\n{:<30}{:>12}{:>12}{:>8}", "partitioning", "shardy", "meshwright", "ratio");
    for (name, ours) in ["shardings", "shardings and lowering", "three presets, with costs"].into_iter().zip(ours) {
        println!("{name:<30}{:>9.1} ms{:>9.1} ms{:>8.2}", theirs * 1e3, ours * 1e3, theirs / ours);
    }
    Ok(())
}

/// A training step of a GPT with about 24,000 ops as JAX exports it.
const LARGE_STEP: &str = "samples/gpt32";

/// What PyTorch is timed on.
const TORCH_STEP: &str = "gpt2_small_fused";

/// How long a profile takes, and how far it is from what was measured.
pub(crate) fn profiler() -> Result<()> {
    let tool = example("profile")?;
    println!("\n{:<20}{:>10}{:>12}{:>12}", "profiling", "ops", "fused", "eager");
    let mut times = Vec::new();
    for name in [LARGE_STEP, TORCH_STEP] {
        let line = output(Command::new(&tool).args(["seconds", name]))?;
        let numbers: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [ops, fused, eager] = numbers[..] else { bail!("expected three numbers, got `{line}`") };
        println!("{name:<20}{ops:>10}{:>9.1} ms{:>9.1} ms", fused * 1e3, eager * 1e3);
        times.push(eager);
    }
    torch(times[1])?;
    print!("\n{}", output(Command::new(&tool).arg("errors"))?);
    Ok(())
}

/// PyTorch on the same model, where the interpreter has what `python/requirements-torch.txt` lists: a step, and
/// what its own estimator needs to say the memory of it.
fn torch(ours: f64) -> Result<()> {
    let python = python::interpreter();
    let is_there = Command::new(&python).args(["-c", "import accelerate, safetensors, torch, torchinfo"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        println!("PyTorch is not installed for {}, skipped; PYTHON names another", python.display());
        return Ok(());
    }
    let script = root().join("python/benches/torch_memory.py");
    let text = output(Command::new(&python).arg(&script).args(["time", TORCH_STEP]))?;
    let times: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("expected JSON, got `{text}`"))?;
    println!("\n{TORCH_STEP:<40}{:>12}{:>8}", "seconds", "ratio");
    for (name, key) in [("MemTracker on fake tensors", "memtracker_seconds"), ("a step on this CPU", "step_seconds")] {
        let theirs = times[key].as_f64().with_context(|| format!("no `{key}` in `{text}`"))?;
        println!("{name:<40}{theirs:>12.3}{:>8.0}", theirs / ours);
    }
    println!("{:<40}{ours:>12.6}{:>8}", "meshwright profile --memory eager", 1);
    Ok(())
}

/// The path of an example of the compiler, built.
pub(crate) fn example(name: &str) -> Result<PathBuf> {
    output(cargo().args(["build", "--quiet", "--release", "--package", "meshwright", "--example", name]))?;
    Ok(target()?.join("release/examples").join(format!("{name}{}", env::consts::EXE_SUFFIX)))
}

fn import_bench() -> Command {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", "meshwright", "--bench", "import", "--"]);
    command
}

fn seconds(command: &mut Command) -> Result<f64> {
    let text = output(command)?;
    text.trim().parse().with_context(|| format!("expected seconds, got `{}`", text.trim()))
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.current_dir(root()).output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

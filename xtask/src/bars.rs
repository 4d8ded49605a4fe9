//! `cargo xtask bars`: what planning and the package are held to, a table for each bar.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bench::{example, output};
use crate::test::cargo;
use crate::{python, root, target};

/// Prints a table. Gives whether everything that can fail went well.
type Section = fn() -> Result<bool>;

/// What can be asked for, in the order in which all of it is printed.
#[rustfmt::skip] // One row a section.
const SECTIONS: [(&str, Section); 9] = [
    ("time", time),
    ("gap", gap),
    ("osdp", osdp),
    ("grid", grid),
    ("stages", stages),
    ("tests", tests),
    ("jax", jax),
    ("torch", torch),
    ("processes", processes),
];

/// Prints a section, or all of them. Gives whether everything that can fail went well.
pub(crate) fn run(section: Option<&str>) -> Result<bool> {
    if let Some(name) = section.filter(|name| !SECTIONS.iter().any(|(section, _)| section == name)) {
        let names: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
        bail!("there is no section `{name}`; there are {}", names.join(", "));
    }
    let mut succeeded = true;
    for (name, print) in SECTIONS.into_iter().filter(|(name, _)| section.is_none_or(|wanted| wanted == *name)) {
        println!("== {name}");
        succeeded &= print()?;
        println!();
    }
    Ok(succeeded)
}

/// A step whose planning is timed.
struct Timed {
    model: &'static str,
    settings: &'static [&'static str],
    cluster: &'static str,
}

#[rustfmt::skip] // One row a case.
const TIMED: [Timed; 3] = [
    Timed { model: "gpt-2.6b", settings: &["batch=64"], cluster: "8xa100-80g" },
    Timed { model: "llama2-70b", settings: &["batch=256"], cluster: "8x8xh100" },
    Timed { model: "gpt-175b", settings: &[], cluster: "64x8xh100" },
];

/// The machine may be busy at times, so the best counts.
const TURNS: usize = 3;

/// How long planning takes, and how much memory.
fn time() -> Result<bool> {
    let tool = example("grid")?;
    println!("{:<44}{:>12}{:>12}", "planning", "takes", "memory");
    for Timed { model, settings, cluster } in TIMED {
        let (mut seconds, mut bytes) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            let mut command = Command::new(&tool);
            command.args([model, "--cluster", cluster, "--time"]);
            settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
            let line = output(&mut command)?;
            let numbers: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let [taken, peak] = numbers[..] else { bail!("expected two numbers, got `{line}`") };
            (seconds, bytes) = (seconds.min(taken), bytes.min(peak));
        }
        let name = format!("{model} {} on {cluster}", settings.join(" ")).replace("  ", " ");
        println!("{name:<44}{seconds:>10.2} s{:>8.0} MiB", bytes / f64::from(1 << 20));
    }
    Ok(true)
}

/// How far the labelling of every preset is from its bound.
fn gap() -> Result<bool> {
    show(Command::new(example("grid")?).arg("--gaps"))
}

/// Plans under limits beside one way to keep state for all of a model.
fn osdp() -> Result<bool> {
    show(Command::new(example("grid")?).args(["--osdp", "--plans"]))
}

/// Plans beside the best of the grid that people choose from.
fn grid() -> Result<bool> {
    show(Command::new(example("grid")?).args(["--recorded", "--plans"]))
}

/// Plans with stages on Alpa's ladders beside its own, on thousands of devices, and on devices of two kinds.
fn stages() -> Result<bool> {
    let tool = example("stages")?;
    let sections: [&[&str]; 3] = [&[], &["--large"], &["--mixed"]];
    let mut succeeded = true;
    for section in sections {
        succeeded &= show(Command::new(&tool).args(section))?;
    }
    Ok(succeeded)
}

/// What tests of the compiler hold: what it is, the kind of target and its name, and the names of tests.
const TESTS: [(&str, &[&str], &str); 4] = [
    ("labels beside all labels", &["--lib"], "exhaustive"),
    ("plans beside all ways to cut", &["--test", "alpa"], "small"),
    ("plans beside Alpa's", &["--test", "alpa"], "alpa"),
    ("more memory is never slower", &["--test", "plan_limits"], "more_memory"),
];

/// Brute force, Alpa's tests and many limits, each with as many cases as there are.
fn tests() -> Result<bool> {
    let mut succeeded = true;
    for (name, target, filter) in TESTS {
        let mut command = cargo();
        command.args(["test", "--quiet", "--release", "--package", "meshwright"]).args(target).arg(filter);
        command.env("LONG", "1");
        let status = command.current_dir(root()).output().context("cannot start cargo")?.status;
        println!("{name:<44}{:>12}", if status.success() { "holds" } else { "FAILS" });
        succeeded &= status.success();
    }
    Ok(succeeded)
}

/// Steps of JAX on eight devices of a CPU: what a call costs beyond one of `jax.jit`, steps beside the same cut by hand,
/// and what plans foretell beside what XLA compiles and what one device computes.
fn jax() -> Result<bool> {
    scripts("requirements.txt", &[&["overhead"], &["by_hand"], &["compiled"]])
}

/// Steps of PyTorch: what captured programs compute and foretell beside what PyTorch does, and how long large models take
/// to capture, import and plan.
fn torch() -> Result<bool> {
    let tool = "torch_capture";
    scripts("requirements-torch.txt", &[&[tool, "numbers"], &[tool, "memory"], &[tool, "scale"], &[tool, "peers"]])
}

/// Steps of PyTorch on four processes of this machine: beside one process, beside what was foretold, and beside the same
/// written by hand.
fn processes() -> Result<bool> {
    scripts("requirements-torch.txt", &[&["torch_by_hand"], &["torch_running"]])
}

/// Runs tools of `python/benches`, each with its arguments, on the package as its users build it.
fn scripts(requirements: &str, tools: &[&[&str]]) -> Result<bool> {
    let environment = python::environment(&root().join("python").join(requirements))?;
    let package = target()?.join("package");
    python::install(&environment, root(), &package)?;
    let mut succeeded = true;
    for tool in tools {
        let path = root().join("python/benches").join(tool[0]).with_extension("py");
        let mut command = Command::new(&environment);
        succeeded &= show(command.arg(path).args(&tool[1..]).env("PYTHONPATH", &package))?;
        println!();
    }
    Ok(succeeded)
}

/// Shows what a tool prints while it does.
fn show(command: &mut Command) -> Result<bool> {
    Ok(command.current_dir(root()).status().context("cannot start the tool")?.success())
}

//! Chores of the repository: `cargo xtask test`, `cargo xtask web`, `cargo xtask bench` and `cargo xtask bars`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to whoever started it")]

mod bars;
mod bench;
mod test;

mod python;
mod summary;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, iter};

use anyhow::{Result, bail};

const USAGE: &str = "\
Usage: cargo xtask test [--rust | --python | --web | --torch | --jax VERSION]
       cargo xtask web [--check]
       cargo xtask bench [--profile]
       cargo xtask bars [time | gap | osdp | grid | stages | tests | jax | torch | processes]

  test            build the command and run every test
  test --rust     only the tests in Rust
  test --python   only the tests in Python
  test --jax 0.7  only the tests of the package, with another version of JAX and what goes with it,
                  one of those in `python/versions`
  test --torch    only those of PyTorch, which the others leave out: its packages take about 5 GB
  test --web      only those of the page, in a browser
  web             bundle the page that `--html` writes; with `--check`, only compare
  bench           time the importer beside jaxlib's parser, partitioning beside Shardy, the profiler
                  beside PyTorch, and the solver; measure profiles against XLA and PyTorch
  bench --profile only what concerns the profiler
  bars            what planning is held to: the time and memory that it takes, how far labellings are
                  from their bounds, plans beside one way to keep state and beside the grid that
                  people choose from, tests by brute force, and steps of JAX beside one device, beside
                  XLA and beside shardings by hand; with a name, that table alone";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether everything that was asked for went well.
fn run() -> Result<bool> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["test"] => Ok(test::run(&test::Steps { rust: true, python: true, web: true })),
        ["test", "--rust"] => Ok(test::run(&test::Steps { rust: true, python: false, web: false })),
        ["test", "--python"] => Ok(test::run(&test::Steps { rust: false, python: true, web: false })),
        ["test", "--web"] => Ok(test::run(&test::Steps { rust: false, python: false, web: true })),
        ["web"] => web::bundle(false).map(|()| true),
        ["web", "--check"] => web::bundle(true).map(|()| true),
        ["test", "--torch"] => Ok(test::run_with_torch()),
        ["test", "--jax", version] => Ok(test::run_with_jax(version)),
        ["bench"] => bench::run().map(|()| true),
        ["bench", "--profile"] => bench::profiler().map(|()| true),
        ["bars"] => bars::run(None),
        ["bars", section] => bars::run(Some(section)),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => bail!("unknown arguments: {}\n\n{USAGE}", arguments.join(" ")),
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder of the repository")
}

/// The folder cargo builds into: this program is `<target>/<profile>/xtask`.
fn target() -> Result<PathBuf> {
    let this = env::current_exe()?;
    let folder = iter::successors(Some(this.as_path()), |path| path.parent()).nth(2);
    folder.map(Path::to_owned).ok_or_else(|| anyhow::anyhow!("cannot tell the target folder from {}", this.display()))
}

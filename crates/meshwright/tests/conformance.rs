//! StableHLO's own self-checking modules: every one is imported, evaluated and must pass its checks.
//!
//! The modules are not part of this repository. `MESHWRIGHT_CONFORMANCE` names the archive of them
//! (`.tar.gz`); without it the test says that it was skipped.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{import_text, read_gzip};
use libtest_mimic::{Arguments, Failed, Trial};
use meshwright::interpret::{Options, evaluate};

/// Modules whose expected values are not what the module means, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "triangular_solve_float32_2_8_8_float32_2_10_8.mlir",
    "the system is ill conditioned: the expected values themselves are up to 40 ulps from the exact solution, and \
     the module's authors do not run it either",
)];

fn main() {
    let arguments = Arguments::from_args();
    let archive = std::env::var_os("MESHWRIGHT_CONFORMANCE").map(PathBuf::from);
    let trial = match archive {
        Some(path) => Trial::test("every_module_passes_its_own_checks", move || check(&path)),
        None => Trial::test("every_module_passes_its_own_checks", || Ok(())).with_ignored_flag(true),
    };
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

/// All modules together take at most this long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn check(archive: &Path) -> Result<(), Failed> {
    let start = Instant::now();
    let bytes = read_gzip(archive)?;
    let mut archive = tar::Archive::new(bytes.as_slice());
    let (mut passed, mut failures) = (0, Vec::new());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path.extension().is_none_or(|extension| extension != "mlir") {
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let exception = EXCEPTIONS.iter().find(|(module, _)| *module == name);
        match (run(&text), exception) {
            (Ok(()), None) => passed += 1,
            (Err(_), Some(_)) => {}
            (Ok(()), Some(_)) => failures.push(format!("{name}: listed as an exception, but passes")),
            (Err(reason), None) => failures.push(format!("{name}: {reason}")),
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let summary =
        format!("{passed} passed, {} failed, {} excepted in {seconds:.1} s", failures.len(), EXCEPTIONS.len());
    if passed == 0 || !failures.is_empty() {
        return Err(format!("{summary}\n{}", failures.join("\n")).into());
    }
    if start.elapsed() > TIME_LIMIT {
        return Err(format!("{summary}: too slow").into());
    }
    Ok(())
}

fn run(text: &str) -> Result<(), String> {
    let program = import_text(text)?;
    let evaluation = evaluate(&program, &[], Options { wide: false }).map_err(|error| error.message)?;
    match evaluation.failures.first() {
        Some(failure) => Err(failure.message.clone()),
        None if evaluation.checks_passed == 0 => Err("has no check".to_owned()),
        None => Ok(()),
    }
}

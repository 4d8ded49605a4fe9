//! A virtual environment with what Python tests need, kept in the user's cache folder.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The interpreter of an environment that has exactly these requirements. It is made at first use
/// and shared by all clones of the repository.
pub(crate) fn environment(requirements: &Path) -> Result<PathBuf> {
    let system = interpreter();
    let version = version(&system)?;
    let pins = fs::read_to_string(requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;

    let name = format!("venv-{:016x}", hash(&[pins.as_bytes(), version.as_bytes()]));
    let folder = cache.join(&name);
    // Whoever comes second waits for the first. The lock ends with the process that holds it, so a
    // run that is killed leaves nothing locked.
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock().context("cannot lock the environment")?;
    if !folder.join(COMPLETE).exists() {
        make(&system, requirements, &folder)?;
    }
    Ok(python(&folder))
}

/// Builds a package with `pip` and puts it into a folder of its own. The environment is shared by all clones of the
/// repository, so nothing of one clone goes there.
pub(crate) fn install(python: &Path, source: &Path, folder: &Path) -> Result<()> {
    let options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--upgrade"];
    // What builds it is in the environment already; without isolation, nothing has to be downloaded.
    let build = ["--no-build-isolation", "--target"];
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install"]).args(options).args(build).arg(folder).arg(source);
    let tools = python.parent().map(Path::to_owned).into_iter();
    let others = env::var_os("PATH").unwrap_or_default();
    let paths = env::join_paths(tools.chain(env::split_paths(&others)))?;
    // It shares what the command was built of.
    run(command.env("PATH", paths).env("CARGO_TARGET_DIR", crate::target()?))
}

/// The interpreter that environments are made with.
pub(crate) fn interpreter() -> OsString {
    env::var_os("PYTHON").unwrap_or_else(|| OsString::from("python3"))
}

/// Says that an environment was made to its end.
const COMPLETE: &str = "complete";

/// Makes the environment beside its place and moves it there when it is whole. Scripts in it would
/// still name the old place, so programs are started with `python -m`.
fn make(system: &OsString, requirements: &Path, folder: &Path) -> Result<()> {
    println!("making a Python environment in {}", folder.display());
    let partial = folder.with_extension("partial");
    for leftover in [&partial, folder] {
        if leftover.exists() {
            fs::remove_dir_all(leftover).with_context(|| format!("cannot remove {}", leftover.display()))?;
        }
    }
    run(Command::new(system).args(["-m", "venv"]).arg(&partial))?;
    let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--requirement"];
    run(Command::new(python(&partial)).args(options).arg(requirements))?;
    fs::write(partial.join(COMPLETE), "")?;
    fs::rename(&partial, folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn run(command: &mut Command) -> Result<()> {
    let shown = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown} failed while making the Python environment or package");
    Ok(())
}

fn python(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

/// The version of an interpreter and what it was built for.
fn version(python: &OsString) -> Result<String> {
    let output = Command::new(python)
        .args(["-c", "import platform, sys; print(sys.version, platform.machine(), sys.base_prefix)"])
        .output()
        .with_context(|| format!("cannot start {}; install Python 3.11 or newer, or set PYTHON", python.display()))?;
    ensure!(output.status.success(), "{} does not run", python.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder for things that can be made again.
fn cache() -> Result<PathBuf> {
    let home = env::home_dir().map(|home| home.join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or(home);
    Ok(cache.context("there is no home folder; set XDG_CACHE_HOME")?.join("meshwright"))
}

/// FNV-1a, which, unlike the standard library's hash, stays the same from version to version.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

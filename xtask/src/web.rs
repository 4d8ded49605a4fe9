//! The page: its bundle is made of `web/src`, and a real browser tests it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::root;

/// Bundles the page, or only tells whether the bundle is what the source makes.
pub(crate) fn bundle(only_check: bool) -> Result<()> {
    ensure!(has("node"), "the page is bundled by Node 20 or newer, which is not installed");
    install()?;
    run(Command::new("npx").args(["--no-install", "tsc", "--noEmit"]))?;
    let mut command = Command::new("node");
    command.arg("build.js").args(only_check.then_some("--check"));
    run(&mut command)
}

/// The tests of the page in a browser, or why they cannot run here.
pub(crate) fn tests(meshwright: &Path) -> Result<Result<Command, String>> {
    if !has("node") || !has("npm") {
        return Ok(Err("Node is not installed".to_owned()));
    }
    let Some(browser) = browser() else {
        return Ok(Err("there is no Chromium; install the package `chromium`, or set CHROMIUM".to_owned()));
    };
    bundle(true)?;
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=spec", "tests/"]).current_dir(folder());
    command.env("MESHWRIGHT", meshwright).env("CHROMIUM", browser);
    Ok(Ok(command))
}

fn folder() -> PathBuf {
    root().join("web")
}

/// Installs exactly what the lock file names, unless that was done before.
fn install() -> Result<()> {
    let lock = fs::read_to_string(folder().join("package-lock.json")).context("cannot read web/package-lock.json")?;
    let stamp = folder().join("node_modules/.installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]))?;
    fs::write(stamp, lock).context("cannot write into web/node_modules")
}

/// A Chromium. Where none is there and we may install packages, Debian's is.
fn browser() -> Option<PathBuf> {
    find_browser().or_else(|| {
        let may_install = has("apt-get") && is_root();
        if may_install {
            println!("installing the package `chromium`");
            let quietly = |command: &mut Command| {
                command
                    .env("DEBIAN_FRONTEND", "noninteractive")
                    .stdout(Stdio::null())
                    .status()
                    .is_ok_and(|s| s.success())
            };
            let install =
                || quietly(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", "chromium"]));
            // Lists of packages may be old, or not there at all.
            let _ = install() || quietly(Command::new("apt-get").arg("update")) && install();
        }
        find_browser()
    })
}

fn find_browser() -> Option<PathBuf> {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    named.into_iter().chain(known).find(|path| path.exists())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn run(command: &mut Command) -> Result<()> {
    let shown = command.get_program().display().to_string();
    let status = command.current_dir(folder()).status().with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown} failed in web/");
    Ok(())
}

//! The words of the importer's diagnostics: one test per file of `tests/import/errors`.
//!
//! Each file is a broken text with what import says of it as comments at its end, in the order in
//! which it is reported: `//> line:column severity: message | label | hint: hint`. With `BLESS=1`
//! in the environment the comments are rewritten.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use meshwright::import::{Diagnostic, Severity, import};

/// What the lines with the expected diagnostics start with.
const MARK: &str = "//> ";

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import/errors");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of broken texts is there")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .collect();
    paths.sort();
    let trials = paths.into_iter().map(|path| {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Trial::test(name, move || check(&path))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn check(path: &Path) -> Result<(), Failed> {
    let text = fs::read_to_string(path)?;
    let (source, expected) = text.split_at(text.find(MARK).unwrap_or(text.len()));
    let imported = import(&Arc::from(source));
    let actual: String = imported.diagnostics.iter().map(|diagnostic| line(source, diagnostic)).collect();
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, format!("{source}{actual}"))?;
        return Ok(());
    }
    let has_error = imported.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    if has_error == imported.program.is_some() {
        return Err("there is a program just where there is no error".into());
    }
    if actual != expected {
        return Err(format!("expected\n{expected}\ngot\n{actual}\nrun with BLESS=1 to accept").into());
    }
    Ok(())
}

fn line(source: &str, diagnostic: &Diagnostic) -> String {
    let before = &source[..diagnostic.span.start];
    let row = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut line = format!("{MARK}{row}:{column} {severity}: {}", diagnostic.message);
    if !diagnostic.label.is_empty() {
        line += &format!(" | {}", diagnostic.label);
    }
    if let Some(hint) = &diagnostic.hint {
        line += &format!(" | hint: {hint}");
    }
    line + "\n"
}

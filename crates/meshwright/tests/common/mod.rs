//! What the tests on files share.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use meshwright::import::{Severity, import};
use meshwright::program::Program;

pub(crate) fn read_gzip(path: &Path) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut bytes = Vec::new();
    let outcome = flate2::read::GzDecoder::new(file).read_to_end(&mut bytes);
    outcome.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(bytes)
}

/// The program of a text that has no errors.
pub(crate) fn import_text(text: &str) -> Result<Program, String> {
    let imported = import(&Arc::from(text));
    let errors = imported.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let messages: Vec<String> = errors.map(|error| format!("{}: {}", error.message, error.label)).collect();
    imported.program.ok_or_else(|| messages.join("\n"))
}

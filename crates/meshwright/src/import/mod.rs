//! StableHLO text or a recorded ATen graph in, [`Program`] out.

mod aten;
mod attention;
mod attribute;
mod build;
mod cursor;
mod diagnostic;
mod fields;
mod inline;
mod legalize;
mod literal;
mod location;
mod module;
mod operation;
mod parse;
mod pretty;
mod types;

pub use aten::aten_ops;
pub use diagnostic::{Diagnostic, Severity};

use std::sync::Arc;

use crate::program::Program;

/// What came out of a text: a program unless there were errors, and everything there is to say.
#[derive(Debug)]
pub struct Imported {
    pub program: Option<Program>,
    /// Errors and warnings in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the `main` function (or the only public one) of a StableHLO module, in generic or pretty
/// form: calls are inlined, dead code is dropped, and attention is recognized. Or reads an ATen graph that was recorded
/// from PyTorch, which says in its first word what it is.
pub fn import(text: &Arc<str>) -> Imported {
    if text.starts_with("aten ") {
        return aten::import_aten(text);
    }
    let mut parsed = parse::parse(text);
    let mut diagnostics = std::mem::take(&mut parsed.diagnostics);
    let mut program = None;
    if !diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        match inline::inline(&parsed) {
            Ok(inlined) => program = Some(attention::recognize(inlined.compact())),
            Err(problems) => diagnostics.extend(problems),
        }
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    Imported { program, diagnostics }
}

//! Errors as Python sees them: the words of the command, with the hint below.

use meshwright::codes::Code;
use meshwright::import::Diagnostic;
use meshwright_report::diagnostics::{Module, Renderer, render};
use meshwright_report::problem::Problem;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    meshwright,
    Error,
    PyException,
    "What Meshwright cannot do, and why; where something can be done about it, a hint says what."
);
create_exception!(meshwright, DoesNotFit, Error, "No plan was found that fits the memory of the devices.");

/// As many diagnostics are told of one text.
const TOLD: usize = 20;

pub(crate) fn refuse(problem: &Problem) -> PyErr {
    Error::new_err(text(problem))
}

pub(crate) fn does_not_fit(problem: &Problem) -> PyErr {
    DoesNotFit::new_err(text(problem))
}

fn text(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{}\n\nhint: {hint}", problem.message),
        None => problem.message.clone(),
    }
}

/// What is wrong with a text, each with its place in it.
pub(crate) fn diagnosed(name: &str, module: &Module, diagnostics: &[&Diagnostic]) -> Problem {
    let renderer = Renderer::plain();
    let told = diagnostics.iter().take(TOLD).map(|diagnostic| {
        let hint = diagnostic.hint.as_ref().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
        render(&renderer, name, module, diagnostic) + &hint
    });
    let more = diagnostics.len().checked_sub(TOLD + 1).map(|more| format!("and {} more", more + 1));
    Problem::new(Code::Syntax, told.chain(more).collect::<Vec<_>>().join("\n\n"))
}

//! Telling what the importer has to say.

use meshwright::import::{Diagnostic, Severity};
use meshwright_report::diagnostics::{Module, Renderer, render};

use crate::error::{tell, tell_hint};

/// As many errors, and as many warnings, are shown of one file.
const SHOWN: usize = 20;

/// Prints errors and warnings to standard error, in the order of the text.
pub(crate) fn tell_all(name: &str, diagnostics: &[(&Module, &Diagnostic)]) {
    let renderer = Renderer::styled();
    let mut counts = [0; 2];
    for (module, diagnostic) in diagnostics {
        let count = &mut counts[diagnostic.severity as usize];
        *count += 1;
        if *count <= SHOWN {
            tell(render(&renderer, name, module, diagnostic));
            if let Some(hint) = &diagnostic.hint {
                tell_hint(hint);
            }
            tell("");
        }
    }
    for (severity, word) in [(Severity::Error, "errors"), (Severity::Warning, "warnings")] {
        let count = counts[severity as usize];
        if count > SHOWN {
            tell(format_args!("and {} more {word}", count - SHOWN));
        }
    }
}

//! Where things are, for messages.

use meshwright::program::{LocationId, Program};

/// Where an op came from, as far as it is known: `step.py:12:3` or its scope.
pub(crate) fn place(program: &Program, location: LocationId) -> Option<String> {
    let location = &program.locations[location];
    if !location.file.is_empty() {
        return Some(format!("{}:{}:{}", location.file, location.line, location.column));
    }
    (!location.scope.is_empty()).then(|| format!("`{}`", location.scope))
}

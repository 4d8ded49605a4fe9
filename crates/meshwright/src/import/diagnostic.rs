//! What the importer has to say about a text.

use std::ops::Range;

use crate::codes::Code;

/// One error or warning, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    /// Byte range in the text.
    pub span: Range<usize>,
    /// What is wrong, such as ``use of undefined value `%7` ``.
    pub message: String,
    /// What stands at the place or was expected there; may be empty.
    pub label: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

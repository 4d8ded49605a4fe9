//! Why there is no answer.

use meshwright::codes::Code;

/// What is wrong, and what could be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(code: Code, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into(), hint: None }
    }

    /// Makes problems of one kind, for `map_err`.
    pub fn of(code: Code) -> impl Fn(String) -> Problem {
        move |message| Problem::new(code, message)
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }
}

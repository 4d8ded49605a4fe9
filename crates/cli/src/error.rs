//! How a command ends: its answer, or why there is none.

use std::fmt;
use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use meshwright::codes::Code;
use meshwright_report::problem::Problem;

/// What a command that ran to its end has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    /// A check failed, a plan does not fit, two programs differ.
    No,
}

/// Why a command stopped early.
#[derive(Debug)]
pub(crate) enum Error {
    /// Printed as `error[MW001]: …`, a blank line, and `hint: …`.
    Told(Problem),
    /// Everything there is to say has been printed.
    AlreadyTold,
    /// The reader of our output has seen enough, as in `meshwright print model.mlir | head -1`.
    OutputClosed,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error::Told(Problem::new(code, message))
    }

    /// Makes errors of one kind, for `map_err`.
    pub(crate) fn of(code: Code) -> impl Fn(String) -> Error {
        move |message| Error::new(code, message)
    }

    /// Adds what the user can do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Error {
        match self {
            Error::Told(problem) => Error::Told(problem.hint(hint)),
            Error::AlreadyTold | Error::OutputClosed => self,
        }
    }

    /// Adds what the user can do about it, where there is something.
    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Error {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// An error of the stream that data goes to.
    pub(crate) fn stdout(error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::OutputClosed,
            _ => Error::new(Code::Unwritable, format!("cannot write to standard output: {}", reason(error))),
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Told(problem)
    }
}

/// Tells the user how it ended and turns it into the exit code: 0 success, 1 the answer is no,
/// 2 bad input or usage.
pub(crate) fn finish(end: Result<Answer, Error>) -> u8 {
    match end {
        Ok(Answer::Yes) | Err(Error::OutputClosed) => 0,
        Ok(Answer::No) => 1,
        Err(Error::AlreadyTold) => 2,
        Err(Error::Told(Problem { code, message, hint })) => {
            tell(format_args!("{}: {message}", painted(&format!("error[{code}]"), ERROR)));
            if let Some(hint) = hint {
                tell_hint(&hint);
            }
            2
        }
    }
}

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Prints a line to standard error, without color where that is not wanted. That nobody listens
/// there is no reason to stop.
pub(crate) fn tell(line: impl fmt::Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Prints a hint below what was told before.
pub(crate) fn tell_hint(hint: &str) {
    tell(format_args!("\n{}: {hint}", painted("hint", HINT)));
}

pub(crate) fn painted(word: &str, style: Style) -> String {
    format!("{style}{word}{style:#}")
}

/// An operating system's error in our words, without the number it adds.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

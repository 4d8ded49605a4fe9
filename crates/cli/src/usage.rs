//! Wrong usage of the command, told like every other error.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use meshwright::codes::Code;

use crate::error::{self, Error};

/// Prints what the command line parser has to say: help as it is, errors in our form.
pub(crate) fn finish(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // That nobody reads the help to its end is no error.
            let _ = error.print();
            if error.use_stderr() { 2 } else { 0 }
        }
        _ => error::finish(Err(reword(&error.render().to_string()).maybe_hint(nearest_command(error)))),
    }
}

/// The parser lists every command that is somewhat like the unknown one, the likest last.
fn nearest_command(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(names) => names.last().map(|name| format!("did you mean `{name}`?")),
        _ => None,
    }
}

/// The parser's text is `error: …`, then `tip: …` lines and the usage, apart by blank lines.
fn reword(text: &str) -> Error {
    let mut paragraphs = text.split("\n\n");
    let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let mut hints: Vec<String> = text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).map(quote).collect();
    if hints.is_empty() {
        let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
        hints.push(usage.map_or("see `--help`".to_owned(), |usage| format!("usage is `{usage}`")));
    }
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    Error::new(Code::Usage, quote(&message)).hint(hints.join("; "))
}

/// The parser puts literals in single quotes, we put them in backticks.
fn quote(text: &str) -> String {
    text.replace('\'', "`")
}

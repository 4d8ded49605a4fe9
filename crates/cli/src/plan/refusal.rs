//! What is told where nothing fits.

use meshwright::codes::Code;
use meshwright::plan::{Change, Refusal, Request, Suggestion, TooLarge, suggest};
use meshwright_report::plan::{considered, refusal_json, refusal_text};
use serde_json::{Value, json};

use super::variant::Given;
use crate::error::{Answer, Error, HINT, painted, tell, tell_hint};
use crate::output;
use crate::table::{duration, size};
use crate::terminal::terminal_width;

/// A plan that was asked for and is not there.
pub(super) struct Refused<'r> {
    pub(super) request: Request<'r>,
    pub(super) given: Given<'r>,
    pub(super) planning_seconds: f64,
}

impl Refused<'_> {
    /// Tells why there is no plan, and what would fit.
    pub(super) fn tell(&self, refusal: Refusal, as_json: bool) -> Result<Answer, Error> {
        let large = match refusal {
            Refusal::Unplannable(message) => return Err(Error::new(Code::Unplannable, message)),
            Refusal::TooLarge(large) => large,
        };
        if !as_json {
            output::print(refusal_text(&large, self.request.limit_bytes, terminal_width()).as_bytes())?;
        }
        let suggestions = suggest(&self.request, |change| self.given.variant(change));
        if as_json {
            output::print_json(&self.to_json(&large, &suggestions))?;
        }
        for (number, suggestion) in suggestions.iter().enumerate().filter(|_| !as_json) {
            let blank = if number == 0 { "\n" } else { "" };
            tell(format_args!("{blank}{}: {}", painted("hint", HINT), told(suggestion)));
        }
        if suggestions.is_empty() && !as_json {
            tell_hint("none of the changes that were tried is enough");
        }
        if !as_json {
            tell(format_args!("\n`meshwright explain {}` says more", Code::DoesNotFit));
        }
        Ok(Answer::No)
    }

    fn to_json(&self, large: &TooLarge, suggestions: &[Suggestion]) -> Value {
        let mut object = refusal_json(large, self.request.limit_bytes);
        object["suggestions"] = json!(suggestions.iter().map(suggestion_json).collect::<Vec<_>>());
        object["planning_seconds"] = json!(self.planning_seconds);
        object
    }
}

/// What to change, and what comes of it.
fn told(suggestion: &Suggestion) -> String {
    let figures = &suggestion.figures;
    let (step, peak) = (duration(figures.step_seconds), size(figures.peak_bytes as usize));
    format!("{} fits: {step} a step, {peak} at the peak", quoted(suggestion))
}

fn quoted(suggestion: &Suggestion) -> String {
    let flag = flag(suggestion);
    if flag.starts_with("--") { format!("`{flag}`") } else { flag }
}

fn flag(suggestion: &Suggestion) -> String {
    match suggestion.change {
        Change::Microbatches => format!("--microbatches {}", suggestion.figures.microbatches),
        Change::Batch { .. } | Change::Devices { .. } | Change::Narrow | Change::LessState => suggestion.told.clone(),
    }
}

fn suggestion_json(suggestion: &Suggestion) -> Value {
    let mut object = considered(&suggestion.figures);
    let change = match suggestion.change {
        Change::Microbatches => "microbatches",
        Change::Batch { .. } => "batch",
        Change::Devices { .. } => "devices",
        Change::Narrow => "dtype",
        Change::LessState => "optimizer",
    };
    object["change"] = json!(change);
    object["flag"] = json!(flag(suggestion));
    object
}

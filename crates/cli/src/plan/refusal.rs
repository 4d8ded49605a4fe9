//! What is told where nothing fits.

use meshwright::plan::{Binding, Change, Refusal, Request, Suggestion, TooLarge, suggest};
use meshwright::profile::Class;
use serde_json::{Map, Value, json};

use super::json::considered;
use super::text::phase_name;
use super::variant::Given;
use crate::error::{Answer, Error, HINT, painted, tell, tell_hint};
use crate::output;
use crate::table::{Table, count, duration, paragraph, share, size, terminal_width};

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
            Refusal::Unplannable(message) => return Err(Error::new(message)),
            Refusal::TooLarge(large) => large,
        };
        if !as_json {
            output::print(self.to_text(&large, terminal_width()).as_bytes())?;
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
        Ok(Answer::No)
    }

    fn to_text(&self, large: &TooLarge, width: usize) -> String {
        let TooLarge { least_bytes, missing_bytes, closest, binding } = large;
        let verdict = format!(
            "Does not fit: the smallest plan found takes {} on a device, {} more than its {}\n\n",
            size(*least_bytes as usize),
            size(*missing_bytes as usize),
            size(self.request.limit_bytes as usize),
        );
        let at = if binding.scope.is_empty() { String::new() } else { format!(" at `{}`", binding.scope) };
        let mesh = if closest.mesh.axes.is_empty() { String::new() } else { format!(" ({})", closest.mesh) };
        let when = format!(
            "That plan{mesh} has most in memory in the {} pass, while `{}`{at} runs.",
            phase_name(binding.phase),
            binding.op,
        );
        let classes = classes(binding, *least_bytes, width);
        verdict + &paragraph(&when, "", "", width) + "\n" + &classes + "\n" + &largest(binding, *least_bytes, width)
    }

    fn to_json(&self, large: &TooLarge, suggestions: &[Suggestion]) -> Value {
        json!({
            "fits": false,
            "memory_limit": self.request.limit_bytes,
            "least_bytes": large.least_bytes,
            "missing_bytes": large.missing_bytes,
            "closest": considered(&large.closest),
            "binding": binding_json(&large.binding),
            "suggestions": suggestions.iter().map(suggestion_json).collect::<Vec<_>>(),
            "planning_seconds": self.planning_seconds,
        })
    }
}

fn classes(binding: &Binding, peak_bytes: u64, width: usize) -> String {
    let mut table = Table::new(&["at the peak", "size", "share"]);
    let mut row = |name: &str, bytes: usize| {
        table.row([name.to_owned(), size(bytes), share(bytes as f64, peak_bytes as f64)]);
    };
    for (class, bytes) in Class::ALL.into_iter().zip(binding.by_class).filter(|(_, bytes)| *bytes > 0) {
        row(class.name(), bytes);
    }
    row("engine", binding.engine_bytes as usize);
    row("all", peak_bytes as usize);
    table.render(width)
}

fn largest(binding: &Binding, peak_bytes: u64, width: usize) -> String {
    let mut table = Table::new(&["what takes most", "class", "values", "size", "share"]).with_words(2);
    for held in &binding.largest {
        let share = share(held.bytes as f64, peak_bytes as f64);
        let class = held.class.name().to_owned();
        table.row([held.name.clone(), class, count(held.count), size(held.bytes as usize), share]);
    }
    table.render(width)
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

fn binding_json(binding: &Binding) -> Value {
    let classes = Class::ALL.into_iter().zip(binding.by_class);
    let mut memory: Map<String, Value> =
        classes.map(|(class, bytes)| (class.name().to_owned(), json!(bytes))).collect();
    memory.insert("engine".to_owned(), json!(binding.engine_bytes));
    let largest = binding.largest.iter().map(
        |held| json!({ "name": held.name, "class": held.class.name(), "values": held.count, "bytes": held.bytes }),
    );
    json!({
        "op": binding.op,
        "scope": binding.scope,
        "pass": phase_name(binding.phase),
        "memory": memory,
        "largest": largest.collect::<Vec<_>>(),
    })
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

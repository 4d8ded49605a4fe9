//! `meshwright validate`: runs that others measured, predicted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use meshwright::codes::Code;
use meshwright::validate::{Outcome, Row, Score, memory_error, parse_rows, score, time_error, validate};
use serde_json::{Map, Value, json};

use crate::error::{Answer, Error};
use crate::input::{self, Wanted};
use crate::output;
use crate::table::{Table, count, duration, size};
use crate::terminal::terminal_width;

/// Predict runs that others measured, and show how far off that is
///
/// Each row of the table becomes a model, a plan from the row's degrees and a simulation. Rows that cannot be
/// expressed are listed with the reason.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Table of runs: CSV with a line of column names, such as `source_id`, `model`, `tp`, `iter_time_s`
    runs: PathBuf,
    /// Only rows of sources whose name begins so; may be given several times
    #[arg(long, value_name = "SOURCE")]
    source: Vec<String>,
    /// Show every row, not only what sources come to
    #[arg(long)]
    all: bool,
    /// Threads that share the work; as many as there are processors where it is not given
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright validate runs.csv
  meshwright validate runs.csv --source megatron --all
  meshwright validate runs.csv --json | jq .all.median_abs_error";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let started = Instant::now();
    let name = arguments.runs.display();
    let bytes = input::read(&arguments.runs, Wanted { kind: "table", names: &[] })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::new(Code::Unreadable, format!("`{name}` is not valid UTF-8")).hint("save the table as UTF-8")
    })?;
    let mut rows = parse_rows(&text).map_err(|message| {
        Error::new(Code::Runs, format!("`{name}`: {message}")).hint("docs/concepts/accuracy.md lists the columns")
    })?;
    if !arguments.source.is_empty() {
        rows.retain(|row| arguments.source.iter().any(|source| row.source_id.starts_with(source.as_str())));
        if rows.is_empty() {
            return Err(Error::new(Code::Runs, format!("no row of `{name}` is of such a source")));
        }
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes = validate(&rows, arguments.threads.unwrap_or_else(processors));
    let report = Report { rows: &rows, outcomes: &outcomes, seconds: started.elapsed().as_secs_f64() };
    if arguments.json {
        output::print_json(&report.to_json())?;
    } else {
        output::print(report.to_text(terminal_width(), arguments.all).as_bytes())?;
    }
    Ok(Answer::Yes)
}

struct Report<'r> {
    rows: &'r [Row],
    outcomes: &'r [Outcome],
    seconds: f64,
}

impl Report<'_> {
    fn pairs(&self) -> impl Iterator<Item = (&Row, &Outcome)> {
        self.rows.iter().zip(self.outcomes)
    }

    /// Scores by source, in the order of the alphabet.
    fn sources(&self) -> BTreeMap<&str, Score> {
        let mut sources: BTreeMap<&str, Vec<(&Row, &Outcome)>> = BTreeMap::new();
        for (row, outcome) in self.pairs() {
            sources.entry(&row.source_id).or_default().push((row, outcome));
        }
        sources.into_iter().map(|(source, pairs)| (source, score(pairs))).collect()
    }

    fn to_json(&self) -> Value {
        let runs: Vec<Value> = self.pairs().map(|(row, outcome)| run_json(row, outcome)).collect();
        let sources: Map<String, Value> =
            self.sources().into_iter().map(|(source, score)| (source.to_owned(), score_json(&score))).collect();
        json!({
            "runs": runs,
            "sources": sources,
            "all": score_json(&score(self.pairs())),
            "seconds": self.seconds,
        })
    }

    fn to_text(&self, width: usize, all: bool) -> String {
        let mut text = String::new();
        if all {
            let _ = writeln!(text, "{}", self.rows_text(width));
        }
        let heading = ["source", "rows", "median", "mean", "memory", "found OOM", "fits", "rank", "skipped"];
        let mut table = Table::new(&heading);
        let mut row = |name: &str, score: &Score| {
            let skipped: usize = score.skipped.values().sum();
            table.row([
                name.to_owned(),
                count(score.rows),
                percent(score.median_abs_error),
                percent(score.mape),
                percent(score.memory_median_abs_error),
                percent(score.oom_found),
                percent(score.fits_found),
                score.rank_loss.map_or(String::new(), |loss| format!("{loss:.3}")),
                if skipped > 0 { count(skipped) } else { String::new() },
            ]);
        };
        let whole = score(self.pairs());
        for (source, score) in self.sources() {
            row(source, &score);
        }
        row("all", &whole);
        text += &table.render(width);
        text += "\nErrors are shares of what was measured: of the time of a step, and of memory. `rank` is the measured\n\
                 time of the configuration that is predicted to be the fastest, over the least.\n";
        if !whole.skipped.is_empty() {
            text += "\nnot expressed:\n";
            for (reason, rows) in &whole.skipped {
                let _ = writeln!(text, "  {rows:4}  {reason}");
            }
        }
        let _ = writeln!(text, "\n{} rows in {}", count(self.rows.len()), duration(self.seconds));
        text
    }

    fn rows_text(&self, width: usize) -> String {
        let heading = ["run", "tp", "pp", "dp", "micro", "measured", "predicted", "error", "memory", "error"];
        let mut table = Table::new(&heading);
        for (row, outcome) in self.pairs() {
            let Outcome::Predicted(prediction) = outcome else { continue };
            table.row([
                format!("{} {}", row.source_id, row.model),
                row.tp.clone(),
                row.pp.clone(),
                row.dp.clone(),
                row.micro_batch.clone(),
                row.measured_seconds().map_or(String::new(), duration),
                duration(prediction.seconds),
                signed(time_error(row, prediction)),
                size(prediction.peak_bytes as usize),
                signed(memory_error(row, prediction)),
            ]);
        }
        table.render(width)
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or(String::new(), |share| format!("{:.1}%", 100.0 * share))
}

fn signed(share: Option<f64>) -> String {
    share.map_or(String::new(), |share| format!("{:+.1}%", 100.0 * share))
}

fn run_json(row: &Row, outcome: &Outcome) -> Value {
    let mut run = json!({
        "source_id": row.source_id,
        "model": row.model,
        "measured": row.measured_seconds(),
        "measured_bytes": row.measured_bytes(),
        "out_of_memory": row.ran_out(),
    });
    match outcome {
        Outcome::Predicted(prediction) => {
            run["predicted"] = json!(prediction.seconds);
            run["error"] = json!(time_error(row, prediction));
            run["peak_bytes"] = json!(prediction.peak_bytes);
            run["memory_error"] = json!(memory_error(row, prediction));
            run["fits"] = json!(prediction.fits);
        }
        Outcome::Skipped(reason) => run["skipped"] = json!(reason),
    }
    run
}

fn score_json(score: &Score) -> Value {
    json!({
        "rows": score.rows,
        "median_abs_error": score.median_abs_error,
        "mape": score.mape,
        "memory_median_abs_error": score.memory_median_abs_error,
        "oom_found": score.oom_found,
        "fits_found": score.fits_found,
        "rank_loss": score.rank_loss,
        "skipped": score.skipped,
    })
}

//! The page of a sweep.

use serde::Serialize;
use serde_json::Value;

use super::{Document, Verdict};
use crate::table::{count, duration, size};

/// What is varied, and what came of every combination.
#[derive(Debug, Serialize)]
pub(super) struct SweepPart {
    keys: Vec<&'static str>,
    rows: Vec<SweptRow>,
}

/// A combination.
#[derive(Clone, Debug, Serialize)]
pub struct SweptRow {
    /// A value for every key.
    pub values: Vec<f64>,
    /// The same as people read them.
    pub shown: Vec<String>,
    pub step_seconds: Option<f64>,
    pub throughput: Option<f64>,
    pub mfu: Option<f64>,
    pub peak_bytes: Option<usize>,
    pub memory_limit: Option<usize>,
    pub fits: bool,
    pub mesh: Option<String>,
    /// Why nothing came of it.
    pub reason: Option<String>,
}

/// `json` is what `--json` prints.
pub fn sweep_document(title: String, keys: Vec<&'static str>, rows: Vec<SweptRow>, json: Value) -> Document {
    let fitting: Vec<&SweptRow> = rows.iter().filter(|row| row.fits).collect();
    let seconds = |row: &SweptRow| row.step_seconds.unwrap_or(f64::INFINITY);
    let best = fitting.iter().min_by(|left, right| match (left.throughput, right.throughput) {
        (Some(left), Some(right)) => right.total_cmp(&left),
        _ => seconds(left).total_cmp(&seconds(right)),
    });
    let all = count(rows.len());
    let text = match best {
        Some(best) => {
            let chosen: Vec<String> =
                keys.iter().zip(&best.shown).map(|(key, shown)| format!("{key} {shown}")).collect();
            let (step, peak) = (duration(seconds(best)), size(best.peak_bytes.unwrap_or(0)));
            format!("{} of {all} fit. Best: {} with {step} a step in {peak}", count(fitting.len()), chosen.join(", "))
        }
        None => format!("None of {all} fits"),
    };
    let verdict = Verdict { fits: Some(best.is_some()), text };
    let mut document = Document::new("sweep", title, verdict, json);
    document.sweep = Some(SweepPart { keys, rows });
    document
}

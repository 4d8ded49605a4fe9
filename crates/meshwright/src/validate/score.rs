//! How far predictions are from what was measured.

use std::collections::BTreeMap;

use super::predict::Prediction;
use super::row::Row;

/// What became of a row.
#[derive(Clone, Debug)]
pub enum Outcome {
    Predicted(Prediction),
    /// Why it cannot be expressed.
    Skipped(String),
}

/// Of the rows of one source, or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Rows that were predicted.
    pub rows: usize,
    /// Of the time of a step, as shares of what was measured.
    pub median_abs_error: Option<f64>,
    pub mape: Option<f64>,
    /// Of memory.
    pub memory_median_abs_error: Option<f64>,
    /// The share of runs that ran out of memory for which that was predicted.
    pub oom_found: Option<f64>,
    /// The share of the other runs that were predicted to fit.
    pub fits_found: Option<f64>,
    /// For each model and cluster with several runs: the measured time of the one that is predicted to be the
    /// fastest, over the least measured. The median of these.
    pub rank_loss: Option<f64>,
    /// Reasons, each with the number of its rows.
    pub skipped: BTreeMap<String, usize>,
}

/// The error of a predicted time, as a share of what was measured.
pub fn time_error(row: &Row, prediction: &Prediction) -> Option<f64> {
    let measured = row.measured_seconds().filter(|_| !row.ran_out())?;
    Some(prediction.seconds / measured - 1.0)
}

/// The error of predicted memory, as a share of what was measured.
pub fn memory_error(row: &Row, prediction: &Prediction) -> Option<f64> {
    let measured = row.measured_bytes().filter(|_| !row.ran_out())?;
    Some(prediction.peak_bytes / measured - 1.0)
}

/// Scores rows with what became of them.
pub fn score<'r>(rows: impl IntoIterator<Item = (&'r Row, &'r Outcome)>) -> Score {
    let mut score = Score::default();
    let (mut times, mut memories) = (Vec::new(), Vec::new());
    let (mut ooms, mut fits) = (Vec::new(), Vec::new());
    let mut configurations: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (row, outcome) in rows {
        let prediction = match outcome {
            Outcome::Predicted(prediction) => prediction,
            Outcome::Skipped(reason) => {
                *score.skipped.entry(reason.clone()).or_default() += 1;
                continue;
            }
        };
        score.rows += 1;
        times.extend(time_error(row, prediction).map(f64::abs));
        memories.extend(memory_error(row, prediction).map(f64::abs));
        if row.ran_out() {
            ooms.push(!prediction.fits);
        } else {
            fits.push(prediction.fits);
        }
        if let Some(measured) = row.measured_seconds().filter(|_| !row.ran_out()) {
            configurations.entry(task(row)).or_default().push((prediction.seconds, measured));
        }
    }
    score.median_abs_error = median(&mut times);
    score.mape = mean(&times);
    score.memory_median_abs_error = median(&mut memories);
    score.oom_found = share(&ooms);
    score.fits_found = share(&fits);
    let mut losses: Vec<f64> = configurations.values().filter_map(|runs| rank_loss(runs)).collect();
    score.rank_loss = median(&mut losses);
    score
}

/// What configurations have in common that compete with each other: the same work on the same devices.
fn task(row: &Row) -> String {
    format!("{}|{}|{}|{}|{}|{}", row.source_id, row.model, row.seq, row.global_batch_seqs, row.gpu, row.n_gpus)
}

/// Pairs of predicted and measured times. One run alone tells nothing.
fn rank_loss(runs: &[(f64, f64)]) -> Option<f64> {
    let first = runs.iter().min_by(|left, right| left.0.total_cmp(&right.0))?;
    let best = runs.iter().map(|run| run.1).fold(f64::INFINITY, f64::min);
    (runs.len() > 1).then_some(first.1 / best)
}

fn share(found: &[bool]) -> Option<f64> {
    (!found.is_empty()).then(|| found.iter().filter(|&&found| found).count() as f64 / found.len() as f64)
}

fn mean(errors: &[f64]) -> Option<f64> {
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// The middle one, or the mean of the two in the middle.
pub fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        count if count % 2 == 1 => Some(numbers[middle]),
        _ => Some((numbers[middle - 1] + numbers[middle]) / 2.0),
    }
}

//! Runs that others measured, predicted: rows of a table become models, plans and simulations.

mod predict;
mod row;
mod score;
mod setup;

pub use predict::{Prediction, key, predict, prepare};
pub use row::{Row, parse_rows};
pub use score::{Outcome, Score, median, memory_error, score, time_error};
pub use setup::{Degrees, Recompute, Setup, Sharding, setup};

use rustc_hash::FxHashMap;

/// Predicts every row. Rows that are laid out alike share that work; `threads` share the rest.
pub fn validate(rows: &[Row], threads: usize) -> Vec<Outcome> {
    let setups: Vec<Result<Setup, String>> = rows.iter().map(setup).collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: FxHashMap<String, usize> = FxHashMap::default();
    for (index, setup) in setups.iter().enumerate() {
        if let Ok(setup) = setup {
            let group = *known.entry(key(setup)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(index);
        }
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut done: Vec<(usize, Outcome)> = Vec::new();
        loop {
            let group = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(members) = groups.get(group) else { return done };
            done.extend(predict_alike(&setups, members));
        }
    };
    let mut outcomes: Vec<Outcome> = setups
        .iter()
        .map(|setup| Outcome::Skipped(setup.as_ref().err().cloned().unwrap_or_else(|| "a thread ended".to_owned())))
        .collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        for (index, outcome) in threads.into_iter().filter_map(|thread| thread.join().ok()).flatten() {
            outcomes[index] = outcome;
        }
    });
    outcomes
}

/// Predicts rows that are laid out alike.
fn predict_alike(setups: &[Result<Setup, String>], members: &[usize]) -> Vec<(usize, Outcome)> {
    let mut prepared = None;
    let mut outcomes = Vec::new();
    for &index in members {
        let Ok(setup) = &setups[index] else { continue };
        let outcome = match prepared.get_or_insert_with(|| prepare(setup)) {
            Ok((prepared, _)) => Outcome::Predicted(predict(setup, prepared).0),
            Err(reason) => Outcome::Skipped(reason.clone()),
        };
        outcomes.push((index, outcome));
    }
    outcomes
}

//! A schedule of tactics, from a program to what each device runs.

use super::{Tactic, TacticError, apply};
use crate::lower::{LocalProgram, Measures, Price, lower_layout, measure};
use crate::program::Program;
use crate::shard::{Conflict, Layout, Mesh};

/// A program laid out by tactics and lowered.
#[derive(Clone, Debug)]
pub struct Partitioned {
    pub local: LocalProgram,
    /// One per tactic.
    pub feedback: Vec<Feedback>,
    pub conflicts: Vec<Conflict>,
}

/// What the program costs once a tactic is applied.
#[derive(Clone, Debug)]
pub struct Feedback {
    pub tactic: String,
    pub measures: Measures,
    /// What was asked for and could not be.
    pub notes: Vec<String>,
}

/// Applies tactics in order, each followed by propagation, and lowers the result. The program is
/// lowered after every tactic, for feedback; threads share that work.
pub fn partition(
    program: &Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
) -> Result<Partitioned, TacticError> {
    let mut layout = Layout::new(program, mesh.clone());
    let mut snapshots = Vec::new();
    let mut notes = Vec::new();
    for (number, tactic) in tactics.iter().enumerate() {
        notes.push(apply(&mut layout, tactic, number as u16)?);
        snapshots.push(layout.clone());
    }
    let last = snapshots.pop().unwrap_or_else(|| layout.clone());
    let (local, measured) = std::thread::scope(|scope| {
        let threads: Vec<_> = snapshots
            .into_iter()
            .map(|snapshot| scope.spawn(move || lower_layout(&snapshot, price).map(|local| measure(&local.program))))
            .collect();
        let local = lower_layout(&last, price);
        let measured: Vec<_> =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread ended".to_owned())).collect();
        (local, measured)
    });
    let fail = |message: String| TacticError { tactic: "lowering".to_owned(), message, hint: None };
    let local = local.map_err(fail)?;
    let mut measures = Vec::new();
    for measured in measured {
        measures.push(measured.and_then(|measured| measured).map_err(fail)?);
    }
    if !tactics.is_empty() {
        measures.push(measure(&local.program));
    }
    let feedback = tactics.iter().zip(measures).zip(notes).map(|((tactic, measures), notes)| Feedback {
        tactic: tactic.name.clone(),
        measures,
        notes,
    });
    Ok(Partitioned { local, feedback: feedback.collect(), conflicts: layout.conflicts() })
}

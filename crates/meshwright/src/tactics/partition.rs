//! A schedule of tactics, from a program to what each device runs.

use std::sync::Arc;

use super::remat::remat;
use super::{Action, Pattern, Tactic, TacticError, apply};
use crate::lower::{Explanation, LocalProgram, Measures, Price, explain, lower_layout, measure};
use crate::plan::{Told, lay_out_cheapest};
use crate::program::{Anatomy, Program, expand_batch_norm};
use crate::shard::{Axis, Conflict, Layout, Mesh};

/// A program laid out by tactics and lowered.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// What was laid out: the program given, with batch normalizations written out and with what is
    /// computed again.
    pub program: Program,
    /// What its parts are for.
    pub anatomy: Arc<Anatomy>,
    pub local: LocalProgram,
    /// One per tactic.
    pub feedback: Vec<Feedback>,
    pub conflicts: Vec<Conflict>,
    /// One per reshard of the local program.
    pub explanations: Vec<Explanation>,
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
    if let Some(number) = tactics.iter().position(|tactic| tactic.actions.iter().any(is_stages)) {
        let message = "`stages` makes a program for every stage, not one".to_owned();
        return Err(TacticError { number: Some(number), tactic: tactics[number].name.clone(), message, hint: None });
    }
    let program = rewrite(program, mesh, tactics);
    let LaidOut { layout, mut snapshots, notes } = lay_out(&program, mesh, tactics, price)?;
    let last = snapshots.pop().unwrap_or_else(|| layout.clone());
    let (local, measured) = measure_all(snapshots, price, || lower_layout(last, price));
    let fail = |message: String| TacticError { number: None, tactic: "lowering".to_owned(), message, hint: None };
    let (decided, local) = local.map_err(fail)?;
    let mut measures = Vec::new();
    for measured in measured {
        measures.push(measured.map_err(fail)?);
    }
    if !tactics.is_empty() {
        measures.push(measure(&local.program));
    }
    let feedback = tactics.iter().zip(measures).zip(notes).map(|((tactic, measures), notes)| Feedback {
        tactic: tactic.name.clone(),
        measures,
        notes,
    });
    let names: Vec<&str> = tactics.iter().map(|tactic| tactic.name.as_str()).collect();
    let explanations = explain(&decided, &local, &names);
    let (feedback, conflicts) = (feedback.collect(), layout.conflicts());
    let anatomy = layout.anatomy.clone();
    Ok(Partitioned { program, anatomy, local, feedback, conflicts, explanations })
}

/// The program that is laid out: batch normalizations written out, and some of it computed again. Where it runs
/// in microbatches, weights wait for nothing.
pub fn rewrite(program: &Program, mesh: &Mesh, tactics: &[Tactic]) -> Program {
    let scopes: Vec<&Pattern> =
        tactics.iter().flat_map(|tactic| tactic.actions.iter()).filter_map(remat_scope).collect();
    let program = remat(&expand_batch_norm(program), &scopes);
    if mesh.axes.iter().any(|axis| axis.temporal) { program.free_arguments() } else { program }
}

/// A program laid out by tactics.
#[derive(Clone, Debug)]
pub struct LaidOut<'p> {
    pub layout: Layout<'p>,
    /// The layout after every tactic.
    pub snapshots: Vec<Layout<'p>>,
    /// Of every tactic, what was asked for and could not be.
    pub notes: Vec<Vec<String>>,
}

/// Applies tactics in order, each followed by propagation.
pub fn lay_out<'p>(
    program: &'p Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
) -> Result<LaidOut<'p>, TacticError> {
    let mut snapshots = Vec::new();
    let (layout, notes) = apply_all(program, mesh, tactics, price, |layout| snapshots.push(layout.clone()))?;
    Ok(LaidOut { layout, snapshots, notes })
}

/// The layout after the last tactic, and what was asked for and could not be.
pub(crate) fn lay_out_last<'p>(
    program: &'p Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
) -> Result<(Layout<'p>, Vec<Vec<String>>), TacticError> {
    apply_all(program, mesh, tactics, price, |_| {})
}

fn apply_all<'p>(
    program: &'p Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
    mut after: impl FnMut(&Layout<'p>),
) -> Result<(Layout<'p>, Vec<Vec<String>>), TacticError> {
    let mut layout = Layout::new(program, with_splits(mesh, tactics)?);
    let mut notes = Vec::new();
    for (number, tactic) in tactics.iter().enumerate() {
        let auto = tactic.actions.iter().find_map(|action| match action {
            Action::Auto(auto) => Some(auto),
            _ => None,
        });
        notes.push(match auto {
            Some(auto) => {
                layout.begin_tactic(number as u16);
                let told = Told { before: &tactics[..number], auto };
                lay_out_cheapest(&mut layout, told, price).map_err(|message| TacticError {
                    number: Some(number),
                    tactic: tactic.name.clone(),
                    message,
                    hint: None,
                })?
            }
            None => apply(&mut layout, tactic, number as u16)?,
        });
        after(&layout);
    }
    Ok((layout, notes))
}

/// The local program under tactics, without what every one of them costs, for those who ask for many.
pub fn only_local(
    program: &Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
) -> Result<(LocalProgram, Arc<Anatomy>), TacticError> {
    let program = rewrite(program, mesh, tactics);
    let (layout, _) = lay_out_last(&program, mesh, tactics, price)?;
    let fail = |message: String| TacticError { number: None, tactic: "lowering".to_owned(), message, hint: None };
    let anatomy = layout.anatomy.clone();
    let (_, local) = lower_layout(layout, price).map_err(fail)?;
    Ok((local, anatomy))
}

/// What the program costs under each of several layouts, found on threads while this one does something else.
pub(crate) fn measure_all<T>(
    snapshots: Vec<Layout<'_>>,
    price: Price<'_>,
    meanwhile: impl FnOnce() -> T,
) -> (T, Vec<Result<Measures, String>>) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = snapshots
            .into_iter()
            .map(|snapshot| {
                scope.spawn(move || lower_layout(snapshot, price).map(|(_, local)| measure(&local.program)))
            })
            .collect();
        let done = meanwhile();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Measures, String>>| {
            thread.join().map_err(|_| "a thread ended".to_owned()).and_then(|measured| measured)
        };
        (done, threads.into_iter().map(join).collect())
    })
}

fn is_stages(action: &Action) -> bool {
    matches!(action, Action::Stages(_))
}

fn remat_scope(action: &Action) -> Option<&Pattern> {
    match action {
        Action::Remat(pattern) => Some(pattern),
        _ => None,
    }
}

/// The mesh with an axis in time for every tensor that is split.
fn with_splits(mesh: &Mesh, tactics: &[Tactic]) -> Result<Mesh, TacticError> {
    let mut mesh = mesh.clone();
    for (number, tactic) in tactics.iter().enumerate() {
        for action in &tactic.actions {
            if let Action::Split { pattern, slices } = action {
                let axis = Axis { name: split_axis(pattern), size: *slices, temporal: true };
                let axes = mesh.axes.iter().cloned().chain([axis]).collect();
                let fail =
                    |message| TacticError { tactic: tactic.name.clone(), number: Some(number), message, hint: None };
                mesh = Mesh::new(axes).map_err(fail)?;
            }
        }
    }
    Ok(mesh)
}

/// The name of the axis that the slices of a split tensor lie along.
pub(crate) fn split_axis(pattern: &Pattern) -> String {
    let letters = pattern.text().chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    format!("split_{}", letters.collect::<String>())
}

//! What was said about a plan, and what of that holds whatever the mesh.

use std::sync::Arc;

use super::bundle::{Bundle, Bundles};
use super::recipe::Split;
use super::slicer::{Slicer, sliced_factor};
use crate::program::{Id, OpId};
use crate::shard::{Axis, Layout, Mesh};
use crate::tactics::{Action, Auto, Pattern, Tactic, act, scope_numbers, split_axis};

/// What a user says about a plan.
#[derive(Clone, Copy, Debug)]
pub struct Told<'t> {
    /// All that comes before is decided.
    pub before: &'t [Tactic],
    pub auto: &'t Auto,
}

impl<'t> Told<'t> {
    /// Tactics as what is decided and what is left, all where they do not say. The number of a tactic that no plan can
    /// be made with, and why, where there is one.
    pub fn new(tactics: &'t [Tactic], all: &'t Auto) -> Result<Told<'t>, (usize, String)> {
        let auto = |tactic: &'t Tactic| {
            tactic.actions.iter().find_map(|action| if let Action::Auto(auto) = action { Some(auto) } else { None })
        };
        let place = tactics.iter().position(|tactic| auto(tactic).is_some()).unwrap_or(tactics.len());
        if place + 1 < tactics.len() {
            return Err((
                place + 1,
                "nothing comes after `auto` in a plan, which cuts the batch in time too".to_owned(),
            ));
        }
        let before = &tactics[..place];
        let is_stages = |action: &Action| matches!(action, Action::Stages(_));
        if let Some(number) = before.iter().position(|tactic| tactic.actions.iter().any(is_stages)) {
            return Err((number, "`stages` is not taken over into plans, which are asked for stages apart".to_owned()));
        }
        Ok(Told { before, auto: tactics.get(place).and_then(auto).unwrap_or(all) })
    }
}

/// What was said about how the program runs, whatever the mesh.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewriting {
    /// For every op the scope, by number, that is computed again and that it is in.
    scopes: Vec<Option<usize>>,
    /// For every bundle whether it is made again.
    again: Vec<bool>,
    /// What runs in slices.
    pub(super) splits: Vec<Split>,
    /// For every value into how many slices it is cut so, one of which is there at a time.
    pub(super) slices: Option<Arc<Vec<u8>>>,
}

impl Rewriting {
    pub(super) fn new(base: &Layout<'_>, bundles: &Bundles, told: Told<'_>) -> Result<Rewriting, String> {
        let splits = splits(base, told)?;
        let slices = (!splits.is_empty()).then(|| Arc::new(Slicer::new(base).thin(&splits)));
        let scopes = scopes(base, told);
        let again = if scopes.is_empty() { Vec::new() } else { again(base, bundles, &scopes) };
        Ok(Rewriting { scopes, again, splits, slices })
    }

    /// The scope, by number, that was said to be computed again and that an op is in.
    pub(super) fn scope(&self, op: OpId) -> Option<usize> {
        self.scopes.get(op.index()).copied().flatten()
    }

    /// Whether it was said that a bundle is made again.
    pub(super) fn is_again(&self, bundle: usize) -> bool {
        self.again.get(bundle).is_some_and(|again| *again)
    }

    pub(super) fn is_any_again(&self) -> bool {
        self.again.contains(&true)
    }

    /// Whether it was said that an op runs in slices.
    pub(super) fn is_split(&self, op: OpId) -> bool {
        self.splits.iter().any(|split| split.has(op))
    }

    /// Into how many slices a factor of an op is cut.
    pub(super) fn slices_of(&self, op: OpId, factor: usize) -> usize {
        let is_it = |split: &&Split| split.ops.iter().any(|&(other, cut)| other == op && usize::from(cut) == factor);
        self.splits.iter().filter(is_it).map(|split| split.slices).product()
    }
}

/// The scopes that are computed again, by the ops that are in them; none where there are no such scopes.
fn scopes(base: &Layout<'_>, told: Told<'_>) -> Vec<Option<usize>> {
    let actions = told.before.iter().flat_map(|tactic| &tactic.actions);
    let patterns: Vec<&Pattern> =
        actions.filter_map(|action| if let Action::Remat(pattern) = action { Some(pattern) } else { None }).collect();
    if patterns.is_empty() { Vec::new() } else { scope_numbers(base.program, &base.anatomy, &patterns) }
}

/// The bundles of scopes that are computed again.
fn again(base: &Layout<'_>, bundles: &Bundles, scopes: &[Option<usize>]) -> Vec<bool> {
    let program = base.program;
    let is_again = |bundle: &Bundle| {
        let is_made = |op: &&OpId| !program.ops[**op].operands.is_empty();
        let mut inside = bundle.ops.iter().filter(is_made).map(|op| scopes[op.index()]);
        let first = inside.next().flatten();
        first.is_some() && inside.all(|scope| scope == first)
    };
    bundles.list.iter().map(is_again).collect()
}

/// What runs in slices: the ops that read a tensor, as far as what follows from cutting it goes.
fn splits(base: &Layout<'_>, told: Told<'_>) -> Result<Vec<Split>, String> {
    let slicer = Slicer::new(base);
    let mut splits: Vec<Split> = Vec::new();
    for (tactic, action) in
        told.before.iter().flat_map(|tactic| tactic.actions.iter().map(move |action| (tactic, action)))
    {
        let Action::Split { pattern, slices } = action else { continue };
        let axis = Axis { name: split_axis(pattern), size: *slices, temporal: true };
        let mut layout = base.on(Mesh::new(vec![axis])?);
        let notes = act(&mut layout, tactic, action).map_err(|(message, _)| message)?;
        layout.propagate();
        let is_free = |op: &OpId| slicer.may_slice(*op) && !splits.iter().any(|split| split.has(*op));
        let ops = layout.ops().iter().copied().filter(is_free);
        let ops: Vec<_> = ops.filter_map(|op| Some((op, sliced_factor(&layout, op)?))).collect();
        if ops.is_empty() {
            let why = if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) };
            return Err(format!("nothing of `{}` can run in {slices} slices{why}", pattern.text()));
        }
        splits.push(Split { slices: *slices, ops });
    }
    Ok(splits)
}

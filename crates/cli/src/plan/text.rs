//! The plan as people read it.

use meshwright::plan::{Considered, Decision, Keeping};
use meshwright::program::{OpId, Phase, Program};

use super::Report;
use crate::names::collapse;
use crate::place::op_place;
use crate::table::{Table, count, duration, paragraph, share, size};

/// Alternatives that are told, and groups of operations.
const ALTERNATIVES: usize = 6;
const GROUPS: usize = 24;

impl Report<'_> {
    pub(super) fn to_text(&self, width: usize) -> String {
        self.simulated.to_text(width)
            + "\n"
            + &self.groups(width)
            + "\n"
            + &self.alternatives(width)
            + &self.search(width)
    }

    /// What the dearest operations do.
    fn groups(&self, width: usize) -> String {
        let mut decisions: Vec<&Decision> = self.plan.decisions.iter().collect();
        decisions.sort_by(|left, right| right.compute_seconds.total_cmp(&left.compute_seconds));
        let mut table = Table::new(&["operations", "times", "result lies", "is", "computes"]);
        for decision in decisions.iter().take(GROUPS) {
            table.row([
                group_name(self.program, decision),
                count(decision.bundles.len()),
                decision.lies.clone(),
                keeping_name(decision.keeping).to_owned(),
                duration(decision.compute_seconds),
            ]);
        }
        table.render(width)
    }

    fn alternatives(&self, width: usize) -> String {
        let mut table = Table::new(&["what else fits", "microbatches", "a step", "at the peak"]);
        let row = |other: &Considered| {
            [
                other.mesh.to_string(),
                count(other.microbatches),
                duration(other.step_seconds),
                size(other.peak_bytes as usize),
            ]
        };
        self.plan.alternatives.iter().skip(1).take(ALTERNATIVES).for_each(|other| table.row(row(other)));
        if self.plan.alternatives.len() > 1 { table.render(width) + "\n" } else { String::new() }
    }

    fn search(&self, width: usize) -> String {
        let words = format!(
            "Planned in {}. Products alone take {}, whatever the plan; the labelling is within {} of its bound.",
            duration(self.planning_seconds),
            duration(self.plan.lower_bound_seconds),
            share(self.plan.search_gap, 1.0),
        );
        paragraph(&words, "", "", width)
    }
}

/// A group of operations by the place of its first.
pub(super) fn group_name(program: &Program, decision: &Decision) -> String {
    let first: Option<OpId> = decision.bundles.first().and_then(|bundle| bundle.first()).copied();
    let place = first.and_then(|op| op_place(program, op)).map(|place| collapse(&place)).unwrap_or_default();
    match decision.phase {
        Phase::Update if place.is_empty() => "update".to_owned(),
        Phase::Forward | Phase::Backward | Phase::Update => place,
    }
}

pub(super) fn keeping_name(keeping: Keeping) -> &'static str {
    match keeping {
        Keeping::Kept => "kept",
        Keeping::Recomputed => "recomputed",
        Keeping::Dropped => "dropped",
    }
}

/// What is told where nothing fits.
pub(super) fn refusal(limit_bytes: u64, least_bytes: Option<u64>) -> String {
    match least_bytes {
        Some(least) => format!(
            "Does not fit: the smallest plan found takes {} on a device, {} more than its {}\n",
            size(least as usize),
            size(least.saturating_sub(limit_bytes) as usize),
            size(limit_bytes as usize),
        ),
        None => format!(
            "Does not fit: parameters and the optimizer's state alone take more than {} on a device, however they are cut\n",
            size(limit_bytes as usize)
        ),
    }
}

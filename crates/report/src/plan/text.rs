//! The plan as people read it.

use meshwright::plan::{Considered, Decision, Keeping};
use meshwright::program::{OpId, Phase, Program};

use super::Report;
use crate::names::collapse;
use crate::place::op_place;
use crate::table::{Table, count, duration, paragraph, share, size};

/// Alternatives that are told, and groups of operations.
const ALTERNATIVES: usize = 6;
const GROUPS: usize = 16;

impl Report<'_> {
    pub fn to_text(&self, width: usize) -> String {
        self.simulated.to_text(width)
            + "\n"
            + &self.groups(width)
            + "\n"
            + &self.slices(width)
            + &self.alternatives(width)
            + &self.search(width)
    }

    /// What the dearest operations do, those alike told once.
    fn groups(&self, width: usize) -> String {
        let mut groups: Vec<Group> = Vec::new();
        for decision in &self.plan.decisions {
            let (count, seconds) = (decision.bundles.len(), decision.compute_seconds);
            let name = group_name(self.program, decision);
            let (pass, keeping, lies) = (phase_name(decision.phase), keeping_name(decision.keeping), &decision.lies);
            let is_same = |group: &&mut Group| {
                group.name == name && group.lies == *lies && (group.pass, group.keeping) == (pass, keeping)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => {
                    group.count += count;
                    group.seconds += seconds;
                }
                None => groups.push(Group { name, pass, keeping, lies: lies.clone(), count, seconds }),
            }
        }
        groups.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
        let mut table = Table::new(&["operations", "pass", "times", "computes", "is", "result lies"]).ending_in_prose();
        for group in groups.into_iter().take(GROUPS) {
            let Group { name, pass, keeping, lies, count: times, seconds } = group;
            table.row([name, pass.to_owned(), count(times), duration(seconds), keeping.to_owned(), lies]);
        }
        table.render(width)
    }

    /// What runs in slices, by where it is.
    fn slices(&self, width: usize) -> String {
        let mut table = Table::new(&["runs in slices", "slices", "operations"]);
        for split in &self.plan.recipe.splits {
            let mut counts: Vec<(String, usize)> = Vec::new();
            for &(op, _) in &split.ops {
                let place = collapse(&op_place(self.program, op).unwrap_or_default());
                match counts.iter_mut().find(|(name, _)| *name == place) {
                    Some((_, times)) => *times += 1,
                    None => counts.push((place, 1)),
                }
            }
            counts.into_iter().for_each(|(place, times)| table.row([place, count(split.slices), count(times)]));
        }
        if self.plan.recipe.splits.is_empty() { String::new() } else { table.render(width) + "\n" }
    }

    fn alternatives(&self, width: usize) -> String {
        let mut table = Table::new(&["what else fits", "microbatches", "a step", "at the peak"]);
        let row = |other: &Considered| {
            let stages = if other.stages > 1 { format!("{} stages of ", other.stages) } else { String::new() };
            [
                format!("{stages}{}", other.mesh),
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

/// Decisions alike.
struct Group {
    name: String,
    pass: &'static str,
    keeping: &'static str,
    lies: String,
    count: usize,
    seconds: f64,
}

pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Update => "update",
    }
}

/// A group of operations by the place of its first.
pub(super) fn group_name(program: &Program, decision: &Decision) -> String {
    let first: Option<OpId> = decision.bundles.first().and_then(|bundle| bundle.first()).copied();
    let place = first.and_then(|op| op_place(program, op)).map(|place| collapse(&place)).unwrap_or_default();
    if place.is_empty() { phase_name(decision.phase).to_owned() } else { place }
}

pub(super) fn keeping_name(keeping: Keeping) -> &'static str {
    match keeping {
        Keeping::Kept => "kept",
        Keeping::Recomputed => "recomputed",
        Keeping::Dropped => "dropped",
    }
}

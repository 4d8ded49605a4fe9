//! The plan as people read it.

use meshwright::pipeline::Staging;
use meshwright::plan::{Considered, Decision, Keeping};
use meshwright::program::{OpId, Phase, Program};
use meshwright::shard::{Axis, Mesh};

use super::Report;
use crate::names::collapse;
use crate::place::op_place;
use crate::table::{Table, count, duration, paragraph, share, size};

/// Alternatives that are told, and groups of operations.
const ALTERNATIVES: usize = 6;
const GROUPS: usize = 16;

/// Plans are worth a hint that take no more than these shares of the memory and of the time.
const MUCH_SMALLER: f64 = 0.8;
const LITTLE_SLOWER: f64 = 1.15;

impl Report<'_> {
    pub fn to_text(&self, width: usize) -> String {
        self.simulated.to_text_under(&self.verdict(), width)
            + "\n"
            + &self.groups(width)
            + "\n"
            + &self.slices(width)
            + &self.held(width)
            + &self.alternatives(width)
            + &self.search(width)
    }

    /// The answer in a line, with how far it is from what no plan can beat.
    pub fn verdict(&self) -> String {
        let (step, bound) = (self.plan.timeline.step_seconds, self.plan.lower_bound_seconds);
        // A step that waits for its host says nothing about plans.
        let is_told = bound > 0.0 && step < 2.0 * bound;
        let within = format!(". Within {} of the proven bound", share(step / bound - 1.0, 1.0));
        self.simulated.verdict() + if is_told { &within } else { "" }
    }

    /// What else could be asked for, naming the flags: plans that take much less memory and little more time.
    pub fn hints(&self) -> Vec<String> {
        let chosen = &self.plan.alternatives;
        let (step, peak) = (self.plan.timeline.step_seconds, self.plan.peak_bytes as f64);
        let is_smaller = |other: &&Considered| {
            other.peak_bytes as f64 <= MUCH_SMALLER * peak && other.step_seconds <= LITTLE_SLOWER * step
        };
        let Some(other) = chosen.iter().skip(1).find(is_smaller) else { return Vec::new() };
        let devices: Vec<Axis> = other.mesh.axes.iter().filter(|axis| !axis.temporal).cloned().collect();
        let mesh = match Mesh::new(devices) {
            Ok(devices) if devices != self.plan.recipe.mesh => format!("--mesh {devices} "),
            _ => String::new(),
        };
        let is_same = other.stages == self.plan.recipe.staging.as_ref().map_or(1, Staging::stages);
        let stages = if is_same { String::new() } else { format!("--stages {} ", other.stages) };
        let (more, size) = (share(other.step_seconds / step - 1.0, 1.0), size(other.peak_bytes as usize));
        let microbatches = other.microbatches;
        vec![format!("`{stages}{mesh}--microbatches {microbatches}` takes {size} at the peak, and {more} more time")]
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

    /// What lies on the host.
    fn held(&self, width: usize) -> String {
        if self.plan.recipe.held.is_empty() {
            return String::new();
        }
        let words = format!(
            "{} of state for each device, in {} arguments, are on the host and copied to the device for their update.",
            size(self.plan.held_bytes() as usize),
            count(self.plan.recipe.held.len()),
        );
        paragraph(&words, "", "", width) + "\n"
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
            "Products alone take {}, whatever the plan; the labelling is within {} of its bound.",
            duration(self.plan.lower_bound_seconds),
            share(self.plan.search_gap, 1.0),
        );
        // The clock has a line of its own: all else is the same whenever it is planned.
        paragraph(&words, "", "", width) + &format!("Planned in {}.\n", duration(self.planning_seconds))
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

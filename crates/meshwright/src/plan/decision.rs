//! What was decided, for people.

use super::choices::Choice;
use super::label::{Label, Labelled};
use super::lives::Mode;
use super::runner_up::Other;
use super::sketch::Sketch;
use crate::program::{Id, OpId, Phase};
use crate::shard::Reduction;

/// What a class of ops alike does.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The ops that share it, bundle by bundle; those of a bundle are alike from bundle to bundle.
    pub bundles: Vec<Vec<OpId>>,
    /// The arguments that lie as it has them, by number.
    pub arguments: Vec<usize>,
    pub phase: Phase,
    pub keeping: Keeping,
    /// How the last result of a bundle lies, such as `[{device}, {}]`.
    pub lies: String,
    /// Of computing and moving, in all its bundles, as the labelling counts them.
    pub compute_seconds: f64,
    pub inner_seconds: f64,
    /// Of all moves that it has a part in, as the labelling counts them; those at the other end count them too.
    pub moving_seconds: f64,
    /// The cheapest other thing that it could do, and before it one that would be cheaper than that but does not fit.
    pub runner_ups: Vec<RunnerUp>,
}

/// What becomes of what the forward pass makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    Kept,
    /// It is made again for the backward pass.
    Recomputed,
    /// The backward pass does not need it.
    Dropped,
}

/// Another thing that a class could do, all others doing what they do.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerUp {
    pub keeping: Keeping,
    pub lies: String,
    /// What it would take more, of computing and of moving values; less than nothing where only memory forbids it.
    pub more_compute_seconds: f64,
    pub more_moving_seconds: f64,
    /// How much there would be too much in memory.
    pub over_bytes: u64,
}

impl RunnerUp {
    pub fn more_seconds(&self) -> f64 {
        self.more_compute_seconds + self.more_moving_seconds
    }
}

/// What was decided for every class of a sketch, and what else each could do under a limit.
pub(super) fn decisions(sketch: &Sketch<'_>, labelled: &Labelled, limit_bytes: u64) -> Vec<Decision> {
    let contests = sketch.alternatives(labelled, limit_bytes);
    let bundles = &sketch.ground.bundles;
    let mut arguments: Vec<Vec<usize>> = vec![Vec::new(); sketch.classes.members.len()];
    for (argument, &value) in sketch.ground.program.body().arguments.iter().enumerate() {
        if let Some(origin) = sketch.graph.origins[value.index()] {
            arguments[origin.class()].push(argument);
        }
    }
    let mut decide = |(class, members): (usize, &Vec<usize>)| {
        let label = labelled.labels[class];
        let (choice, count) = (&sketch.choices[class][label.choice], members.len() as f64);
        let contest = contests.get(class);
        let compute_seconds = count * choice.compute_seconds;
        let all_seconds = contest.map_or_else(|| computing(sketch, labelled, class, label), |contest| contest.seconds);
        let others = contest.map_or(&[][..], |contest| &contest.others);
        Decision {
            bundles: members.iter().map(|&member| bundles.list[member].ops.clone()).collect(),
            arguments: std::mem::take(&mut arguments[class]),
            phase: bundles.list[members[0]].phase,
            keeping: label.mode.into(),
            lies: lies(sketch, class, choice),
            compute_seconds,
            inner_seconds: count * choice.inner_seconds,
            moving_seconds: beyond_rounding(sketch, all_seconds - computing(sketch, labelled, class, label)),
            runner_ups: others.iter().map(|other| runner_up(sketch, labelled, class, other)).collect(),
        }
    };
    sketch.classes.members.iter().enumerate().map(&mut decide).collect()
}

fn runner_up(sketch: &Sketch<'_>, labelled: &Labelled, class: usize, other: &Other) -> RunnerUp {
    let (choices, chosen) = (&sketch.choices[class], labelled.labels[class]);
    let computing = |label: Label| computing(sketch, labelled, class, label);
    let more_compute_seconds = computing(other.label) - computing(chosen);
    RunnerUp {
        keeping: other.label.mode.into(),
        lies: lies(sketch, class, &choices[other.label.choice]),
        more_compute_seconds,
        more_moving_seconds: beyond_rounding(sketch, other.more_seconds - more_compute_seconds),
        over_bytes: other.over_bytes,
    }
}

/// How the last result of a bundle lies.
fn lies(sketch: &Sketch<'_>, class: usize, choice: &Choice) -> String {
    let program = sketch.ground.program;
    let first = &sketch.ground.bundles.list[sketch.classes.members[class][0]];
    let last = first.ops.len() - 1;
    let result = program.ops[first.ops[last]].results.first();
    let lies = result.zip(choice.ops[last].made.first()).map(|(&result, &place)| {
        let rank = program.shape(result).len();
        sketch.axes.sharding(place, rank, Reduction::Sum).describe(&sketch.frame.mesh)
    });
    lies.unwrap_or_default()
}

/// The labelling counts in steps; what is less than a few of them is nothing.
fn beyond_rounding(sketch: &Sketch<'_>, seconds: f64) -> f64 {
    if seconds.abs() < 10.0 * sketch.ground.costs.unit { 0.0 } else { seconds }
}

/// What a class computes under a label, as labels count it: where links are busy, that is less than it takes.
fn computing(sketch: &Sketch<'_>, labelled: &Labelled, class: usize, label: Label) -> f64 {
    let rate = |is_forward: bool| labelled.exposure.of(is_forward).computing;
    let again = if label.mode == Mode::Again { rate(false) } else { 0.0 };
    let count = sketch.classes.members[class].len() as f64;
    count * sketch.choices[class][label.choice].compute_seconds * (rate(sketch.classes.is_forward[class]) + again)
}

impl From<Mode> for Keeping {
    fn from(mode: Mode) -> Keeping {
        match mode {
            Mode::Kept => Keeping::Kept,
            Mode::Again => Keeping::Recomputed,
            Mode::Gone => Keeping::Dropped,
        }
    }
}

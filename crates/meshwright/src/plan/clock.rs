//! Time on a tape: the steps of the program, and between them turns in which values are made again.

use std::collections::{BTreeMap, BTreeSet};

use super::tape::{Last, Tape, Taped};

/// Slots of time. Before each late step stand the turns of the values that may be made again then, in the
/// order of the tape; the step itself is the last of its slots.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// For each value, the late steps before which it may be made again, in order.
    pub(super) triggers: Vec<Vec<usize>>,
    /// For each step at which values are made again, a value that is needed then, by which to tell steps alike.
    pub(super) owners: BTreeMap<usize, usize>,
    /// For each step, the values that have a turn.
    turns: Vec<Vec<usize>>,
    /// For each step, its first slot; then the number of slots.
    starts: Vec<usize>,
}

/// At so many steps before it is needed itself may a value be made again for others.
const NEAR: usize = 16;
/// Tapes with fewer steps than this at which something is first needed are looked at as closely as can be.
const FEW: usize = 48;

impl Clock {
    /// Time in which what is needed less than `gap` steps after something else is made again together with it.
    pub(super) fn new(tape: &Tape, gap: usize) -> Clock {
        let early_enough = early_enough(tape, gap);
        let triggers = triggers(tape, &early_enough);
        let mut turns = vec![Vec::new(); tape.steps];
        for (value, steps) in triggers.iter().enumerate() {
            steps.iter().for_each(|&step| turns[step].push(value));
        }
        let mut starts = Vec::with_capacity(tape.steps + 1);
        let mut next = 0;
        for turns in &turns {
            starts.push(next);
            next += turns.len() + 1;
        }
        starts.push(next);
        Clock { triggers, owners: owners(tape, &early_enough), turns, starts }
    }

    pub(super) fn slots(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// The slot in which a step runs.
    pub(super) fn run(&self, step: usize) -> usize {
        self.starts[step + 1] - 1
    }

    /// The slot in which a value is made again for a step. A value that has no turn there takes the next.
    pub(super) fn turn(&self, step: usize, value: usize) -> usize {
        self.starts[step] + self.turns[step].partition_point(|&other| other < value)
    }

    /// The first slot that does not find what a step read last.
    pub(super) fn after(&self, last: Last) -> usize {
        self.run(last.step) + usize::from(!last.is_taken)
    }
}

/// For each late step, the step before which what it needs first is made again.
fn early_enough(tape: &Tape, gap: usize) -> BTreeMap<usize, usize> {
    let firsts: BTreeSet<usize> = tape.values.iter().filter_map(Taped::first_late).collect();
    let gap = if firsts.len() < FEW { 1 } else { gap };
    let mut steps = BTreeMap::new();
    let mut together = 0;
    for &first in &firsts {
        if first >= together + gap || steps.is_empty() {
            together = first;
        }
        steps.insert(first, together);
    }
    steps
}

/// A value may be made again where it is first read late, and where what it is made into may be.
fn triggers(tape: &Tape, early_enough: &BTreeMap<usize, usize>) -> Vec<Vec<usize>> {
    let steps: BTreeSet<usize> = early_enough.values().copied().collect();
    let ranks: BTreeMap<usize, usize> = steps.iter().enumerate().map(|(rank, &step)| (step, rank)).collect();
    let readers = tape.readers();
    let mut triggers: Vec<Vec<usize>> = vec![Vec::new(); tape.values.len()];
    for (index, value) in tape.values.iter().enumerate().rev() {
        if value.cost.is_none() {
            continue;
        }
        let first = value.first_late().map(|first| early_enough[&first]);
        let later = readers[index].iter().flat_map(|&reader| &triggers[reader]).copied();
        let mut steps: Vec<usize> =
            later.chain(first).filter(|&step| first.is_none_or(|first| step <= first)).collect();
        steps.sort_unstable();
        steps.dedup();
        let own = steps.last().map_or(0, |step| ranks[step]);
        // What stands between is nearer, so that it can be made again then too.
        steps.retain(|step| own - ranks[step] <= NEAR);
        triggers[index] = steps;
    }
    triggers
}

/// For each step at which values are made again, the first value that is needed then.
fn owners(tape: &Tape, early_enough: &BTreeMap<usize, usize>) -> BTreeMap<usize, usize> {
    let mut owners = BTreeMap::new();
    for (index, value) in tape.values.iter().enumerate() {
        if let Some(first) = value.first_late() {
            owners.entry(early_enough[&first]).or_insert(index);
        }
    }
    owners
}

//! A tape as a problem of labelling with memory.
//!
//! The labels of a value say when it is made again, if it is, and until when it lives. Forbidden pairs along
//! edges see to it that what is made again finds what it is made of.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use meshwright_solver::problem::{Alternative, Edge, FORBIDDEN, Node, Problem, Resource, Use};
use meshwright_solver::{Answer, Enough, Limit, Options, Start, solve};

use super::clock::Clock;
use super::fold::classes;
use super::tape::{Load, Outcome, Tape};

impl Tape {
    /// The cheapest choice found of values that are made again, so that no more than a limit is in memory.
    /// `None` where there is none, or where none was found.
    pub fn cheapest(&self, limit_bytes: u64) -> Option<Outcome> {
        choose(self, &Clock::new(self, 1), limit_bytes, Start::default()).map(|(outcome, _)| outcome)
    }
}

/// The cheapest choice found within a limit, and what the next search can start from. `None` where there is
/// none, or where none was found.
pub(super) fn choose(tape: &Tape, clock: &Clock, limit_bytes: u64, start: Start) -> Option<(Outcome, Start)> {
    let labels = labels(tape, clock);
    let classes = classes(tape, clock, &labels);
    let problem = problem(tape, clock, &labels, &classes, limit_bytes);
    let options =
        Options { limit: Limit::Work(MOST_WORK), threads: THREADS, seed: 0, start, enough: Enough::default() };
    match solve(&problem, &options, |_| {}) {
        Ok(Answer::Solved(solution)) => {
            let label = |(labels, &class): (&Vec<Label>, &usize)| labels[solution.assignment[class] as usize];
            let again: Vec<bool> = labels.iter().zip(&classes).map(|row| label(row).again.is_some()).collect();
            let start = Start { assignments: vec![solution.assignment], prices: solution.prices };
            Some((tape.outcome_on(clock, &again), start))
        }
        Ok(Answer::Infeasible(_) | Answer::Unknown) | Err(_) => None,
    }
}

/// Enough for a proof where steps have a dozen values, and for a good answer elsewhere.
const MOST_WORK: f64 = 6e7;
/// A value that is made again lives until one of so many steps: the first ones, and the last.
const ENDS: usize = 4;
/// Enough for a sum over all values.
const MOST_COST: u64 = 1 << 40;
/// They change how long it takes, not what is found.
const THREADS: usize = 2;

/// One way to treat a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label {
    /// The late step before which it is made again.
    pub(super) again: Option<usize>,
    /// The last late step that finds it.
    pub(super) until: Option<usize>,
}

impl Label {
    /// Whether what is made again before a step finds the value.
    fn is_there(self, step: usize) -> bool {
        self.again.is_none_or(|again| again <= step) && self.until.is_some_and(|until| step <= until)
    }
}

fn labels(tape: &Tape, clock: &Clock) -> Vec<Vec<Label>> {
    let readers = tape.readers();
    (0..tape.values.len()).map(|index| labels_of(tape, clock, index, &readers[index])).collect()
}

fn labels_of(tape: &Tape, clock: &Clock, index: usize, readers: &[usize]) -> Vec<Label> {
    let value = &tape.values[index];
    let last = value.last_late().map(|last| last.step);
    let mut needs: Vec<usize> = readers.iter().flat_map(|&reader| &clock.triggers[reader]).copied().collect();
    needs.sort_unstable();
    needs.dedup();
    // The steps until which it may have to live.
    let mut ends: Vec<Option<usize>> = needs.iter().copied().filter(|&need| Some(need) > last).map(Some).collect();
    ends.insert(0, last);
    if value.cost.is_none() {
        // Kept for whoever may need it.
        ends.drain(..ends.len() - 1);
    }
    let mut labels: Vec<Label> = ends.iter().map(|&until| Label { again: None, until }).collect();
    for &again in &clock.triggers[index] {
        let lives = |until: &Option<usize>| until.is_some_and(|until| again <= until);
        // What only one value is made of, and nobody reads, is needed at a single step.
        let is_passing = last.is_none() && readers.len() == 1;
        let mut possible: Vec<Option<usize>> = ends.iter().copied().filter(lives).collect();
        if is_passing {
            possible.truncate(1);
        } else if possible.len() > ENDS {
            possible.drain(ENDS - 1..possible.len() - 1);
        }
        labels.extend(possible.into_iter().map(|until| Label { again: Some(again), until }));
    }
    labels
}

/// Values of a class have the same labels, and get the same.
fn problem(tape: &Tape, clock: &Clock, labels: &[Vec<Label>], classes: &[usize], limit_bytes: u64) -> Problem {
    let readers = tape.readers();
    let count = classes.iter().max().map_or(0, |most| most + 1);
    let mut nodes: Vec<Node> = vec![Node::default(); count];
    for (index, labels) in labels.iter().enumerate() {
        let alternatives = labels.iter().map(|&label| alternative(tape, clock, index, &readers[index], label));
        let node = &mut nodes[classes[index]];
        if node.alternatives.is_empty() {
            node.alternatives = alternatives.collect();
        } else {
            node.alternatives.iter_mut().zip(alternatives).for_each(|(sum, other)| {
                sum.cost += other.cost;
                sum.uses.extend(other.uses);
            });
        }
    }
    nodes.push(Node { alternatives: vec![Alternative { cost: 0, uses: fixed_uses(tape, clock).into() }] });
    let edges = edges(tape, labels, classes, &mut nodes);
    let memory = Resource { name: "memory".to_owned(), limit: Some(limit_bytes) };
    Problem { name: "recomputation".to_owned(), resources: vec![memory], nodes, edges }
}

/// What is forbidden between values is forbidden between their classes, and inside of a class it is the label.
fn edges(tape: &Tape, labels: &[Vec<Label>], classes: &[usize], nodes: &mut [Node]) -> Vec<Edge> {
    let mut tables: BTreeMap<(usize, usize), Vec<i64>> = BTreeMap::new();
    for (reader, value) in tape.values.iter().enumerate() {
        for &read in &value.reads {
            let table = table(&labels[read], &labels[reader], value.is_copy);
            match tables.entry((classes[read], classes[reader])) {
                Entry::Vacant(entry) => _ = entry.insert(table),
                Entry::Occupied(mut entry) => {
                    entry.get_mut().iter_mut().zip(table).for_each(|(most, other)| *most = (*most).max(other));
                }
            }
        }
    }
    let mut edges = Vec::new();
    for ((read, reader), table) in tables {
        if read == reader {
            for (index, alternative) in nodes[read].alternatives.iter_mut().enumerate() {
                let is_forbidden = table[index * labels_of_class(&table) + index] == FORBIDDEN;
                alternative.cost = if is_forbidden { FORBIDDEN } else { alternative.cost };
            }
        } else if table.contains(&FORBIDDEN) {
            edges.push(Edge { nodes: [read as u32, reader as u32].into_iter().collect(), costs: table.into() });
        }
    }
    edges
}

/// The side of a square table.
fn labels_of_class(table: &[i64]) -> usize {
    table.len().isqrt()
}

fn alternative(tape: &Tape, clock: &Clock, index: usize, readers: &[usize], label: Label) -> Alternative {
    let value = &tape.values[index];
    let until = label.until.map_or(0, |until| match value.last_late() {
        Some(last) if last.step == until => clock.after(last),
        // It lives until the last value is made again that may be then.
        _ => {
            let needs = readers.iter().filter(|&&reader| clock.triggers[reader].contains(&until));
            needs.map(|&reader| clock.turn(until, reader) + 1).max().unwrap_or(0)
        }
    });
    let early_end = clock.after(value.early_or_made());
    let used = |slots: std::ops::Range<usize>| Use {
        resource: 0,
        start: slots.start as u64,
        end: slots.end as u64,
        amount: value.bytes,
    };
    let Some(again) = label.again else {
        let uses = [used(clock.run(value.made)..early_end.max(until))];
        return Alternative { cost: 0, uses: uses.into_iter().collect() };
    };
    let early = value.early.map(|_| used(clock.run(value.made)..early_end));
    let late = used(clock.turn(again, index)..until);
    // One more than it costs, so that nothing is made again for nothing.
    let cost = value.again_cost().unwrap_or(0).min(MOST_COST) as i64 + 1;
    Alternative { cost, uses: early.into_iter().chain([late]).collect() }
}

/// What is in memory whatever is made again, in stretches of slots.
fn fixed_uses(tape: &Tape, clock: &Clock) -> Vec<Use> {
    let load = Load::new(clock, tape).over_time();
    let mut uses: Vec<Use> = Vec::new();
    for (slot, amount) in load.into_iter().enumerate() {
        let slot = slot as u64;
        match uses.last_mut() {
            Some(last) if last.amount == amount && last.end == slot => last.end = slot + 1,
            _ => uses.push(Use { resource: 0, start: slot, end: slot + 1, amount }),
        }
    }
    uses.retain(|used| used.amount > 0);
    uses
}

/// What is made again must find what it reads. A copy of what is made again is made again too.
fn table(read: &[Label], reader: &[Label], is_copy: bool) -> Vec<i64> {
    let cost = |read: &Label, reader: &Label| match reader.again {
        Some(again) if !read.is_there(again) => FORBIDDEN,
        None if is_copy && read.again.is_some() => FORBIDDEN,
        _ => 0,
    };
    read.iter().flat_map(|left| reader.iter().map(move |right| cost(left, right))).collect()
}

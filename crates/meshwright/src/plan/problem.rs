//! What every label costs, alone and beside others, as the problem that the solver gets.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use meshwright_solver::problem::{Alternative, Cost, Edge, FORBIDDEN, Node, Problem, Resource, Use, scaled};

use super::choices::Choice;
use super::graph::{Flow, Kind, Origin, Reader};
use super::label::{Label, Prices, Task};
use super::lives::{Lives, Mode};
use super::moves::Place;

/// A problem under way.
pub(super) struct Building<'b, 'm, 't> {
    pub(super) task: &'b Task<'t>,
    pub(super) moves: &'b mut Prices<'m>,
    pub(super) labels: Vec<Vec<Label>>,
    nodes: Vec<Node>,
    /// Costs between two nodes, the smaller number first.
    tables: BTreeMap<(usize, usize), Vec<Cost>>,
    pub(super) copies: Vec<Option<Brought>>,
}

/// A node that says where a flow is brought.
pub(super) struct Brought {
    pub(super) node: usize,
    pub(super) places: Vec<Place>,
    /// What is there, under each of its labels, and until when.
    pub(super) bytes: Vec<u64>,
    pub(super) end: usize,
}

impl Brought {
    fn ends(&self) -> Vec<(Place, Mode)> {
        self.places.iter().map(|&place| (place, Mode::Kept)).collect()
    }
}

impl<'b, 'm, 't> Building<'b, 'm, 't> {
    pub(super) fn new(task: &'b Task<'t>, moves: &'b mut Prices<'m>, may_recompute: bool) -> Building<'b, 'm, 't> {
        let (nodes, tables, copies) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut building = Building { task, moves, labels: Vec::new(), nodes, tables, copies };
        for (class, choices) in task.choices.iter().enumerate() {
            let modes = if may_recompute { &task.lives.modes[class] } else { task.lives.modes_told(class) };
            let labels = |choice: usize| modes.iter().map(move |&mode| Label { choice, mode });
            let labels: Vec<Label> = (0..choices.len()).flat_map(labels).collect();
            let alternatives = labels.iter().map(|&label| building.alternative(class, label)).collect();
            building.nodes.push(Node { alternatives });
            building.labels.push(labels);
        }
        for flow in &task.graph.flows {
            let copy = building.flow(flow);
            building.copies.push(copy);
        }
        building
    }

    fn alternative(&self, class: usize, label: Label) -> Alternative {
        let choice = &self.task.choices[class][label.choice];
        let count = self.task.classes.members[class].len() as f64;
        let is_forward = self.task.classes.is_forward[class];
        let held_bytes = self.task.lives.held_bytes(&self.task.parts, class, choice);
        let held_seconds = held_bytes as f64 * self.task.host_seconds_per_byte;
        let seconds = |is_forward: bool| {
            let computing = self.task.exposure.of(is_forward).computing;
            count * (computing * choice.compute_seconds + choice.inner_seconds)
        };
        let again_seconds = if label.mode == Mode::Again { seconds(false) } else { 0.0 };
        let seconds = seconds(is_forward) + again_seconds + held_seconds;
        Alternative { cost: scaled(seconds, self.task.unit), ..Alternative::default() }
    }

    /// The problem, of which memory is not yet known.
    pub(super) fn problem(&mut self, limit_bytes: Option<u64>) -> Problem {
        let memory = |limit: u64| Resource { name: "memory".to_owned(), limit: Some(limit) };
        let edges = std::mem::take(&mut self.tables).into_iter().map(|((left, right), costs)| Edge {
            nodes: [left as u32, right as u32].into_iter().collect(),
            costs: costs.into(),
        });
        Problem {
            name: "plan".to_owned(),
            resources: limit_bytes.map(memory).into_iter().collect(),
            nodes: std::mem::take(&mut self.nodes),
            edges: edges.collect(),
        }
    }

    /// Says what every label takes at some times.
    pub(super) fn use_memory(&self, problem: &mut Problem, times: &[usize]) {
        let Task { parts, lives, choices, .. } = self.task;
        for (class, labels) in self.labels.iter().enumerate() {
            for (alternative, label) in problem.nodes[class].alternatives.iter_mut().zip(labels) {
                let bytes = lives.at(parts, class, &choices[class][label.choice], label.mode, times);
                let used = |(slot, &amount): (usize, &u64)| {
                    (amount > 0).then_some(Use { resource: 0, start: slot as u64, end: slot as u64 + 1, amount })
                };
                alternative.uses = bytes.iter().enumerate().filter_map(used).collect();
            }
        }
        for copy in self.copies.iter().flatten() {
            let there = times.partition_point(|&time| time < copy.end) as u64;
            if there == 0 {
                continue;
            }
            let alternatives = problem.nodes[copy.node].alternatives.iter_mut().zip(&copy.bytes);
            for (alternative, &amount) in alternatives.filter(|(_, bytes)| **bytes > 0) {
                alternative.uses = [Use { resource: 0, start: 0, end: there, amount }].into_iter().collect();
            }
        }
    }

    /// For every alternative of every node, the bytes that are there all the time, and those that are kept for the
    /// backward pass.
    pub(super) fn lasting_bytes(&self, problem: &Problem) -> Vec<Vec<(u64, u64)>> {
        let Task { parts, lives, choices, .. } = self.task;
        let of_label = |class: usize, label: &Label| {
            let bytes = lives.at(parts, class, &choices[class][label.choice], label.mode, &[0, lives.middle]);
            (bytes[0], bytes[1].saturating_sub(bytes[0]))
        };
        let classes = self.labels.iter().enumerate();
        let mut bytes: Vec<Vec<(u64, u64)>> =
            classes.map(|(class, labels)| labels.iter().map(|label| of_label(class, label)).collect()).collect();
        bytes.resize(problem.nodes.len(), Vec::new());
        for copy in self.copies.iter().flatten() {
            bytes[copy.node] = copy.bytes.iter().map(|&bytes| (bytes, 0)).collect();
        }
        bytes
    }

    /// Where a flow begins, or is wanted, under every label of a class.
    fn places(&self, class: usize, place: impl Fn(&Choice) -> Place) -> Vec<(Place, Mode)> {
        let choices = &self.task.choices[class];
        self.labels[class].iter().map(|label| (place(&choices[label.choice]), label.mode)).collect()
    }

    /// Adds what a flow costs. One that has several readers has a node that says where it is brought for all of
    /// them.
    fn flow(&mut self, flow: &Flow) -> Option<Brought> {
        let (origin, axes) = (flow.origin, self.task.parts.axes.len());
        let place = |choice: &Choice| match origin.place(choice) {
            // The pass before has finished it.
            place if flow.is_finished => place.finished(axes),
            place => place,
        };
        let froms = self.places(origin.class(), place);
        let readers: Vec<Reader> =
            flow.readers.iter().copied().filter(|reader| !is_itself(origin, reader.class)).collect();
        match readers[..] {
            [] => None,
            _ if flow.is_early => Some(self.bring_early(flow, &froms, &readers)),
            [reader] => {
                let tos = self.places(reader.class, |choice| reader.place(choice));
                self.connect(flow, flow.kind, (origin.class(), &froms), (reader.class, &tos));
                None
            }
            _ => {
                let places = self.wanted(&readers);
                let bytes = vec![0; places.len()];
                Some(self.bring(flow, &froms, &readers, Brought { node: self.nodes.len(), places, bytes, end: 0 }))
            }
        }
    }

    /// Where somebody wants it, each place once.
    fn wanted(&self, readers: &[Reader]) -> Vec<Place> {
        let wanted = readers.iter().flat_map(|reader| self.places(reader.class, |choice| reader.place(choice)));
        let mut places: Vec<Place> = wanted.map(|(place, _)| place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Adds a node that says where a flow is brought for all its readers.
    fn bring(&mut self, flow: &Flow, froms: &[(Place, Mode)], readers: &[Reader], brought: Brought) -> Brought {
        let (node, from) = (brought.node, flow.origin.class());
        self.nodes.push(Node { alternatives: vec![Alternative::default(); brought.places.len()] });
        let ends = brought.ends();
        self.connect(flow, flow.kind, (from, froms), (node, &ends));
        for reader in readers {
            let tos = self.places(reader.class, |choice| reader.place(choice));
            self.connect(flow, flow.kind.onward(), (node, &ends), (reader.class, &tos));
            self.require(flow, (from, froms), (reader.class, &tos));
        }
        brought
    }

    /// The same for what is brought before a loop. In each place it is either as it is stored, or a copy, which takes
    /// memory; another copy for a reader would take memory too. What is stored as it is read is there all the time.
    fn bring_early(&mut self, flow: &Flow, froms: &[(Place, Mode)], readers: &[Reader]) -> Brought {
        let axes = self.task.parts.axes.len();
        let mut places = self.wanted(readers);
        let stored = places.len();
        let copy = |&place: &Place| flow.count as u64 * self.task.parts.bytes(flow.value, place);
        let own = |place: &Place| if flow.is_stored { copy(place) } else { 0 };
        let bytes = places.iter().map(own).chain(places.iter().map(copy)).collect();
        places.extend_from_within(..);
        let Lives { steps, loop_end, .. } = *self.task.lives;
        let end = if flow.is_stored { steps } else { loop_end };
        let brought = self.bring(flow, froms, readers, Brought { node: self.nodes.len(), places, bytes, end });
        let mut ends = brought.ends();
        // What is a copy is told from what is stored by being made again.
        ends[stored..].iter_mut().for_each(|end| end.1 = Mode::Again);
        self.add_table((flow.origin.class(), froms), (brought.node, &ends), &mut |from, to| {
            if ends[to].1 == Mode::Kept && froms[from].0 != ends[to].0 { FORBIDDEN } else { 0 }
        });
        for reader in readers {
            let tos = self.places(reader.class, |choice| reader.place(choice));
            self.add_table((brought.node, &ends), (reader.class, &tos), &mut |from, to| {
                if ends[from].0.holds(tos[to].0, axes) { 0 } else { FORBIDDEN }
            });
        }
        brought
    }

    /// What is made again finds what it reads.
    fn require(&mut self, flow: &Flow, (from, froms): End<'_>, (to, tos): End<'_>) {
        if !is_needed_again(flow, froms, tos) {
            return;
        }
        self.add_table((from, froms), (to, tos), &mut |left, right| {
            if is_missing(froms[left].1, tos[right].1) { FORBIDDEN } else { 0 }
        });
    }

    fn connect(&mut self, flow: &Flow, kind: Kind, (from, froms): End<'_>, (to, tos): End<'_>) {
        let (parts, unit) = (self.task.parts, self.task.unit);
        let (moved, times) = (parts.moved(flow), (flow.count * flow.times) as f64);
        let [once, again] = [flow.is_forward, false].map(|pass| times * self.task.exposure.moving(flow, kind, pass));
        let is_needed = is_needed_again(flow, froms, tos);
        let moves = self.moves.of(flow, kind);
        // Many labels have a value in the same place.
        let ((lefts, left_of), (rights, right_of)) = (distinct(froms), distinct(tos));
        let mut costs: Vec<[Cost; 2]> = Vec::with_capacity(lefts.len() * rights.len());
        for &left in &lefts {
            for &right in &rights {
                costs.push(if parts.may_move(flow.value, left, right) {
                    let seconds = moves.seconds(moved.ty(left, right), left, right);
                    [once, once + again].map(|times| scaled(times * seconds, unit))
                } else {
                    [FORBIDDEN; 2]
                });
            }
        }
        let mut cost = |left: usize, right: usize| {
            let is_again = tos[right].1 == Mode::Again;
            match is_needed && is_missing(froms[left].1, tos[right].1) {
                true => FORBIDDEN,
                false => costs[left_of[left] * rights.len() + right_of[right]][usize::from(is_again)],
            }
        };
        add_table(&mut self.nodes, &mut self.tables, (from, froms), (to, tos), &mut cost);
    }

    fn add_table(&mut self, from: End<'_>, to: End<'_>, cost: &mut dyn FnMut(usize, usize) -> Cost) {
        add_table(&mut self.nodes, &mut self.tables, from, to, cost);
    }
}

/// A node, and where a value is under each of its labels.
type End<'e> = (usize, &'e [(Place, Mode)]);

/// The places of labels, each once, and for every label which of them it is.
fn distinct(ends: &[(Place, Mode)]) -> (Vec<Place>, Vec<usize>) {
    let mut places: Vec<Place> = Vec::new();
    let number = |&(place, _): &(Place, Mode)| {
        places.iter().rposition(|&known| known == place).unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        })
    };
    let numbers = ends.iter().map(number).collect();
    (places, numbers)
}

/// Adds what pairs of labels cost, which are told by their numbers.
fn add_table(
    nodes: &mut [Node],
    tables: &mut BTreeMap<(usize, usize), Vec<Cost>>,
    (from, froms): End<'_>,
    (to, tos): End<'_>,
    cost: &mut dyn FnMut(usize, usize) -> Cost,
) {
    if from == to {
        for (index, alternative) in nodes[from].alternatives.iter_mut().enumerate() {
            alternative.cost = added(alternative.cost, cost(index, index));
        }
        return;
    }
    let mut costs: Vec<Cost> = Vec::with_capacity(froms.len() * tos.len());
    if from < to {
        for left in 0..froms.len() {
            costs.extend((0..tos.len()).map(|right| cost(left, right)));
        }
    } else {
        for right in 0..tos.len() {
            costs.extend((0..froms.len()).map(|left| cost(left, right)));
        }
    }
    match tables.entry((from.min(to), from.max(to))) {
        Entry::Vacant(entry) => _ = entry.insert(costs),
        Entry::Occupied(mut entry) => {
            entry.get_mut().iter_mut().zip(costs).for_each(|(sum, cost)| *sum = added(*sum, cost));
        }
    }
}

/// Whether somebody who reads the value may be made again.
fn is_needed_again(flow: &Flow, froms: &[(Place, Mode)], tos: &[(Place, Mode)]) -> bool {
    let has = |ends: &[(Place, Mode)], mode: Mode| ends.iter().any(|end| end.1 == mode);
    matches!(flow.origin, Origin::Made { .. }) && has(froms, Mode::Gone) && has(tos, Mode::Again)
}

fn is_missing(made: Mode, reader: Mode) -> bool {
    made == Mode::Gone && reader == Mode::Again
}

/// Whether the reader is the one that decides how the value lies.
pub(super) fn is_itself(origin: Origin, class: usize) -> bool {
    matches!(origin, Origin::Read { class: own, .. } if own == class)
}

pub(super) fn added(left: Cost, right: Cost) -> Cost {
    if left == FORBIDDEN || right == FORBIDDEN { FORBIDDEN } else { left.saturating_add(right) }
}

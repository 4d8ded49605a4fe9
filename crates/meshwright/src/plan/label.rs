//! Choosing how every class of bundles is cut, as a problem of labelling.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use meshwright_solver::problem::{Alternative, Cost, Edge, FORBIDDEN, Node, Problem, Resource, Use, scaled};
use meshwright_solver::{Answer, Limit, Options, Price, Solution, Start, solve};

use super::alike::Classes;
use super::bundle::Bundles;
use super::choices::{Choice, Scene};
use super::graph::{Flow, Graph, Kind, Origin, Reader};
use super::lives::{Lives, Mode};
use super::moves::{Moves, Place};
use super::parts::Parts;
use super::runner_up::{Contest, contests};

/// What was chosen.
#[derive(Clone, Debug)]
pub(super) struct Labelled {
    /// For every class.
    pub(super) labels: Vec<Label>,
    /// For every flow to several readers, where it is brought.
    pub(super) copies: Vec<Option<Place>>,
    pub(super) seconds: f64,
    pub(super) lower_bound_seconds: f64,
    /// The most that is in memory at a time, as far as the labelling knows, and when.
    pub(super) peak_bytes: u64,
    pub(super) peak_step: usize,
    /// Whether memory had anything to do with it.
    pub(super) is_bound: bool,
    /// What would be enough if there were no limit.
    pub(super) free_seconds: f64,
    /// The limit that it was searched for under.
    pub(super) limit_bytes: u64,
    /// What moving values takes that always waits, and what may run beside computing.
    pub(super) waiting_seconds: f64,
    pub(super) hideable: Hideable,
    /// The share of what could be hidden that it was labelled with.
    pub(super) exposure: Exposure,
    /// Where the search for it ended.
    trail: Trail,
}

/// From where another search for labels of the same frame goes on.
#[derive(Clone, Debug, Default)]
struct Trail {
    /// For every node of the problem.
    assignment: Option<Vec<u32>>,
    /// The times at which memory was looked at, and what it was worth then.
    times: Vec<usize>,
    prices: Vec<(usize, f64)>,
}

impl Labelled {
    /// How far it may be from the best, as a share.
    pub(super) fn gap(&self) -> f64 {
        (self.seconds - self.lower_bound_seconds) / self.seconds.max(1e-12)
    }

    /// What it would take if another share of what could be hidden were not.
    pub(super) fn seconds_with(&self, exposure: Exposure) -> f64 {
        self.seconds + exposure.seconds(self.hideable) - self.exposure.seconds(self.hideable)
    }

    /// The share of what could be hidden that is not, since there is not enough to hide it behind.
    pub(super) fn least_exposure(&self) -> Exposure {
        let hideable = (self.hideable.gradients + self.hideable.weights).max(1e-9);
        let compute_seconds = self.seconds - self.waiting_seconds - self.exposure.seconds(self.hideable);
        let least = 1.0 - MOST_HIDING * compute_seconds / hideable;
        let Exposure { gradients, weights } = self.exposure;
        Exposure { gradients: least.clamp(gradients, 1.0), weights: least.clamp(weights, 1.0) }
    }
}

/// What a class does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) choice: usize,
    pub(super) mode: Mode,
}

/// What moving values takes that may run beside computing, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hideable {
    pub(super) gradients: f64,
    pub(super) weights: f64,
}

/// The share of what moving values takes that is not hidden behind computing. Weights are known long before they are
/// read, and the last gradients have nothing behind them, so that these are told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exposure {
    pub(super) gradients: f64,
    pub(super) weights: f64,
}

impl Exposure {
    pub(super) const fn all(share: f64) -> Exposure {
        Exposure { gradients: share, weights: share }
    }

    /// Those of weights and gradients are hidden as far as they are not; all others always wait.
    pub(super) fn of(self, kind: Kind) -> f64 {
        match kind {
            Kind::Activation => 1.0,
            Kind::Gradient => self.gradients,
            Kind::Weight => self.weights,
        }
    }

    /// What is not hidden of what could be.
    pub(super) fn seconds(self, hideable: Hideable) -> f64 {
        self.gradients * hideable.gradients + self.weights * hideable.weights
    }
}

/// The share of computing that hides something where there is much to be hidden: values are ready late and wanted
/// early.
const MOST_HIDING: f64 = 0.5;

/// How long to search for labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Enough to tell good frames from bad ones.
    Little,
    /// Enough for a proof on all but the largest.
    Much,
    /// Enough for a proof on most of the largest.
    Most,
}

impl Effort {
    fn work(self) -> f64 {
        match self {
            Effort::Little => 2e7,
            Effort::Much => 2e8,
            Effort::Most => 1e9,
        }
    }
}

const THREADS: usize = 2;

/// The ways to cut each class.
pub(super) fn all_choices(
    scene: &mut Scene<'_, '_>,
    moves: &mut Moves<'_>,
    bundles: &Bundles,
    classes: &Classes,
) -> Vec<Vec<Choice>> {
    classes.members.iter().map(|members| scene.choices(moves, &bundles.list[members[0]])).collect()
}

/// What is to be labelled.
pub(super) struct Task<'t> {
    pub(super) parts: Parts<'t>,
    pub(super) classes: &'t Classes,
    pub(super) graph: &'t Graph,
    pub(super) choices: &'t [Vec<Choice>],
    pub(super) lives: &'t Lives,
    pub(super) exposure: Exposure,
    pub(super) may_recompute: bool,
    /// What it takes to copy state from the host, and meanwhile other state back.
    pub(super) host_seconds_per_byte: f64,
    /// Costs are counted in these steps.
    pub(super) unit: f64,
}

impl Task<'_> {
    /// The share of what moving a flow takes that is not hidden.
    fn exposed(&self, flow: &Flow, kind: Kind) -> f64 {
        if flow.is_outside { 1.0 } else { self.exposure.of(kind) }
    }
}

/// What it takes to bring values elsewhere.
pub(super) struct Prices<'m> {
    pub(super) alone: Moves<'m>,
    /// Of gradients: nobody waits for them, so that engines move many at a time.
    pub(super) combined: Moves<'m>,
}

impl<'m> Prices<'m> {
    fn of(&mut self, kind: Kind) -> &mut Moves<'m> {
        match kind {
            Kind::Activation | Kind::Weight => &mut self.alone,
            Kind::Gradient => &mut self.combined,
        }
    }
}

/// At so many times memory is looked at, at most.
const MOST_TIMES: usize = 24;

/// The cheapest labels with which no more than a limit is in memory at any time. Memory is looked at only when it
/// is most: a time at which there is too much is added to those at which there must not be, until there is none. The
/// search goes on from where it ended with other limits or costs, where it did so.
pub(super) fn label(
    task: &Task<'_>,
    moves: &mut Prices<'_>,
    limit_bytes: u64,
    before: Option<&Labelled>,
    effort: Effort,
) -> Option<Labelled> {
    let quick = Building::new(task, moves, false).search(limit_bytes, 0, Trail::default(), effort)?;
    if quick.peak_bytes <= limit_bytes {
        return Some(Labelled { limit_bytes, ..quick });
    }
    let trail = match before.map(|before| &before.trail) {
        Some(trail) if !trail.times.is_empty() => trail.clone(),
        _ => Trail { times: vec![quick.peak_step], ..Trail::default() },
    };
    let bound = Building::new(task, moves, task.may_recompute).search(limit_bytes, MOST_TIMES, trail, effort)?;
    Some(Labelled { free_seconds: quick.seconds, limit_bytes, ..bound })
}

/// What memory costs where it is not limited, in seconds for a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    /// Of what is there all the time.
    pub(super) always: f64,
    /// Of what the forward pass keeps for the backward pass.
    pub(super) kept: f64,
}

/// The cheapest labels where memory costs so much, for each of several worths, the least first, and how long every flow
/// is waited for in all trips.
pub(super) fn label_for(task: &Task<'_>, moves: &mut Prices<'_>, worths: &[Worth]) -> Vec<(Labelled, Vec<f64>)> {
    let mut building = Building::new(task, moves, task.may_recompute);
    let free = building.problem(None);
    let bytes = building.lasting_bytes(&free);
    let mut found = Vec::new();
    let mut trail = Trail::default();
    for worth in worths {
        let mut problem = free.clone();
        for (node, bytes) in problem.nodes.iter_mut().zip(&bytes) {
            for (alternative, (always, kept)) in node.alternatives.iter_mut().zip(bytes) {
                let seconds = worth.always * *always as f64 + worth.kept * *kept as f64;
                alternative.cost = added(alternative.cost, scaled(seconds, task.unit));
            }
        }
        let options = Options { limit: Limit::Work(Effort::Little.work()), threads: 1, seed: 0, start: trail.start() };
        let Ok(Answer::Solved(solution)) = solve(&problem, &options, |_| {}) else { continue };
        trail.follow(&solution);
        let mut labelled = building.read(&solution, true);
        building.tell_moves(&mut labelled);
        labelled.trail = trail.clone();
        let seconds = flow_seconds(task, building.moves, &labelled);
        found.push((labelled, seconds));
    }
    found
}

fn flow_seconds(task: &Task<'_>, moves: &mut Prices<'_>, labelled: &Labelled) -> Vec<f64> {
    let flows = task.graph.flows.iter().zip(&labelled.copies);
    let exposed = |(flow, copy): (&Flow, &Option<Place>)| {
        let legs = legs(task, moves, labelled, flow, *copy);
        legs.iter().map(|(kind, seconds)| task.exposed(flow, *kind) * seconds).sum()
    };
    flows.map(exposed).collect()
}

/// What it takes to bring a flow where it is for all its readers, and from there to each.
fn legs(
    task: &Task<'_>,
    moves: &mut Prices<'_>,
    labelled: &Labelled,
    flow: &Flow,
    copy: Option<Place>,
) -> [(Kind, f64); 2] {
    let Task { choices, parts, .. } = task;
    let chosen = |class: usize| &choices[class][labelled.labels[class].choice];
    let ty = parts.tile(flow.value);
    let made = flow.origin.place(chosen(flow.origin.class()));
    let from = if flow.is_finished { made.finished(parts.axes.len()) } else { made };
    let (middle, onward) = copy.map_or((from, flow.kind), |middle| (middle, flow.kind.onward()));
    let first = moves.of(flow.kind).seconds(&ty, from, middle);
    let moves = moves.of(onward);
    let mut second = 0.0;
    for reader in flow.readers.iter().filter(|reader| !is_itself(flow.origin, reader.class)) {
        let times = if labelled.labels[reader.class].mode == Mode::Again { 2.0 } else { 1.0 };
        second += times * moves.seconds(&ty, middle, reader.place(chosen(reader.class)));
    }
    let times = (flow.count * flow.times) as f64;
    [(flow.kind, first * times), (onward, second * times)]
}

/// What each class could do instead of what was chosen for it, under a limit.
pub(super) fn alternatives(
    task: &Task<'_>,
    moves: &mut Prices<'_>,
    labelled: &Labelled,
    limit_bytes: u64,
) -> Vec<Contest> {
    let mut building = Building::new(task, moves, labelled.is_bound && task.may_recompute);
    let problem = building.problem(None);
    let Some(chosen) = &labelled.trail.assignment else { return Vec::new() };
    let copies = building.copies.iter().flatten().map(|copy| copy.bytes[chosen[copy.node] as usize]);
    contests(task, &building.labels, &problem, chosen, copies.sum(), limit_bytes)
}

/// A problem under way.
struct Building<'b, 'm, 't> {
    task: &'b Task<'t>,
    moves: &'b mut Prices<'m>,
    labels: Vec<Vec<Label>>,
    nodes: Vec<Node>,
    /// Costs between two nodes, the smaller number first.
    tables: BTreeMap<(usize, usize), Vec<Cost>>,
    copies: Vec<Option<Brought>>,
}

/// A node that says where a flow is brought.
struct Brought {
    node: usize,
    places: Vec<Place>,
    /// What is there until loops end, under each of its labels.
    bytes: Vec<u64>,
}

impl Brought {
    fn ends(&self) -> Vec<(Place, Mode)> {
        self.places.iter().map(|&place| (place, Mode::Kept)).collect()
    }
}

impl<'b, 'm, 't> Building<'b, 'm, 't> {
    fn new(task: &'b Task<'t>, moves: &'b mut Prices<'m>, may_recompute: bool) -> Building<'b, 'm, 't> {
        let (nodes, tables, copies) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut building = Building { task, moves, labels: Vec::new(), nodes, tables, copies };
        for (class, choices) in task.choices.iter().enumerate() {
            let modes = &task.lives.modes[class];
            let modes = if may_recompute { &modes[..] } else { &modes[..1] };
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
        let times = if label.mode == Mode::Again { 2.0 } else { 1.0 };
        let held_bytes = self.task.lives.held_bytes(&self.task.parts, class, choice);
        let held_seconds = held_bytes as f64 * self.task.host_seconds_per_byte;
        let seconds = count * times * (choice.compute_seconds + choice.inner_seconds) + held_seconds;
        Alternative { cost: scaled(seconds, self.task.unit), ..Alternative::default() }
    }

    /// Looks at memory at no more than so many times, some of which are known to matter.
    fn search(mut self, limit_bytes: u64, most_times: usize, mut trail: Trail, effort: Effort) -> Option<Labelled> {
        let mut problem = self.problem((most_times > 0).then_some(limit_bytes));
        loop {
            self.use_memory(&mut problem, &trail.times);
            let mut start = trail.start();
            start.assignments.extend(thinnest(&problem, limit_bytes));
            let options = Options { limit: Limit::Work(effort.work()), threads: THREADS, seed: 0, start };
            let Ok(Answer::Solved(solution)) = solve(&problem, &options, |_| {}) else { return None };
            trail.follow(&solution);
            let mut labelled = self.read(&solution, most_times > 0);
            let is_over = labelled.peak_bytes > limit_bytes;
            if !is_over || trail.times.len() >= most_times || trail.times.contains(&labelled.peak_step) {
                self.tell_moves(&mut labelled);
                labelled.trail = trail;
                return (most_times == 0 || !is_over).then_some(labelled);
            }
            trail.times.push(labelled.peak_step);
            trail.times.sort_unstable();
        }
    }

    /// The problem, of which memory is not yet known.
    fn problem(&mut self, limit_bytes: Option<u64>) -> Problem {
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
    fn use_memory(&self, problem: &mut Problem, times: &[usize]) {
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
        let in_loop = times.partition_point(|&time| time < lives.loop_end) as u64;
        for copy in self.copies.iter().flatten().filter(|_| in_loop > 0) {
            let alternatives = problem.nodes[copy.node].alternatives.iter_mut().zip(&copy.bytes);
            for (alternative, &amount) in alternatives.filter(|(_, bytes)| **bytes > 0) {
                alternative.uses = [Use { resource: 0, start: 0, end: in_loop, amount }].into_iter().collect();
            }
        }
    }

    /// For every alternative of every node, the bytes that are there all the time, and those that are kept for the
    /// backward pass.
    fn lasting_bytes(&self, problem: &Problem) -> Vec<Vec<(u64, u64)>> {
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

    fn read(&self, solution: &Solution, is_bound: bool) -> Labelled {
        let Task { parts, lives, choices, .. } = self.task;
        let chosen = |(class, labels): (usize, &Vec<Label>)| labels[solution.assignment[class] as usize];
        let labels: Vec<Label> = self.labels.iter().enumerate().map(chosen).collect();
        let mut changes = vec![0_i64; lives.steps + 1];
        for (class, label) in labels.iter().enumerate() {
            lives.add(parts, class, &choices[class][label.choice], label.mode, &mut changes);
        }
        for copy in self.copies.iter().flatten() {
            let bytes = copy.bytes[solution.assignment[copy.node] as usize] as i64;
            changes[0] += bytes;
            changes[lives.loop_end] -= bytes;
        }
        let (mut bytes, mut peak_bytes, mut peak_step) = (0_i64, 0, 0);
        for (step, change) in changes.iter().enumerate() {
            bytes += change;
            if bytes > peak_bytes {
                (peak_bytes, peak_step) = (bytes, step);
            }
        }
        let copy =
            |copy: &Option<Brought>| copy.as_ref().map(|copy| copy.places[solution.assignment[copy.node] as usize]);
        Labelled {
            labels,
            copies: self.copies.iter().map(copy).collect(),
            seconds: solution.evaluation.cost as f64 * self.task.unit,
            lower_bound_seconds: solution.lower_bound as f64 * self.task.unit,
            peak_bytes: peak_bytes as u64,
            peak_step,
            is_bound,
            free_seconds: solution.evaluation.cost as f64 * self.task.unit,
            limit_bytes: 0,
            waiting_seconds: 0.0,
            hideable: Hideable::default(),
            exposure: self.task.exposure,
            trail: Trail::default(),
        }
    }

    /// Adds up what moving values takes.
    fn tell_moves(&mut self, labelled: &mut Labelled) {
        let Task { choices, classes, graph, .. } = self.task;
        let chosen = |class: usize| &choices[class][labelled.labels[class].choice];
        let inner = |(class, members): (usize, &Vec<usize>)| members.len() as f64 * chosen(class).inner_seconds;
        labelled.waiting_seconds = classes.members.iter().enumerate().map(inner).sum();
        for (flow, copy) in graph.flows.iter().zip(&labelled.copies) {
            for (kind, seconds) in legs(self.task, self.moves, labelled, flow, *copy) {
                match kind {
                    Kind::Gradient if !flow.is_outside => labelled.hideable.gradients += seconds,
                    Kind::Weight if !flow.is_outside => labelled.hideable.weights += seconds,
                    Kind::Activation | Kind::Gradient | Kind::Weight => labelled.waiting_seconds += seconds,
                }
            }
        }
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
                Some(self.bring(flow, &froms, &readers, Brought { node: self.nodes.len(), places, bytes }))
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
    /// memory; another copy for a reader would take memory too.
    fn bring_early(&mut self, flow: &Flow, froms: &[(Place, Mode)], readers: &[Reader]) -> Brought {
        let axes = self.task.parts.axes.len();
        let mut places = self.wanted(readers);
        let stored = places.len();
        let copy = |&place: &Place| flow.count as u64 * self.task.parts.bytes(flow.value, place);
        let bytes = std::iter::repeat_n(0, stored).chain(places.iter().map(copy)).collect();
        places.extend_from_within(..);
        let brought = self.bring(flow, froms, readers, Brought { node: self.nodes.len(), places, bytes });
        let mut ends = brought.ends();
        // What is a copy is told from what is stored by being made again.
        ends[stored..].iter_mut().for_each(|end| end.1 = Mode::Again);
        self.add_table((flow.origin.class(), froms), (brought.node, &ends), &mut |from, to| {
            if to.1 == Mode::Kept && from.0 != to.0 { FORBIDDEN } else { 0 }
        });
        for reader in readers {
            let tos = self.places(reader.class, |choice| reader.place(choice));
            self.add_table((brought.node, &ends), (reader.class, &tos), &mut |from, to| {
                if from.0.holds(to.0, axes) { 0 } else { FORBIDDEN }
            });
        }
        brought
    }

    /// What is made again finds what it reads.
    fn require(&mut self, flow: &Flow, (from, froms): End<'_>, (to, tos): End<'_>) {
        if !is_needed_again(flow, froms, tos) {
            return;
        }
        let cost = |left: Mode, right: Mode| if is_missing(left, right) { FORBIDDEN } else { 0 };
        self.add_table((from, froms), (to, tos), &mut |left, right| cost(left.1, right.1));
    }

    fn connect(&mut self, flow: &Flow, kind: Kind, (from, froms): End<'_>, (to, tos): End<'_>) {
        let (parts, unit) = (self.task.parts, self.task.unit);
        let ty = parts.tile(flow.value);
        let scale = (flow.count * flow.times) as f64 * self.task.exposed(flow, kind);
        let is_needed = is_needed_again(flow, froms, tos);
        let moves = self.moves.of(kind);
        let mut known: Vec<(Place, Place, f64)> = Vec::new();
        let mut seconds = |left: Place, right: Place| match known.last() {
            Some(&(from, to, seconds)) if (from, to) == (left, right) => seconds,
            _ => {
                let seconds = moves.seconds(&ty, left, right);
                known.push((left, right, seconds));
                seconds
            }
        };
        let mut cost = |left: (Place, Mode), right: (Place, Mode)| {
            let is_stuck = !parts.may_move(flow.value, left.0, right.0);
            if is_stuck || is_needed && is_missing(left.1, right.1) {
                return FORBIDDEN;
            }
            let times = if right.1 == Mode::Again { 2.0 } else { 1.0 };
            scaled(times * scale * seconds(left.0, right.0), unit)
        };
        add_table(&mut self.nodes, &mut self.tables, (from, froms), (to, tos), &mut cost);
    }

    fn add_table(&mut self, from: End<'_>, to: End<'_>, cost: &mut dyn FnMut((Place, Mode), (Place, Mode)) -> Cost) {
        add_table(&mut self.nodes, &mut self.tables, from, to, cost);
    }
}

/// The assignment of a problem that takes least memory, at all times together, and of those alike the cheapest: where
/// memory is short, all that is feasible may be near it. None where there is no limit.
fn thinnest(problem: &Problem, limit_bytes: u64) -> Option<Vec<u32>> {
    if problem.resources.is_empty() {
        return None;
    }
    let node = |node: &Node| {
        let alternative = |one: &Alternative| {
            let bytes: u64 = one.uses.iter().map(|used| (used.end - used.start) * used.amount).sum();
            let cost = (bytes as f64 / limit_bytes.max(1) as f64 * WORTH_OF_ALL_MEMORY) as Cost;
            Alternative { cost: if one.cost == FORBIDDEN { FORBIDDEN } else { cost }, ..Alternative::default() }
        };
        Node { alternatives: node.alternatives.iter().map(alternative).collect() }
    };
    let thin = Problem {
        name: problem.name.clone(),
        resources: Vec::new(),
        nodes: problem.nodes.iter().map(node).collect(),
        edges: problem.edges.iter().map(only_forbidding).collect(),
    };
    let options =
        Options { limit: Limit::Work(Effort::Little.work()), threads: THREADS, seed: 0, start: Start::default() };
    match solve(&thin, &options, |_| {}) {
        Ok(Answer::Solved(solution)) => Some(solution.assignment),
        _ => None,
    }
}

/// In steps of which the smallest is far more than a byte.
const WORTH_OF_ALL_MEMORY: f64 = 1e9;

/// An edge that costs nothing but what is forbidden.
fn only_forbidding(edge: &Edge) -> Edge {
    let costs: Vec<Cost> = edge.costs.iter().map(|&cost| if cost == FORBIDDEN { FORBIDDEN } else { 0 }).collect();
    Edge { nodes: edge.nodes.clone(), costs: costs.into() }
}

impl Trail {
    fn start(&self) -> Start {
        let price = |&(time, price): &(usize, f64)| {
            let slot = self.times.binary_search(&time).ok()?;
            Some(Price { resource: 0, time: slot as u64, price })
        };
        let assignments = self.assignment.iter().cloned().collect();
        Start { assignments, prices: self.prices.iter().filter_map(price).collect() }
    }

    fn follow(&mut self, solution: &Solution) {
        self.assignment = Some(solution.assignment.clone());
        let price = |price: &Price| Some((*self.times.get(price.time as usize)?, price.price));
        self.prices = solution.prices.iter().filter_map(price).collect();
    }
}

/// A node, and where a value is under each of its labels.
type End<'e> = (usize, &'e [(Place, Mode)]);

fn add_table(
    nodes: &mut [Node],
    tables: &mut BTreeMap<(usize, usize), Vec<Cost>>,
    (from, froms): End<'_>,
    (to, tos): End<'_>,
    cost: &mut dyn FnMut((Place, Mode), (Place, Mode)) -> Cost,
) {
    if from == to {
        for (index, alternative) in nodes[from].alternatives.iter_mut().enumerate() {
            alternative.cost = added(alternative.cost, cost(froms[index], tos[index]));
        }
        return;
    }
    let mut costs: Vec<Cost> = Vec::with_capacity(froms.len() * tos.len());
    if from < to {
        for &left in froms {
            costs.extend(tos.iter().map(|&right| cost(left, right)));
        }
    } else {
        for &right in tos {
            costs.extend(froms.iter().map(|&left| cost(left, right)));
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
fn is_itself(origin: Origin, class: usize) -> bool {
    matches!(origin, Origin::Read { class: own, .. } if own == class)
}

fn added(left: Cost, right: Cost) -> Cost {
    if left == FORBIDDEN || right == FORBIDDEN { FORBIDDEN } else { left.saturating_add(right) }
}

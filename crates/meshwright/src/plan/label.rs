//! Choosing how every class of bundles is cut, as a problem of labelling.

use meshwright_solver::problem::{Alternative, Cost, Edge, FORBIDDEN, Node, Problem, scaled};
use meshwright_solver::{Answer, Enough, Limit, Options, Price, Solution, Start, solve};

use super::alike::Classes;
use super::bundle::Bundles;
use super::choices::{Choice, Scene};
use super::exposure::{Exposure, Loads};
use super::graph::{Flow, Graph, Kind};
use super::lives::{Lives, Mode};
use super::moves::{Moves, Place};
use super::parts::Parts;
use super::problem::{Brought, Building, added, is_itself};
use super::runner_up::{Contest, contests};
use crate::lower::Haste;

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
    /// The limit that it was searched for under.
    pub(super) limit_bytes: u64,
    /// What it comes to, and what was taken to be hidden of that.
    pub(super) loads: Loads,
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

    /// The same as what is best under a limit.
    pub(super) fn under(self, limit_bytes: u64) -> Labelled {
        Labelled { limit_bytes, ..self }
    }

    /// What it should take, where as much is hidden as mostly is.
    pub(super) fn likely_seconds(&self) -> f64 {
        self.seconds_with(Exposure::likely(&self.loads))
    }

    /// What it would take if something else were hidden.
    pub(super) fn seconds_with(&self, exposure: Exposure) -> f64 {
        self.seconds + exposure.seconds(&self.loads) - self.exposure.seconds(&self.loads)
    }
}

/// What a class does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) choice: usize,
    pub(super) mode: Mode,
}

/// When to end a search for labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    pub(super) effort: Effort,
    /// What takes longer is of no use.
    pub(super) most_seconds: f64,
}

impl Until {
    /// However long what is found takes.
    pub(super) fn spent(effort: Effort) -> Until {
        Until { effort, most_seconds: f64::INFINITY }
    }
}

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
    fn options(self, threads: usize, start: Start) -> Options {
        let (work, gap) = match self {
            Effort::Little => (2e7, 2e-3),
            Effort::Much => (2e8, 1e-3),
            Effort::Most => (1e9, 1e-3),
        };
        let enough = Enough { gap, least_cost: None };
        Options { limit: Limit::Work(work), threads, seed: 0, start, enough }
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

/// What it takes to bring values elsewhere.
pub(super) struct Prices<'m> {
    pub(super) awaited: Moves<'m>,
    pub(super) combined: Moves<'m>,
}

impl<'m> Prices<'m> {
    pub(super) fn of(&mut self, flow: &Flow, kind: Kind) -> &mut Moves<'m> {
        match flow.haste(kind) {
            Haste::Awaited => &mut self.awaited,
            Haste::Combined => &mut self.combined,
        }
    }
}

/// At so many times memory is looked at, at most.
const MOST_TIMES: usize = 24;

/// The cheapest labels with which no more than a limit is in memory at any time. The search goes on from where it ended
/// with other limits or costs, where it did so. Perhaps none where nothing is as fast as it must be.
pub(super) fn label(
    task: &Task<'_>,
    moves: &mut Prices<'_>,
    limit_bytes: u64,
    before: Option<&Labelled>,
    until: Until,
) -> Option<Labelled> {
    // Where memory was short before, it is taken to be so still: what does without is among what is searched then.
    if let Some(before) = before.filter(|before| before.is_bound) {
        return label_bound(task, moves, limit_bytes, before, until);
    }
    let free = label_free(task, moves, until.effort)?;
    if free.peak_bytes <= limit_bytes {
        return Some(free.under(limit_bytes));
    }
    // Memory can only make it slower.
    let may_be = free.lower_bound_seconds <= until.most_seconds;
    may_be.then(|| label_bound(task, moves, limit_bytes, &free, until)).flatten()
}

/// The cheapest labels where there is memory enough.
pub(super) fn label_free(task: &Task<'_>, moves: &mut Prices<'_>, effort: Effort) -> Option<Labelled> {
    Building::new(task, moves, false).search(u64::MAX, 0, Trail::default(), Until::spent(effort))
}

/// The cheapest labels where there is not, from others on. Memory is looked at only when it is most: a time at which there
/// is too much is added to those at which there must not be, until there is none.
pub(super) fn label_bound(
    task: &Task<'_>,
    moves: &mut Prices<'_>,
    limit_bytes: u64,
    before: &Labelled,
    until: Until,
) -> Option<Labelled> {
    let trail = match before.is_bound {
        true => before.trail.clone(),
        // Nothing is made again in it, so that its labels are others.
        false => Trail { times: vec![before.peak_step], ..Trail::default() },
    };
    let bound = Building::new(task, moves, task.may_recompute).search(limit_bytes, MOST_TIMES, trail, until)?;
    Some(bound.under(limit_bytes))
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
        let options = Effort::Little.options(1, trail.start());
        let Ok(Answer::Solved(solution)) = solve(&problem, &options, |_| {}) else { continue };
        trail.follow(&solution);
        let mut labelled = building.read(&solution, true);
        building.tell_loads(&mut labelled);
        labelled.trail = trail.clone();
        let seconds = flow_seconds(task, building.moves, &labelled);
        found.push((labelled, seconds));
    }
    found
}

fn flow_seconds(task: &Task<'_>, moves: &mut Prices<'_>, labelled: &Labelled) -> Vec<f64> {
    let flows = task.graph.flows.iter().zip(&labelled.copies);
    let exposed =
        |(flow, copy): (&Flow, &Option<Place>)| task.exposure.seconds(&legs(task, moves, labelled, flow, *copy));
    flows.map(exposed).collect()
}

/// What it takes to bring a flow where it is for all its readers, and from there to each.
fn legs(task: &Task<'_>, moves: &mut Prices<'_>, labelled: &Labelled, flow: &Flow, copy: Option<Place>) -> Loads {
    let Task { choices, parts, .. } = task;
    let chosen = |class: usize| &choices[class][labelled.labels[class].choice];
    let made = flow.origin.place(chosen(flow.origin.class()));
    let from = if flow.is_finished { made.finished(parts.axes.len()) } else { made };
    let (middle, onward) = copy.map_or((from, flow.kind), |middle| (middle, flow.kind.onward()));
    let (moved, times) = (parts.moved(flow), (flow.count * flow.times) as f64);
    let mut loads = Loads::default();
    let first = moves.of(flow, flow.kind).seconds(moved.ty(from, middle), from, middle);
    loads.add(flow, flow.kind, flow.is_forward, times * first);
    let moves = moves.of(flow, onward);
    for reader in flow.readers.iter().filter(|reader| !is_itself(flow.origin, reader.class)) {
        let to = reader.place(chosen(reader.class));
        let seconds = times * moves.seconds(moved.ty(middle, to), middle, to);
        loads.add(flow, onward, flow.is_forward, seconds);
        if labelled.labels[reader.class].mode == Mode::Again {
            loads.add(flow, onward, false, seconds);
        }
    }
    loads
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

impl Building<'_, '_, '_> {
    /// Looks at memory at no more than so many times, some of which are known to matter.
    fn search(mut self, limit_bytes: u64, most_times: usize, mut trail: Trail, until: Until) -> Option<Labelled> {
        let mut problem = self.problem((most_times > 0).then_some(limit_bytes));
        loop {
            self.use_memory(&mut problem, &trail.times);
            let mut start = trail.start();
            start.assignments.extend(thinnest(&problem, limit_bytes));
            let Until { effort, most_seconds } = until;
            let mut options = effort.options(THREADS, start);
            options.enough.least_cost = most_seconds.is_finite().then(|| (most_seconds / self.task.unit) as i128);
            let Ok(Answer::Solved(solution)) = solve(&problem, &options, |_| {}) else { return None };
            trail.follow(&solution);
            let mut labelled = self.read(&solution, most_times > 0);
            let is_over = labelled.peak_bytes > limit_bytes;
            let is_hopeless = labelled.lower_bound_seconds > most_seconds;
            if !is_over || is_hopeless || trail.times.len() >= most_times || trail.times.contains(&labelled.peak_step) {
                self.tell_loads(&mut labelled);
                labelled.trail = trail;
                return (most_times == 0 || !is_over).then_some(labelled);
            }
            trail.times.push(labelled.peak_step);
            trail.times.sort_unstable();
        }
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
            changes[copy.end] -= bytes;
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
            limit_bytes: 0,
            loads: Loads::default(),
            exposure: self.task.exposure,
            trail: Trail::default(),
        }
    }

    /// Adds up what labels come to.
    fn tell_loads(&mut self, labelled: &mut Labelled) {
        let Task { choices, classes, graph, .. } = self.task;
        let mut loads = Loads::default();
        for (class, label) in labelled.labels.iter().enumerate() {
            let (choice, count) = (&choices[class][label.choice], classes.members[class].len() as f64);
            let again = (label.mode == Mode::Again).then_some(false);
            for is_forward in [classes.is_forward[class]].into_iter().chain(again) {
                let load = loads.of(is_forward);
                load.computing += count * choice.compute_seconds;
                load.waiting += count * choice.inner_seconds;
            }
        }
        for (flow, copy) in graph.flows.iter().zip(&labelled.copies) {
            loads.add_all(&legs(self.task, self.moves, labelled, flow, *copy));
        }
        labelled.loads = loads;
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
    let options = Effort::Little.options(THREADS, Start::default());
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

//! Choosing how every class of bundles is cut, as a problem of labelling.

use std::collections::BTreeMap;

use meshwright_solver::problem::{Alternative, Cost, Edge, FORBIDDEN, Node, Problem, scaled};
use meshwright_solver::{Answer, Limit, Options, Start, solve};

use super::alike::Classes;
use super::bundle::Bundles;
use super::choices::{Choice, Scene};
use super::graph::{Flow, Graph, Kind, Origin};
use super::moves::{Moves, Place};

/// What was chosen.
#[derive(Clone, Debug)]
pub(super) struct Labelled {
    /// For every class the number of its choice.
    pub(super) chosen: Vec<usize>,
    /// For every flow to several readers, where it is brought.
    pub(super) copies: Vec<Option<Place>>,
    pub(super) seconds: f64,
    pub(super) lower_bound_seconds: f64,
}

/// The share of what moving values takes that is not hidden behind computing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exposure {
    pub(super) weights: f64,
    pub(super) gradients: f64,
}

impl Exposure {
    pub(super) fn of(self, kind: Kind) -> f64 {
        match kind {
            Kind::Activation => 1.0,
            Kind::Gradient => self.gradients,
            Kind::Weight => self.weights,
        }
    }
}

/// Seconds are counted in these steps.
const UNIT: f64 = 1e-9;
/// Enough for a proof on all but the largest.
const MOST_WORK: f64 = 2e7;
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

/// The cheapest choice for every class.
pub(super) fn label(
    scene: &Scene<'_, '_>,
    moves: &mut Moves<'_>,
    classes: &Classes,
    graph: &Graph,
    choices: &[Vec<Choice>],
    exposure: Exposure,
) -> Option<Labelled> {
    let mut building = Building { scene, moves, choices, exposure, nodes: Vec::new(), tables: BTreeMap::new() };
    for (class, choices) in choices.iter().enumerate() {
        let count = classes.members[class].len() as f64;
        let seconds = |choice: &Choice| count * (choice.compute_seconds + choice.inner_seconds);
        let alternative = |choice| Alternative { cost: scaled(seconds(choice), UNIT), ..Alternative::default() };
        building.nodes.push(Node { alternatives: choices.iter().map(alternative).collect() });
    }
    let mut copies: Vec<Option<(usize, Vec<Place>)>> = Vec::with_capacity(graph.flows.len());
    for flow in &graph.flows {
        copies.push(building.flow(flow));
    }
    let problem = building.finish();
    let options = Options { limit: Limit::Work(MOST_WORK), threads: THREADS, seed: 0, start: Start::default() };
    let Ok(Answer::Solved(solution)) = solve(&problem, &options, |_| {}) else { return None };
    let chosen = solution.assignment.iter().map(|&label| label as usize).collect::<Vec<_>>();
    let copy = |copy: &Option<(usize, Vec<Place>)>| copy.as_ref().map(|(node, places)| places[chosen[*node]]);
    Some(Labelled {
        copies: copies.iter().map(copy).collect(),
        seconds: solution.evaluation.cost as f64 * UNIT,
        lower_bound_seconds: solution.lower_bound as f64 * UNIT,
        chosen: chosen[..choices.len()].to_vec(),
    })
}

/// A problem under way.
struct Building<'b, 'm, 's, 'p> {
    scene: &'b Scene<'s, 'p>,
    moves: &'b mut Moves<'m>,
    choices: &'b [Vec<Choice>],
    exposure: Exposure,
    nodes: Vec<Node>,
    /// Costs between two nodes, the smaller number first.
    tables: BTreeMap<(usize, usize), Vec<Cost>>,
}

impl Building<'_, '_, '_, '_> {
    /// Adds what a flow costs. One that has several readers has a node that says where it is brought for all of
    /// them.
    fn flow(&mut self, flow: &Flow) -> Option<(usize, Vec<Place>)> {
        let origin = flow.origin;
        let froms: Vec<Place> = self.choices[origin.class()].iter().map(|choice| origin.place(choice)).collect();
        let readers: Vec<_> = flow.readers.iter().filter(|reader| !is_itself(origin, reader.class)).collect();
        if let [reader] = readers[..] {
            let tos: Vec<Place> = self.choices[reader.class].iter().map(|choice| reader.place(choice)).collect();
            self.connect(flow, (origin.class(), &froms), (reader.class, &tos));
            return None;
        }
        let wanted = readers.iter().flat_map(|reader| self.choices[reader.class].iter().map(|choice| reader.place(choice)));
        let mut places: Vec<Place> = wanted.collect();
        places.sort_unstable();
        places.dedup();
        if places.is_empty() {
            return None;
        }
        let node = self.nodes.len();
        self.nodes.push(Node { alternatives: vec![Alternative::default(); places.len()] });
        self.connect(flow, (origin.class(), &froms), (node, &places));
        for reader in readers {
            let tos: Vec<Place> = self.choices[reader.class].iter().map(|choice| reader.place(choice)).collect();
            self.connect(flow, (node, &places), (reader.class, &tos));
        }
        Some((node, places))
    }

    fn connect(&mut self, flow: &Flow, (from, froms): (usize, &[Place]), (to, tos): (usize, &[Place])) {
        let program = self.scene.layout.program;
        let ty = if flow.times > 1 && self.scene.time.is_tiled(flow.value) {
            self.scene.time.tile(flow.value, program.ty(flow.value))
        } else {
            program.ty(flow.value).clone()
        };
        let scale = (flow.count * flow.times) as f64 * self.exposure.of(flow.kind);
        let mut cost = |left: Place, right: Place| scaled(scale * self.moves.seconds(&ty, left, right), UNIT);
        if from == to {
            for (index, alternative) in self.nodes[from].alternatives.iter_mut().enumerate() {
                alternative.cost = added(alternative.cost, cost(froms[index], tos[index]));
            }
            return;
        }
        let costs: Vec<Cost> = if from < to {
            froms.iter().flat_map(|&left| tos.iter().map(move |&right| (left, right))).map(|(left, right)| cost(left, right)).collect()
        } else {
            tos.iter().flat_map(|&right| froms.iter().map(move |&left| (left, right))).map(|(left, right)| cost(left, right)).collect()
        };
        match self.tables.entry((from.min(to), from.max(to))) {
            std::collections::btree_map::Entry::Vacant(entry) => _ = entry.insert(costs),
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                entry.get_mut().iter_mut().zip(costs).for_each(|(sum, cost)| *sum = added(*sum, cost));
            }
        }
    }

    fn finish(self) -> Problem {
        let edges = self.tables.into_iter().map(|((left, right), costs)| Edge {
            nodes: [left as u32, right as u32].into_iter().collect(),
            costs: costs.into(),
        });
        Problem { name: "plan".to_owned(), resources: Vec::new(), nodes: self.nodes, edges: edges.collect() }
    }
}

/// Whether the reader is the one that decides how the value lies.
fn is_itself(origin: Origin, class: usize) -> bool {
    matches!(origin, Origin::Read { class: own, .. } if own == class)
}

fn added(left: Cost, right: Cost) -> Cost {
    if left == FORBIDDEN || right == FORBIDDEN { FORBIDDEN } else { left.saturating_add(right) }
}

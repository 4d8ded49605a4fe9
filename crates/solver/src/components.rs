//! Parts of a problem that have nothing to do with each other.

use std::ops::Range;
use std::time::Instant;

use crate::evaluate::evaluate;
use crate::infeasible::Infeasible;
use crate::limit::Limit;
use crate::problem::{Edge, Problem};
use crate::slots::Slots;
use crate::solve::{Answer, Enough, Options, Price, Progress, Solution, Start, solve_connected};

/// A part, in numbers of the problem.
#[derive(Debug, Default)]
pub(crate) struct Component {
    /// In order.
    nodes: Vec<u32>,
    edges: Vec<u32>,
}

/// The parts of a problem: what edges join, or a limit that could be broken, is in one.
pub(crate) fn components(problem: &Problem, slots: &Slots) -> Vec<Component> {
    let (nodes, times) = (problem.nodes.len(), slots.limits().len());
    let mut sets = Sets((0..nodes + times).collect());
    for edge in &problem.edges {
        edge.nodes.windows(2).for_each(|pair| sets.join(pair[0] as usize, pair[1] as usize));
    }
    // Times that one use covers belong together; so it is enough to join its node with the first.
    let mut covered = vec![0_i64; times + 1];
    for (index, node) in problem.nodes.iter().enumerate() {
        for Range { start, end } in slots.uses(node).spans.iter().map(|&(start, end)| start as usize..end as usize) {
            sets.join(index, nodes + start);
            covered[start] += 1;
            covered[end - 1] -= 1;
        }
    }
    let mut open = 0;
    for time in 1..times {
        open += covered[time - 1];
        if open > 0 {
            sets.join(nodes + time - 1, nodes + time);
        }
    }
    let mut parts: Vec<Component> = Vec::new();
    let mut place = vec![usize::MAX; nodes + times];
    for node in 0..nodes {
        let set = sets.find(node);
        if place[set] == usize::MAX {
            place[set] = parts.len();
            parts.push(Component::default());
        }
        parts[place[set]].nodes.push(node as u32);
    }
    for (index, edge) in problem.edges.iter().enumerate() {
        // A cost of nothing is paid by any part.
        let part = edge.nodes.first().map_or(0, |&node| place[sets.find(node as usize)]);
        if let Some(part) = parts.get_mut(part) {
            part.edges.push(index as u32);
        }
    }
    // What small parts leave of the limit is there for large ones.
    parts.sort_by_key(|part| size(problem, part));
    parts
}

/// Small parts are solved at once as a rule. A share of the limit by size could be too little for that.
const LEAST_SHARE: f64 = 0.05;

/// Solves parts one after the other and puts their answers together.
pub(crate) fn solve_parts(
    problem: &Problem,
    parts: &[Component],
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Answer {
    let started = Instant::now();
    let mut left: usize = parts.iter().map(|part| size(problem, part)).sum();
    let mut worked = 0.0;
    let mut assignment = vec![0; problem.nodes.len()];
    let (mut cost, mut lower_bound, mut prices) = (0, 0_i128, Vec::new());
    for (index, component) in parts.iter().enumerate() {
        let own = size(problem, component);
        let share = (own as f64 / left.max(1) as f64).max(LEAST_SHARE);
        let limit = match options.limit {
            Limit::Time(time) => Limit::Time(time.saturating_sub(started.elapsed()).mul_f64(share)),
            Limit::Work(work) => Limit::Work((work - worked).max(0.0) * share),
        };
        left -= own;
        let (part, nodes) = (part(problem, component), &component.nodes);
        // Of the whole nothing can be told before the last part is under way.
        let is_last = index + 1 == parts.len();
        let mut tell = |now: Progress| {
            if is_last {
                let (of_part, bound) = (now.cost, now.lower_bound);
                let whole = Progress {
                    cost: of_part.map(|of_part| of_part + cost),
                    lower_bound: bound.map(|bound| bound.saturating_add(lower_bound)),
                };
                progress(whole);
            }
        };
        // What the whole may cost says nothing of its parts.
        let enough = Enough { least_cost: None, ..options.enough };
        let options = Options { limit, start: start(&part, nodes, &options.start), enough, ..*options };
        let (answer, work) = solve_connected(&part, &options, &mut tell);
        worked += work;
        match answer {
            Answer::Solved(solution) => {
                cost += solution.evaluation.cost;
                lower_bound = solution.lower_bound.saturating_add(lower_bound);
                prices.extend(solution.prices);
                nodes.iter().zip(solution.assignment).for_each(|(&node, label)| assignment[node as usize] = label);
            }
            Answer::Infeasible(reason) => return Answer::Infeasible(renamed(reason, nodes)),
            Answer::Unknown => return Answer::Unknown,
        }
    }
    match evaluate(problem, &assignment) {
        Ok(evaluation) => Answer::Solved(Solution { assignment, evaluation, lower_bound, prices }),
        Err(_) => Answer::Unknown,
    }
}

/// How much there is to do for a part, about.
fn size(problem: &Problem, part: &Component) -> usize {
    part.nodes.iter().map(|&node| problem.nodes[node as usize].alternatives.len()).sum()
}

/// A part as a problem of its own.
fn part(problem: &Problem, part: &Component) -> Problem {
    let number = |node: &u32| part.nodes.binary_search(node).unwrap_or(0) as u32;
    let edge = |&edge: &u32| {
        let Edge { nodes, costs } = &problem.edges[edge as usize];
        Edge { nodes: nodes.iter().map(number).collect(), costs: costs.clone() }
    };
    Problem {
        name: problem.name.clone(),
        resources: problem.resources.clone(),
        nodes: part.nodes.iter().map(|&node| problem.nodes[node as usize].clone()).collect(),
        edges: part.edges.iter().map(edge).collect(),
    }
}

/// What is known of a part from before.
fn start(part: &Problem, nodes: &[u32], start: &Start) -> Start {
    let own = |known: &Vec<u32>| nodes.iter().map(|&node| known.get(node as usize).copied()).collect();
    let uses = || part.nodes.iter().flat_map(|node| &node.alternatives).flat_map(|alternative| &alternative.uses);
    let is_own = |price: &&Price| {
        uses().any(|used| used.resource == price.resource && (used.start..used.end).contains(&price.time))
    };
    Start {
        assignments: start.assignments.iter().filter_map(own).collect(),
        prices: start.prices.iter().filter(is_own).copied().collect(),
    }
}

/// A reason that speaks of the nodes of a part, in terms of the whole.
fn renamed(reason: Infeasible, nodes: &[u32]) -> Infeasible {
    let rename = |node: usize| nodes[node] as usize;
    match reason {
        Infeasible::Forbidden { node } => Infeasible::Forbidden { node: rename(node) },
        Infeasible::Limit { resource, time, needed, limit, nodes } => {
            let nodes = nodes.into_iter().map(|(node, least)| (rename(node), least)).collect();
            Infeasible::Limit { resource, time, needed, limit, nodes }
        }
        Infeasible::Combination => Infeasible::Combination,
    }
}

/// Disjoint sets: each element knows another of its set, or is the one that stands for it.
struct Sets(Vec<usize>);

impl Sets {
    fn find(&mut self, mut element: usize) -> usize {
        while self.0[element] != element {
            self.0[element] = self.0[self.0[element]];
            element = self.0[element];
        }
        element
    }

    fn join(&mut self, first: usize, second: usize) {
        let (first, second) = (self.find(first), self.find(second));
        self.0[first.max(second)] = first.min(second);
    }
}

//! What else a class could do, all others doing what they do.

use meshwright_solver::problem::{Cost, FORBIDDEN, Problem};

use super::label::{Label, Task};

/// What a class comes to in a labelling, and what else it could do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contest {
    /// Of computing and of all moves that it has a part in, as the labelling counts them.
    pub(super) seconds: f64,
    /// The cheapest other label that fits, and before it one that would be cheaper than that but does not fit.
    pub(super) others: Vec<Other>,
}

/// Another label of a class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Other {
    pub(super) label: Label,
    pub(super) more_seconds: f64,
    /// How much there would be too much in memory.
    pub(super) over_bytes: u64,
}

/// What each class could do instead. Labels of classes are the first nodes of the problem, in order; what copies of
/// values take until loops end stays.
pub(super) fn contests(
    task: &Task<'_>,
    labels: &[Vec<Label>],
    problem: &Problem,
    assignment: &[u32],
    copy_bytes: u64,
    limit_bytes: u64,
) -> Vec<Contest> {
    let memory = Memory::new(task, labels, assignment, copy_bytes);
    let contest = |(class, standing): (usize, Standing)| {
        let mut others: Vec<Other> = Vec::new();
        for (alternative, more) in standing.others {
            let label = labels[class][alternative];
            let over_bytes = memory.peak_with(class, label).saturating_sub(limit_bytes);
            if over_bytes == 0 || others.is_empty() {
                others.push(Other { label, more_seconds: more as f64 * task.unit, over_bytes });
            }
            if over_bytes == 0 {
                break;
            }
        }
        Contest { seconds: standing.cost as f64 * task.unit, others }
    };
    standings(problem, assignment, labels.len()).into_iter().enumerate().map(contest).collect()
}

/// What is in memory under a labelling.
struct Memory<'m, 't> {
    task: &'m Task<'t>,
    chosen: Vec<Label>,
    /// By how much that changes at each step.
    changes: Vec<i64>,
}

impl<'m, 't> Memory<'m, 't> {
    fn new(task: &'m Task<'t>, labels: &[Vec<Label>], assignment: &[u32], copy_bytes: u64) -> Memory<'m, 't> {
        let chosen = labels.iter().zip(assignment).map(|(labels, &chosen)| labels[chosen as usize]).collect();
        let mut memory = Memory { task, chosen, changes: vec![0; task.lives.steps + 1] };
        memory.changes[0] += copy_bytes as i64;
        memory.changes[task.lives.loop_end] -= copy_bytes as i64;
        for class in 0..labels.len() {
            let own = memory.changes_of(class, memory.chosen[class]);
            memory.changes.iter_mut().zip(own).for_each(|(sum, change)| *sum += change);
        }
        memory
    }

    fn changes_of(&self, class: usize, label: Label) -> Vec<i64> {
        let Task { parts, lives, choices, .. } = self.task;
        let mut changes = vec![0; lives.steps + 1];
        lives.add(parts, class, &choices[class][label.choice], label.mode, &mut changes);
        changes
    }

    /// The most that would be there at a time if one class did something else.
    fn peak_with(&self, class: usize, label: Label) -> u64 {
        let (old, new) = (self.changes_of(class, self.chosen[class]), self.changes_of(class, label));
        let (mut bytes, mut peak) = (0, 0);
        for ((change, old), new) in self.changes.iter().zip(old).zip(new) {
            bytes += change - old + new;
            peak = peak.max(bytes);
        }
        peak as u64
    }
}

/// What one node of a problem comes to, with all edges that it has a part in.
#[derive(Clone, Debug, PartialEq)]
struct Standing {
    cost: i128,
    /// Its other alternatives and what each costs more, the cheapest first. What is forbidden is not there.
    others: Vec<(usize, i128)>,
}

/// A forbidden cost that can be added up and taken off again.
const WALL: i128 = 1 << 100;

/// How each of the first nodes of a problem stands under an assignment: the others of them keep their alternatives,
/// and nodes behind them, which no edge joins to each other, choose again.
fn standings(problem: &Problem, assignment: &[u32], first: usize) -> Vec<Standing> {
    let mut costs: Vec<Vec<i128>> =
        problem.nodes.iter().map(|node| node.alternatives.iter().map(|one| finite(one.cost)).collect()).collect();
    let mut links: Vec<Vec<Link<'_>>> = vec![Vec::new(); first];
    for edge in &problem.edges {
        let &[left, right] = edge.nodes.as_slice() else { continue };
        let (left, right) = (left as usize, right as usize);
        let width = problem.nodes[right].alternatives.len();
        let forth = Link { costs: &edge.costs, stride: width, other: right, other_stride: 1 };
        let back = Link { costs: &edge.costs, stride: 1, other: left, other_stride: width };
        for (node, link) in [(left, forth), (right, back)] {
            // What a node that chooses again pays towards those that do not is part of its own cost.
            match (node < first, link.other < first) {
                (_, true) => link.add_to(&mut costs[node], assignment),
                (true, false) => links[node].push(link),
                (false, false) => {}
            }
        }
    }
    (0..first).map(|node| standing(&costs, &links[node], assignment, node)).collect()
}

/// An edge as one of its nodes sees it.
#[derive(Clone, Copy)]
struct Link<'e> {
    costs: &'e [Cost],
    stride: usize,
    other: usize,
    other_stride: usize,
}

impl Link<'_> {
    fn cost(&self, own: usize, other: usize) -> i128 {
        finite(self.costs[own * self.stride + other * self.other_stride])
    }

    /// Adds what each alternative of the node pays where the other node stays.
    fn add_to(&self, costs: &mut [i128], assignment: &[u32]) {
        let other = assignment[self.other] as usize;
        costs.iter_mut().enumerate().for_each(|(own, sum)| *sum += self.cost(own, other));
    }
}

fn standing(costs: &[Vec<i128>], links: &[Link<'_>], assignment: &[u32], node: usize) -> Standing {
    let chosen = assignment[node] as usize;
    let total = |own: usize| {
        let free = links.iter().map(|link| {
            let there = costs[link.other].iter().enumerate();
            there.map(|(other, cost)| cost - link.cost(chosen, other) + link.cost(own, other)).min().unwrap_or(0)
        });
        costs[node][own] + free.sum::<i128>()
    };
    let cost = total(chosen);
    let others = (0..costs[node].len()).filter(|&own| own != chosen).map(|own| (own, total(own)));
    let mut others: Vec<(usize, i128)> =
        others.filter(|&(_, other)| other < WALL / 2).map(|(own, other)| (own, other - cost)).collect();
    others.sort_by_key(|&(own, more)| (more, own));
    Standing { cost, others }
}

fn finite(cost: Cost) -> i128 {
    if cost == FORBIDDEN { WALL } else { i128::from(cost) }
}

#[cfg(test)]
mod tests {
    use meshwright_solver::evaluate::evaluate;
    use meshwright_solver::problem::{Alternative, Edge, Node};

    use super::*;

    /// A number that looks random, the same in every run.
    fn mix(seed: u64) -> Cost {
        let mixed = (seed ^ seed >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        if mixed.is_multiple_of(17) { FORBIDDEN } else { (mixed % 100) as Cost }
    }

    fn problem(seed: u64, first: usize, behind: usize) -> Problem {
        let count = first + behind;
        let sizes: Vec<usize> = (0..count).map(|node| 2 + node % 3).collect();
        let alternative = |seed: u64| Alternative { cost: mix(seed) % 1000, ..Alternative::default() };
        let node = |(node, &size): (usize, &usize)| Node {
            alternatives: (0..size).map(|one| alternative(seed * 1000 + (node * 10 + one) as u64)).collect(),
        };
        let nodes = sizes.iter().enumerate().map(node).collect();
        let mut edges = Vec::new();
        for left in 0..first {
            for right in left + 1..count {
                let cost = |place: usize| mix(seed * 7919 + (left * 1000 + right * 50 + place) as u64);
                let costs: Vec<Cost> = (0..sizes[left] * sizes[right]).map(cost).collect();
                edges.push(Edge { nodes: [left as u32, right as u32].into_iter().collect(), costs: costs.into() });
            }
        }
        Problem { nodes, edges, ..Problem::default() }
    }

    /// The least that an assignment of the first nodes costs, trying all there is behind them.
    fn least(problem: &Problem, assignment: &[u32], first: usize) -> Option<i128> {
        let mut tried = vec![assignment.to_vec()];
        for node in first..problem.nodes.len() {
            let size = problem.nodes[node].alternatives.len() as u32;
            let with = |base: &Vec<u32>, one: u32| {
                let mut next = base.clone();
                next[node] = one;
                next
            };
            tried = tried.iter().flat_map(|base| (0..size).map(move |one| with(base, one))).collect();
        }
        tried.iter().filter_map(|one| evaluate(problem, one).ok()).map(|found| found.cost).min()
    }

    #[test]
    fn what_an_alternative_costs_more_is_what_trying_it_tells() {
        let (first, behind, mut compared) = (3, 2, 0);
        for seed in 1..60 {
            let problem = problem(seed, first, behind);
            let assignment: Vec<u32> = (0..first + behind).map(|node| (seed as u32 + node as u32) % 2).collect();
            let Some(cost) = least(&problem, &assignment, first) else { continue };
            for (node, standing) in standings(&problem, &assignment, first).iter().enumerate() {
                for one in 0..problem.nodes[node].alternatives.len() {
                    let mut changed = assignment.clone();
                    changed[node] = one as u32;
                    let expected = least(&problem, &changed, first).map(|other| other - cost);
                    let found = standing.others.iter().find(|(other, _)| *other == one).map(|(_, more)| *more);
                    if one != assignment[node] as usize {
                        assert_eq!(found, expected, "seed {seed}, node {node}, alternative {one}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 100, "{compared} alternatives were compared");
    }
}

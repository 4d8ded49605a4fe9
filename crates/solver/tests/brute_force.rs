//! Small random problems: the answer is what trying everything finds.

use std::sync::Arc;

use meshwright_solver::evaluate::{Violation, evaluate};
use meshwright_solver::problem::{Alternative, Cost, Edge, FORBIDDEN, Node, Resource, Use};
use meshwright_solver::{Answer, Enough, Limit, Options, Problem, Start, solve};

#[test]
fn small_problems_are_solved_exactly() {
    let cases = if std::env::var_os("LONG").is_some() { 5_000 } else { 300 };
    let (mut feasible, mut infeasible) = (0, 0);
    for seed in 0..cases {
        let problem = random_problem(seed);
        let expected = brute_force(&problem);
        match (solve(&problem, &options(seed, 1), |_| ()).expect("the problem is well formed"), expected) {
            (Answer::Solved(solution), Some(cost)) => {
                feasible += 1;
                assert_eq!(solution.evaluation.cost, cost, "seed {seed}");
                assert!(solution.is_optimal(), "seed {seed}: bound {} for {cost}", solution.lower_bound);
                assert_eq!(evaluate(&problem, &solution.assignment), Ok(solution.evaluation), "seed {seed}");
            }
            (Answer::Infeasible(_), None) => infeasible += 1,
            (answer, expected) => panic!("seed {seed}: {answer:?}, expected {expected:?}"),
        }
    }
    assert!(feasible > cases / 4 && infeasible > cases / 20, "{feasible} feasible, {infeasible} infeasible");
}

#[test]
fn work_decides_whatever_the_number_of_threads() {
    for seed in 0..20 {
        let problem = random_problem(seed);
        let answers = [1, 2, 5].map(|threads| {
            format!("{:?}", solve(&problem, &options(seed, threads), |_| ()).expect("the problem is well formed"))
        });
        assert_eq!(answers[0], answers[1], "seed {seed}");
        assert_eq!(answers[0], answers[2], "seed {seed}");
    }
}

#[test]
fn an_answer_starts_the_next() {
    let mut started = 0;
    for seed in 0..50 {
        let mut problem = random_problem(seed);
        let Ok(Answer::Solved(before)) = solve(&problem, &options(seed, 1), |_| ()) else { continue };
        problem.nodes[0].alternatives[0].cost = 3;
        let expected = brute_force(&problem);
        let start = Start { assignments: vec![before.assignment], prices: before.prices };
        let options = Options { start, ..options(seed, 1) };
        if let Ok(Answer::Solved(after)) = solve(&problem, &options, |_| ()) {
            started += 1;
            assert_eq!(Some(after.evaluation.cost), expected, "seed {seed}");
        }
    }
    assert!(started > 10, "{started} started");
}

/// What has nothing in common is solved apart: costs add up, and what one part cannot, all cannot.
#[test]
fn parts_that_have_nothing_in_common_add_up() {
    let (mut feasible, mut infeasible) = (0, 0);
    for seed in 0..100 {
        let (first, second) = (random_problem(seed), random_problem(seed + 1000));
        let expected = brute_force(&first).zip(brute_force(&second)).map(|(first, second)| first + second);
        let both = beside(&first, &second);
        match (solve(&both, &options(seed, 2), |_| ()).expect("the problem is well formed"), expected) {
            (Answer::Solved(solution), Some(cost)) => {
                feasible += 1;
                assert_eq!((solution.evaluation.cost, solution.lower_bound), (cost, cost), "seed {seed}");
                let start = Start { assignments: vec![solution.assignment], prices: solution.prices };
                let again = solve(&both, &Options { start, ..options(seed, 1) }, |_| ());
                assert!(matches!(again, Ok(Answer::Solved(again)) if again.evaluation.cost == cost), "seed {seed}");
            }
            (Answer::Infeasible(_), None) => infeasible += 1,
            (answer, expected) => panic!("seed {seed}: {answer:?}, expected {expected:?}"),
        }
    }
    assert!(feasible > 10 && infeasible > 10, "{feasible} feasible, {infeasible} infeasible");
}

/// Two problems as one, with resources of their own.
fn beside(first: &Problem, second: &Problem) -> Problem {
    let mut both = first.clone();
    let (nodes, resources) = (first.nodes.len() as u32, first.resources.len() as u32);
    both.resources.extend(second.resources.iter().cloned());
    for mut node in second.nodes.iter().cloned() {
        let uses = node.alternatives.iter_mut().flat_map(|alternative| &mut alternative.uses);
        uses.for_each(|used| used.resource += resources);
        both.nodes.push(node);
    }
    for mut edge in second.edges.iter().cloned() {
        edge.nodes.iter_mut().for_each(|node| *node += nodes);
        both.edges.push(edge);
    }
    both
}

fn options(seed: u64, threads: usize) -> Options {
    Options { limit: Limit::Work(1e9), threads, seed, start: Start::default(), enough: Enough::default() }
}

/// The least cost of all assignments that break no rule.
fn brute_force(problem: &Problem) -> Option<i128> {
    let mut assignment = vec![0; problem.nodes.len()];
    let mut best: Option<i128> = None;
    loop {
        match evaluate(problem, &assignment) {
            Ok(evaluation) => best = Some(best.map_or(evaluation.cost, |best| best.min(evaluation.cost))),
            Err(Violation::Length { .. } | Violation::Alternative { .. }) => panic!("no such assignment"),
            Err(Violation::ForbiddenNode { .. } | Violation::ForbiddenEdge { .. } | Violation::Limit { .. }) => {}
        }
        let last = |node: usize| assignment[node] as usize + 1 == problem.nodes[node].alternatives.len();
        let Some(node) = (0..assignment.len()).rev().find(|node| !last(*node)) else { return best };
        assignment[node] += 1;
        assignment[node + 1..].fill(0);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count.max(1)
    }
}

fn random_problem(seed: u64) -> Problem {
    let mut random = Random(seed);
    let kind = random.below(8);
    let largest = if kind == 0 { 800_000_000_000_000 } else { 100 };
    let resources = (0..random.below(3))
        .map(|index| Resource { name: index.to_string(), limit: (random.below(8) > 0).then(|| 5 + random.below(25)) })
        .collect::<Vec<_>>();
    let nodes: Vec<Node> =
        (0..1 + random.below(7)).map(|_| random_node(&mut random, resources.len() as u64, largest)).collect();
    let edges = (0..random.below(2 * nodes.len() as u64)).map(|_| random_edge(&mut random, &nodes, largest)).collect();
    Problem { name: String::new(), resources, nodes, edges }
}

fn random_node(random: &mut Random, resources: u64, largest: u64) -> Node {
    let alternatives = (0..1 + random.below(4)).map(|_| {
        let uses = (0..if resources > 0 { random.below(4) } else { 0 })
            .map(|_| {
                let start = random.below(8);
                Use {
                    resource: random.below(resources) as u32,
                    start,
                    end: start + random.below(5),
                    amount: random.below(8),
                }
            })
            .collect();
        Alternative { cost: random_cost(random, largest), uses }
    });
    Node { alternatives: alternatives.collect() }
}

fn random_edge(random: &mut Random, nodes: &[Node], largest: u64) -> Edge {
    let mut among: Vec<u32> = Vec::new();
    for _ in 0..[2, 2, 2, 3, 1, 0, 4][random.below(7) as usize] {
        let node = random.below(nodes.len() as u64) as u32;
        if !among.contains(&node) {
            among.push(node);
        }
    }
    let size = among.iter().map(|node| nodes[*node as usize].alternatives.len()).product();
    let costs: Arc<[Cost]> = (0..size).map(|_| random_cost(random, largest)).collect();
    Edge { nodes: among.into_iter().collect(), costs }
}

fn random_cost(random: &mut Random, largest: u64) -> Cost {
    if random.below(8) == 0 {
        return FORBIDDEN;
    }
    random.below(largest) as Cost - random.below(1 + largest / 8) as Cost
}

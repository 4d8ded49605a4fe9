//! Made-up training steps and their variants: an answer is there soon, it is good, and its bound holds.

mod family;

use family::variant::{Variant, vary};
use family::{Shape, training_step};
use meshwright_solver::evaluate::evaluate;
use meshwright_solver::{Answer, Enough, Limit, Options, Problem, Solution, Start, solve};

const SHAPE: Shape = Shape { layers: 3, axes: Vec::new(), binding: true, hyperedges: false, room: 1.1, seed: 1 };

#[test]
fn training_steps_are_solved_well() {
    let shapes = [
        Shape { axes: vec![2, 4], ..SHAPE },
        Shape { axes: vec![2, 4], hyperedges: true, room: 1.02, ..SHAPE },
        Shape { axes: vec![2, 4, 8], layers: 1, ..SHAPE },
        Shape { axes: vec![8], layers: 40, binding: false, room: 1.05, ..SHAPE },
    ];
    for shape in shapes {
        let solution = solved(&training_step(&shape), 3e8, Start::default());
        assert!(gap(&solution) < 0.02, "{shape:?}: {} above {}", solution.evaluation.cost, solution.lower_bound);
    }
}

#[test]
fn little_work_finds_an_assignment() {
    let problem = training_step(&Shape { axes: vec![2, 4], layers: 20, room: 1.02, ..SHAPE });
    let entries: usize = problem.edges.iter().map(|edge| edge.costs.len()).sum();
    solved(&problem, 20.0 * entries as f64, Start::default());
}

#[test]
fn variants_are_solved_like_the_first() {
    let problem = training_step(&Shape { axes: vec![2, 2], ..SHAPE });
    let first = solved(&problem, 3e8, Start::default());
    let cost = first.evaluation.cost;
    // Costs a million times as high are the same problem, though floats cannot tell them apart.
    let huge = solved(&vary(&problem, Variant::Huge), 3e8, Start::default());
    assert_eq!(huge.evaluation.cost, cost * 1_000_003);
    assert_eq!(huge.assignment, first.assignment);
    for variant in [Variant::Costly, Variant::Allowed, Variant::Unbound, Variant::Room(1.3), Variant::Room(2.0)] {
        let solution = solved(&vary(&problem, variant), 3e8, Start::default());
        // Each allows what the first does.
        assert!(solution.lower_bound <= cost, "{variant:?}: {} above {cost}", solution.lower_bound);
        assert!(gap(&solution) < 0.05, "{variant:?}: {}", gap(&solution));
    }
    for variant in [Variant::Perturbed(3), Variant::Perturbed(30), Variant::Room(1.001), Variant::Half] {
        let solution = solved(&vary(&problem, variant), 3e8, Start::default());
        assert!(gap(&solution) < 0.05, "{variant:?}: {}", gap(&solution));
    }
}

#[test]
fn the_same_work_gives_the_same_answer() {
    let problem = training_step(&Shape { axes: vec![2, 4], ..SHAPE });
    let answers = [1, 2, 5].map(|threads| {
        let options =
            Options { limit: Limit::Work(5e7), threads, seed: 7, start: Start::default(), enough: Enough::default() };
        format!("{:?}", solve(&problem, &options, |_| ()).expect("the problem is well formed"))
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

/// What is known of a problem helps with one like it.
#[test]
fn an_answer_starts_the_next() {
    let problem = training_step(&Shape { axes: vec![2, 4], layers: 10, ..SHAPE });
    let first = solved(&problem, 3e8, Start::default());
    let changed = vary(&problem, Variant::Perturbed(1));
    let start = Start { assignments: vec![first.assignment], prices: first.prices };
    let (warm, cold) = (solved(&changed, 2e7, start), solved(&changed, 2e7, Start::default()));
    assert!(warm.evaluation.cost < cold.evaluation.cost, "{} and {}", warm.evaluation.cost, cold.evaluation.cost);
    assert!(warm.lower_bound > cold.lower_bound, "{} and {}", warm.lower_bound, cold.lower_bound);
}

/// Who is content with less than a proof has an answer earlier, and its bound holds.
#[test]
fn a_search_ends_where_enough_is_known() {
    let problem = training_step(&Shape { axes: vec![2, 4], layers: 10, ..SHAPE });
    let whole = solved(&problem, 3e8, Start::default());
    let content = |enough: Enough| solved_until(&problem, 3e8, Start::default(), enough);
    let near = content(Enough { gap: 0.05, least_cost: None });
    assert!(gap(&near) <= 0.05, "{}", gap(&near));
    let least_cost = whole.lower_bound / 2;
    let hopeless = content(Enough { gap: 0.0, least_cost: Some(least_cost) });
    assert!(hopeless.lower_bound >= least_cost, "{} below {least_cost}", hopeless.lower_bound);
    for early in [near, hopeless] {
        assert!(early.lower_bound < whole.lower_bound, "{} of {}", early.lower_bound, whole.lower_bound);
    }
}

/// The solution of a problem that has one.
fn solved(problem: &Problem, work: f64, start: Start) -> Solution {
    solved_until(problem, work, start, Enough::default())
}

fn solved_until(problem: &Problem, work: f64, start: Start, enough: Enough) -> Solution {
    let options = Options { limit: Limit::Work(work), threads: 2, seed: 0, start, enough };
    match solve(problem, &options, |_| ()) {
        Ok(Answer::Solved(solution)) => {
            assert_eq!(evaluate(problem, &solution.assignment), Ok(solution.evaluation.clone()));
            assert!(solution.lower_bound <= solution.evaluation.cost);
            solution
        }
        answer => panic!("{}: {answer:?}", problem.name),
    }
}

/// How far the cost is above the bound, as a part of it.
fn gap(solution: &Solution) -> f64 {
    (solution.evaluation.cost - solution.lower_bound) as f64 / solution.evaluation.cost as f64
}

//! Any bytes, read as an instance; what can be read is solved for a moment, and the answer is checked.

#![no_main]

use meshwright_solver::evaluate::evaluate;
use meshwright_solver::{Answer, Limit, Options, Start, contest, solve};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(problem) = contest::read(bytes) else { return };
    let options = Options { limit: Limit::Work(1e5), threads: 1, seed: 0, start: Start::default() };
    if let Ok(Answer::Solved(solution)) = solve(&problem, &options, |_| ()) {
        assert_eq!(evaluate(&problem, &solution.assignment), Ok(solution.evaluation.clone()));
        assert!(solution.lower_bound <= solution.evaluation.cost);
    }
});

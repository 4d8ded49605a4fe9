//! Partitioned programs compute what whole programs do: random programs of all ops, on random meshes,
//! under random decisions, evaluated on one device and on all.
//!
//! `LONG=1` tries many more cases. `SEED=…` runs one case alone; a case that fails says its seed.

mod carrying;
mod case;
mod contracting;
mod control;
mod elementwise;
mod generator;
mod indexing;
mod kinds;
mod models;
mod moving;
mod random;
mod reducing;
mod reshards;

#[path = "../small/mod.rs"]
mod small;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{panic, thread};

use meshwright::program::{Binary, Unary};

use case::{Coverage, Limits, NO_LIMITS, check};

/// Cases that once failed. What a seed stands for changes with the generator, so this is a memory of
/// places where something was, no proof that it is mended.
const FAILED: [u64; 9] = [327, 658, 1084, 2581, 3799, 4515, 4734, 5124, 6914];

const CASES: u64 = 10_000;
const LONG_CASES: u64 = 200_000;
/// After so many the rest says nothing new.
const MAXIMUM_FAILURES: usize = 50;

/// Ops besides the elementwise ones of one and two operands that must have been cut in some case, so
/// that the property cannot go blind.
const CUT: [&str; 40] = [
    "chlo.top_k",
    "meshwright.attention",
    "meshwright.attention_grad",
    "stablehlo.batch_norm_grad",
    "stablehlo.batch_norm_inference",
    "stablehlo.batch_norm_training",
    "stablehlo.bitcast_convert",
    "stablehlo.broadcast_in_dim",
    "stablehlo.case",
    "stablehlo.cholesky",
    "stablehlo.clamp",
    "stablehlo.compare",
    "stablehlo.complex",
    "stablehlo.concatenate",
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.convolution",
    "stablehlo.dot_general",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
    "stablehlo.if",
    "stablehlo.iota",
    "stablehlo.map",
    "stablehlo.optimization_barrier",
    "stablehlo.pad",
    "stablehlo.reduce",
    "stablehlo.reduce_precision",
    "stablehlo.reduce_window",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.scatter",
    "stablehlo.select",
    "stablehlo.select_and_scatter",
    "stablehlo.slice",
    "stablehlo.sort",
    "stablehlo.tanh",
    "stablehlo.transpose",
    "stablehlo.triangular_solve",
    "stablehlo.while",
];

/// Ops that must have read partial values and carried them on in some case.
const CARRIED: [&str; 26] = [
    "stablehlo.add",
    "stablehlo.and",
    "stablehlo.broadcast_in_dim",
    "stablehlo.concatenate",
    "stablehlo.convert",
    "stablehlo.convolution",
    "stablehlo.divide",
    "stablehlo.dot_general",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
    "stablehlo.maximum",
    "stablehlo.minimum",
    "stablehlo.multiply",
    "stablehlo.negate",
    "stablehlo.or",
    "stablehlo.pad",
    "stablehlo.reduce",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.scatter",
    "stablehlo.select",
    "stablehlo.slice",
    "stablehlo.subtract",
    "stablehlo.transpose",
    "stablehlo.triangular_solve",
];

#[test]
fn partitioned_programs_compute_what_whole_programs_do() {
    if let Ok(seed) = std::env::var("SEED") {
        let seed = seed.parse().expect("`SEED` is a number");
        if let Err(message) = outcome(seed, NO_LIMITS, &mut Coverage::new()) {
            panic!("{}", report(seed, &message));
        }
        return;
    }
    let cases = if std::env::var_os("LONG").is_some() { LONG_CASES } else { CASES };
    for seed in FAILED {
        if let Err(message) = outcome(seed, NO_LIMITS, &mut Coverage::new()) {
            panic!("{}", report(seed, &message));
        }
    }
    let coverage = run(cases);
    let carried = CARRIED.iter().map(|name| format!("{name} of partial values"));
    let expected = CUT.iter().chain(Unary::NAMES).chain(Binary::NAMES).map(|&name| name.to_owned()).chain(carried);
    let blind: Vec<String> = expected.filter(|name| coverage.get(name).is_none_or(|&count| count == 0)).collect();
    assert!(blind.is_empty(), "no case cuts or carries {blind:?}");
}

/// Runs cases on all cores; panics where some fail.
fn run(cases: u64) -> Coverage {
    let next = AtomicU64::new(0);
    let worker = || {
        let (mut coverage, mut failures) = (Coverage::new(), Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= cases || failures.len() >= MAXIMUM_FAILURES {
                return (coverage, failures);
            }
            if let Err(message) = outcome(seed, NO_LIMITS, &mut coverage) {
                failures.push((seed, message));
            }
        }
    };
    let cores = thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let (mut coverage, mut failures) = (Coverage::new(), Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            let (counts, failed) = worker.join().expect("panics of cases are caught");
            counts.into_iter().for_each(|(name, count)| *coverage.entry(name).or_default() += count);
            failures.extend(failed);
        }
    });
    failures.sort();
    if let Some((seed, message)) = failures.first() {
        let lines: Vec<String> = failures
            .iter()
            .map(|(seed, message)| format!("{seed}: {}", message.lines().next().unwrap_or_default()))
            .collect();
        panic!("{}\nall that failed:\n{}", report(*seed, message), lines.join("\n"));
    }
    coverage
}

/// How a case ends. A panic is a failure like any other.
fn outcome(seed: u64, limits: Limits, coverage: &mut Coverage) -> Result<(), String> {
    panic::catch_unwind(AssertUnwindSafe(|| check(seed, limits, coverage))).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        let message = message.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("panic: {}", message.unwrap_or_default()))
    })
}

/// A failure, made as small as leaving out ops and decisions makes it.
fn report(seed: u64, message: &str) -> String {
    let mut smallest = message.to_owned();
    'search: for ops in 0..8 {
        for decisions in 0..20 {
            if let Err(message) = outcome(seed, Limits { ops, decisions }, &mut Coverage::new()) {
                smallest = format!("with ops up to {ops} and {decisions} decisions: {message}");
                break 'search;
            }
        }
    }
    format!("case {seed} fails; run it alone with `SEED={seed} cargo test --test partition`\n{smallest}")
}

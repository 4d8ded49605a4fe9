//! Partitioned programs compute what whole programs do: random programs of all ops, on random meshes,
//! under random decisions, evaluated on one device and on all.
//!
//! `LONG=1` tries many more cases. `SEED=…` runs one case alone; a case that fails says its seed.

mod case;
mod contracting;
mod control;
mod elementwise;
mod generator;
mod indexing;
mod kinds;
mod moving;
mod random;
mod reducing;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{panic, thread};

use case::{Coverage, Limits, NO_LIMITS, check};

/// Cases that once failed. What a seed stands for changes with the generator, so this is a memory of
/// places where something was, no proof that it is mended.
const FAILED: [u64; 0] = [];

const CASES: u64 = 10_000;
const LONG_CASES: u64 = 200_000;
/// After so many the rest says nothing new.
const MAXIMUM_FAILURES: usize = 50;

/// Ops that random programs hold and that are computed whole on every device.
const NEVER_CUT: [&str; 1] = ["stablehlo.rng_bit_generator"];

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
    let blind: Vec<&String> = coverage
        .iter()
        .filter(|(name, count)| **count == 0 && !NEVER_CUT.contains(&name.as_str()))
        .map(|(name, _)| name)
        .collect();
    assert!(blind.is_empty(), "no case cuts {blind:?}");
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

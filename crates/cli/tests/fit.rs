//! What planning says in JSON where a step does not fit, and about batches and memory.

mod json;

use std::process::Command;

use json::{check_keys, printed};
use serde_json::Value;

const MODEL: [&str; 11] =
    ["gpt2", "--set", "layers=2", "--set", "hidden=256", "--set", "heads=4", "--set", "seq=256", "--set", "vocab=1024"];
const CLUSTER: [&str; 2] = ["--cluster", "2xv100-16g"];

fn planned(command: &str, rest: &[&str]) -> Value {
    printed(&[&[command], &MODEL[..], &CLUSTER, rest, &["--json"]].concat())
}

#[test]
fn what_does_not_fit_has_its_keys() {
    let arguments = [&["plan"], &MODEL[..], &CLUSTER, &["--set", "batch=64", "--memory", "1200MiB"]].concat();
    let arguments = [&arguments[..], &["--microbatches", "1", "--json"]].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_meshwright")).args(arguments).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(1));
    let refused: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    check_keys(&refused, &["fits", "memory_limit", "least_bytes", "missing_bytes", "closest", "planning_seconds"]);
    check_keys(&refused["binding"], &["op", "scope", "pass", "memory", "largest"]);
    check_keys(&refused["binding"]["largest"][0], &["name", "class", "values", "bytes"]);
    let memory = refused["binding"]["memory"].as_object().expect("bytes by class");
    let all: u64 = memory.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(all), refused["least_bytes"].as_u64());
    let suggestions = refused["suggestions"].as_array().expect("a list");
    assert!(!suggestions.is_empty());
    for suggestion in suggestions {
        check_keys(suggestion, &["change", "flag", "mesh", "microbatches", "step_seconds", "peak_bytes"]);
        assert!(suggestion["peak_bytes"].as_u64() <= refused["memory_limit"].as_u64());
    }
}

#[test]
fn the_best_batch_is_the_one_of_largest_throughput() {
    let best = planned("plan", &["--batch", "max"]);
    let batches = best["batches"].as_array().expect("a list");
    let rate = |row: &Value| row["samples_per_second"].as_f64().unwrap_or(0.0);
    let largest = batches.iter().max_by(|left, right| rate(left).total_cmp(&rate(right))).expect("some were tried");
    assert_eq!(best["batch"], largest["batch"]);
    assert_eq!(best["step_seconds"], largest["step_seconds"]);
}

#[test]
fn time_against_memory_never_rises_with_memory() {
    let ladder = planned("plan", &["--set", "batch=16", "--pareto"]);
    let rungs = ladder["pareto"].as_array().expect("a list");
    assert!(rungs.len() > 3, "{ladder:#}");
    for pair in rungs.windows(2) {
        assert!(pair[0]["memory_limit"].as_u64() > pair[1]["memory_limit"].as_u64());
        assert!(pair[0]["step_seconds"].as_f64() <= pair[1]["step_seconds"].as_f64());
    }
}

#[test]
fn sweeps_are_planned_without_tactics() {
    let sweep = planned("sweep", &["--vary", "memory=1025MiB,2GiB", "--vary", "batch=8,16"]);
    let runs = sweep["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 4);
    for run in &runs[..2] {
        assert_eq!(run["fits"], false);
        assert!(run["least_bytes"].as_u64() > Some(1025 << 20));
    }
    for run in &runs[2..] {
        check_keys(run, &["memory", "batch", "step_seconds", "mfu", "peak_bytes", "memory_limit", "fits", "mesh"]);
        assert_eq!(run["fits"], true);
    }
}

//! The JSON and the traces that other programs read.

mod json;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use json::{check_keys, printed};
use serde_json::Value;

const SMALL: [&str; 12] = [
    "--set",
    "layers=4",
    "--set",
    "hidden=16",
    "--set",
    "heads=4",
    "--set",
    "seq=8",
    "--set",
    "vocab=32",
    "--set",
    "batch=8",
];

fn with_tactics<'a>(arguments: &[&'a str], tactics: &'a str) -> Vec<&'a str> {
    [arguments, &SMALL[..], &["--tactics", tactics]].concat()
}

const ZERO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/simulate.in/zero.toml");
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/simulate.in/stages.toml");

const WHOLE: [&str; 6] = ["simulate", "gpt2", "--cluster", "8xh100", "--mesh", "data=8"];
const STAGED: [&str; 6] = ["simulate", "gpt2", "--cluster", "8xh100", "--mesh", "data=2,micro=4@time"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("`{value}` is no number"))
}

#[test]
fn simulate_has_the_keys_that_others_read() {
    for (arguments, tactics, stages) in [(WHOLE, ZERO, 1), (STAGED, STAGES, 2)] {
        let found = printed(&with_tactics(&[&arguments[..], &["--json"]].concat(), tactics));
        check_keys(&found, &["step_seconds", "mfu", "hfu", "peak_bytes", "memory_limit", "fits", "memory", "time"]);
        check_keys(&found, &["tokens_per_second", "stages", "engine", "cluster", "seconds", "mesh", "devices"]);
        let parts = ["compute", "exposed_communication", "bubble", "host"];
        let classes = ["weights", "gradients", "optimizer", "activations", "temporaries", "inputs"];
        let sum = |object: &Value, keys: &[&str]| keys.iter().map(|key| number(&object[*key])).sum::<f64>();
        assert!((sum(&found["time"], &parts) / number(&found["step_seconds"]) - 1.0).abs() < 1e-9);
        assert_eq!(sum(&found["memory"], &classes), number(&found["peak_bytes"]));
        assert_eq!(number(&found["tokens_per_second"]) * number(&found["step_seconds"]), 64.0);
        assert_eq!(
            (&found["fits"], &found["engine"], &found["cluster"]),
            (&true.into(), &"xla".into(), &"8xh100".into())
        );
        let listed = found["stages"].as_array().expect("a list of stages");
        assert_eq!(listed.len(), stages);
        for stage in listed {
            check_keys(stage, &["stage", "devices", "modules", "time", "peak_bytes", "memory_limit", "memory"]);
            check_keys(&stage["time"], &parts);
        }
        for collective in found["collectives"].as_array().expect("a list of collectives") {
            check_keys(collective, &["collective", "place", "devices", "runs", "bytes", "seconds"]);
        }
    }
}

#[test]
fn runs_of_a_sweep_have_what_was_varied_and_what_came_of_it() {
    let arguments = ["sweep", "gpt2", "--cluster", "8xh100", "--mesh", "data=4,model=2", "--json"];
    let varied = ["--vary", "memory=1KiB,8GiB", "--vary", "devices=8,9", "--vary", "bandwidth=1,2"];
    let found = printed(&with_tactics(&[&arguments[..], &varied].concat(), ZERO));
    let runs = found["runs"].as_array().expect("a list of runs");
    assert_eq!(runs.len(), 8);
    for (index, run) in runs.iter().enumerate() {
        check_keys(run, &["memory", "devices", "bandwidth"]);
        // The last key is fastest.
        assert_eq!(run["memory"], if index < 4 { 1 << 10 } else { 8u64 << 30 });
        assert_eq!(run["devices"], if index % 4 < 2 { 8 } else { 9 });
        assert_eq!(run["bandwidth"], if index % 2 == 0 { 1.0 } else { 2.0 });
        if run["devices"] == 8 {
            check_keys(run, &["step_seconds", "tokens_per_second", "mfu", "peak_bytes", "memory_limit"]);
            assert_eq!((&run["fits"], &run["memory_limit"]), (&(index >= 4).into(), &run["memory"]));
        } else {
            check_keys(run, &["reason"]);
        }
    }
    let seconds = |index: usize| number(&runs[index]["step_seconds"]);
    assert!(seconds(1) < seconds(0), "faster links make a step shorter");
    assert_eq!(seconds(4), seconds(0));
}

/// The events of a trace, and how many microseconds the step takes.
fn traced(arguments: &[&str], tactics: &str) -> (Vec<Value>, f64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let shown = path.display().to_string();
    let found = printed(&with_tactics(&[arguments, &["--json", "--trace", &shown]].concat(), tactics));
    let trace: Value = serde_json::from_slice(&fs::read(&path).expect("a trace")).expect("a trace is JSON");
    assert_eq!(trace["displayTimeUnit"], "ms");
    let events = trace["traceEvents"].as_array().expect("a list of events").clone();
    // A file that is there is not replaced.
    let again = with_tactics(&[arguments, &["--trace", &shown]].concat(), tactics);
    let output = Command::new(env!("CARGO_BIN_EXE_meshwright")).args(again).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    (events, number(&found["step_seconds"]) * 1e6)
}

#[test]
fn events_follow_each_other_within_the_step() {
    for (arguments, tactics, stages) in [(WHOLE, ZERO, 1), (STAGED, STAGES, 2)] {
        let (events, step) = traced(&arguments, tactics);
        let mut lanes: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let lane = [&event["pid"], &event["tid"]].map(|number| number.as_u64().expect("a number"));
            let (start, length) = (number(&event["ts"]), number(&event["dur"]));
            assert!(length >= 0.0 && start + length <= step + 1e-3, "{event} is not within {step}");
            assert!(event["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
            lanes.entry((lane[0], lane[1])).or_default().push((start, start + length));
        }
        // Kernels and collectives of every stage, pieces of it, and messages between stages.
        assert_eq!(lanes.len(), if stages == 1 { 3 } else { 4 * stages });
        for ((stage, lane), mut spans) in lanes {
            spans.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1)));
            // Messages to different stages may be under way at once.
            let is_sequence = spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-3);
            assert!(is_sequence || lane == 3, "stage {stage}, lane {lane}");
        }
        let count =
            |ph: &str, name: &str| events.iter().filter(|event| event["ph"] == ph && event["name"] == name).count();
        assert_eq!((count("M", "process_name"), count("M", "thread_name")), (stages, 4 * stages));
        assert!(count("C", "memory") >= 2 * stages);
    }
}

#[test]
fn names_in_traces_are_escaped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, tactics) = (folder.path().join("model.mlir"), folder.path().join("tactics.toml"));
    let ty = "tensor<64x64xf32>";
    let text = format!(
        "func.func @main(%x: {ty} loc(\"x\"), %w: {ty} loc(\"w\")) -> {ty} {{\n  %0 = stablehlo.dot_general %x, %w, \
         contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty} loc(\"a \\22quoted\\22\\\\scope/dot\")\n  \
         return %0 : {ty}\n}}\n"
    );
    fs::write(&model, text).expect("a file");
    fs::write(&tactics, "[[tactic]]\naxis = 'data'\ntile = { 'x' = 0 }\n").expect("a file");
    let paths = [&model, &tactics, &folder.path().join("trace.json")].map(|path| path.display().to_string());
    let arguments = ["simulate", &paths[0], "--cluster", "1xh100", "--mesh", "data=1", "--tactics", &paths[1]];
    printed(&[&arguments[..], &["--trace", &paths[2], "--json"]].concat());
    let trace: Value = serde_json::from_slice(&fs::read(&paths[2]).expect("a trace")).expect("a trace is JSON");
    let events = trace["traceEvents"].as_array().expect("a list of events");
    let is_quoted = |event: &Value| event["name"].as_str().is_some_and(|name| name.contains("a \"quoted\"\\scope"));
    assert!(events.iter().any(is_quoted), "{events:#?}");
}

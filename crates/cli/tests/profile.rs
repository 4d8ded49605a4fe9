//! The JSON that other programs read.

mod json;

use json::{check_keys, printed};
use serde_json::Value;

const GPT: [&str; 14] = [
    "--set",
    "layers=2",
    "--set",
    "hidden=32",
    "--set",
    "heads=4",
    "--set",
    "ffn=64",
    "--set",
    "seq=16",
    "--set",
    "vocab=64",
    "--set",
    "batch=8",
];

fn run(arguments: &[&str]) -> Value {
    printed(&[&["profile", "gpt2", "--json"], &GPT[..], arguments].concat())
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number in {object:#}"))
}

fn list<'v>(object: &'v Value, key: &str) -> &'v [Value] {
    object[key].as_array().unwrap_or_else(|| panic!("`{key}` is no list in {object:#}"))
}

#[test]
fn profile_has_the_keys_that_others_read() {
    for memory in ["fused", "eager"] {
        let found = run(&["--memory", memory]);
        check_keys(&found, &["flops", "parameters", "parameter_bytes", "argument_bytes", "output_bytes", "temp_bytes"]);
        check_keys(&found, &["peak_bytes", "saved_activation_bytes", "seconds", "modules", "timeline", "buffers"]);
        check_keys(&found, &["forward_backward_peak_bytes", "optimizer_peak_bytes", "memory", "phases", "ops", "peak"]);
        assert_eq!(found["memory_model"], memory);
        for phase in ["forward", "backward", "update"] {
            check_keys(&found["phases"][phase], &["flops", "bytes_read", "bytes_written", "ops"]);
        }
        for buffer in list(&found, "buffers") {
            check_keys(buffer, &["name", "type", "class", "bytes", "holds"]);
        }
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    for memory in ["fused", "eager"] {
        let found = run(&["--memory", memory, "--buffers", "1000000"]);
        let peak = number(&found, "peak_bytes");
        let classes = found["memory"].as_object().expect("an object");
        assert_eq!(classes.values().filter_map(Value::as_f64).sum::<f64>(), peak);
        assert_eq!(list(&found, "buffers").iter().map(|buffer| number(buffer, "bytes")).sum::<f64>(), peak);
        assert_eq!(list(&found, "timeline").iter().filter_map(Value::as_f64).fold(0.0, f64::max), peak);
        let phases = found["phases"].as_object().expect("an object");
        let flops: f64 = phases.values().map(|phase| number(phase, "flops")).sum();
        assert_eq!(flops, number(&found, "flops"));
        check_module(&found["modules"]);
        for key in ["flops", "parameters", "parameter_bytes", "ops", "saved_activation_bytes"] {
            assert_eq!(number(&found["modules"], key), number(&found, key), "{key}");
        }
        // Embedding, positions, two layers, and the last norm.
        assert_eq!(number(&found, "parameters"), 64.0 * 32.0 + 16.0 * 32.0 + 2.0 * layer(32.0, 64.0) + 64.0);
    }
}

/// The parameters of a layer: two norms, four products of attention, two of the dense part, each with a bias.
fn layer(hidden: f64, ffn: f64) -> f64 {
    4.0 * hidden + 4.0 * (hidden * hidden + hidden) + 2.0 * hidden * ffn + hidden + ffn
}

/// What modules inside have is no more than what the one around them has.
fn check_module(module: &Value) {
    for key in ["flops", "forward_flops", "backward_flops", "update_flops", "parameters", "ops"] {
        let inside: f64 = list(module, "modules").iter().map(|inner| number(inner, key)).sum();
        assert!(inside <= number(module, key), "{key} of {}: {inside}", module["name"]);
    }
    list(module, "modules").iter().for_each(check_module);
}

#[test]
fn the_tree_is_as_deep_as_asked_for() {
    let depth = |arguments: &[&str]| levels(&run(arguments)["modules"]);
    assert_eq!((depth(&["--depth", "0"]), depth(&["--depth", "2"]), depth(&[])), (0, 2, 4));
}

fn levels(module: &Value) -> usize {
    list(module, "modules").iter().map(|inner| 1 + levels(inner)).max().unwrap_or(0)
}

#[test]
fn the_timeline_is_short() {
    let found = run(&["--set", "layers=12"]);
    assert!(number(&found, "steps") > 200.0, "{}", found["steps"]);
    assert_eq!(list(&found, "timeline").len(), 200);
}

#[test]
fn a_device_has_its_part() {
    let tactics = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/partition.in/tactics.toml");
    let (whole, part) = (run(&[]), run(&["--mesh", "data=2,model=4", "--tactics", tactics]));
    assert_eq!((&part["mesh"], &part["devices"]), (&"data=2,model=4".into(), &8.into()));
    for key in ["flops", "parameters", "argument_bytes", "temp_bytes", "peak_bytes"] {
        let ratio = number(&part, key) / number(&whole, key);
        assert!((0.1..0.5).contains(&ratio), "{key}: {ratio}");
    }
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let mut runs = [run(&[]), run(&[])];
    runs.iter_mut().for_each(|found| _ = found.as_object_mut().expect("an object").remove("seconds"));
    assert_eq!(runs[0].to_string(), runs[1].to_string());
}

//! The JSON that other programs read.

mod json;

use json::{check_keys, printed};
use serde_json::Value;

fn run(arguments: &[&str], tactics: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/partition.in/");
    let tactics = format!("{path}{tactics}");
    printed(&[arguments, &SMALL[..], &["--json", "--tactics", &tactics]].concat())
}

const SMALL: [&str; 16] = [
    "--set",
    "layers=2",
    "--set",
    "hidden=16",
    "--set",
    "heads=4",
    "--set",
    "kv_heads=4",
    "--set",
    "ffn=32",
    "--set",
    "seq=8",
    "--set",
    "vocab=32",
    "--set",
    "batch=8",
];

#[test]
fn partition_has_the_keys_that_others_read() {
    let found = run(&["partition", "llama2-7b", "--mesh", "data=2,model=4"], "tactics.toml");
    let kinds = ["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute"];
    check_keys(&found, &["collectives", "scalar_collectives", "bytes_moved", "peak_bytes", "communication_seconds"]);
    check_keys(&found, &["tactics", "reshards", "conflicts", "arguments", "results", "mesh", "devices", "seconds"]);
    check_keys(&found["collectives"], &kinds);
    assert_eq!(found["devices"], 8);
    let tactics = found["tactics"].as_array().expect("a list");
    assert_eq!(tactics.len(), 3);
    for tactic in tactics {
        check_keys(tactic, &["name", "collectives", "bytes_moved", "peak_bytes", "communication_seconds", "notes"]);
        check_keys(&tactic["collectives"], &kinds);
    }
    assert_eq!(tactics[2]["collectives"], found["collectives"]);
    assert_eq!((&found["collectives"]["all_gather"], &found["collectives"]["all_reduce"]), (&31.into(), &14.into()));
    let reshards = found["reshards"].as_array().expect("a list");
    assert!(reshards.iter().any(|reshard| reshard["bytes"].as_f64() > Some(0.0)));
    for reshard in reshards {
        check_keys(reshard, &["op", "location", "value", "from", "to", "steps", "bytes", "reason"]);
    }
    for stored in ["arguments", "results"].into_iter().flat_map(|key| found[key].as_array().expect("a list")) {
        check_keys(stored, &["name", "type", "local_type", "sharding"]);
    }
}

#[test]
fn conflicts_name_both_tactics() {
    let found = run(&["partition", "llama2-7b", "--mesh", "model=4"], "sequence.toml");
    let conflicts = found["conflicts"].as_array().expect("a list");
    for conflict in conflicts {
        check_keys(conflict, &["op", "location", "axis", "value", "dim", "wanted_by", "taken_by"]);
    }
    let is_between = |conflict: &Value| conflict["wanted_by"] == "SP" && conflict["taken_by"] == "MP";
    assert!(conflicts.iter().any(is_between), "{conflicts:#?}");
}

#[test]
fn stages_add_up_to_what_is_told_of_all() {
    let found = run(&["partition", "llama2-7b", "--mesh", "data=2,micro=2@time"], "../pipeline.in/stages.toml");
    check_keys(&found, &["collectives", "scalar_collectives", "bytes_moved", "peak_bytes", "communication_seconds"]);
    check_keys(&found, &["tactics", "mesh", "devices", "seconds", "stages", "microbatches", "schedule"]);
    let stages = found["stages"].as_array().expect("a list of stages");
    assert_eq!((stages.len(), &found["devices"]), (2, &Value::from(4)));
    for stage in stages {
        check_keys(stage, &["collectives", "bytes_moved", "peak_bytes", "chunks", "pieces", "sends", "sent_bytes"]);
    }
    let count = |value: &Value| value["collectives"]["all_reduce"].as_u64().expect("a number");
    assert_eq!(count(&found), stages.iter().map(count).sum::<u64>());
    assert!(count(&found) > 0);
}

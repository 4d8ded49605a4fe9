//! The JSON that other programs read, from recorded measurements.
#![cfg(unix)]

mod json;

use std::env;

use json::{check_keys, printed};

#[test]
fn calibrate_has_the_keys_that_others_read() {
    // The interpreter reads what it prints from the folder it runs in.
    env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/calibrate.in")).expect("the folder is there");
    let found = printed(&["calibrate", "--python", "./recorded-python", "--json"]);
    check_keys(&found, &["engine", "device", "system", "measured", "call_seconds", "efficiency", "cluster", "seconds"]);
    let kinds = ["launches", "short_chains", "long_chains", "products", "collectives"];
    check_keys(&found["measured"], &kinds);
    for kind in kinds {
        let kind = &found["measured"][kind];
        check_keys(kind, &["times", "noise", "median_log_error", "worst_log_error"]);
        assert!(kind["median_log_error"].as_f64() <= kind["worst_log_error"].as_f64(), "{kind}");
    }
    let lines = include_str!("cmd/calibrate.in/recorded.jsonl").lines().count();
    let times: Option<u64> = kinds.iter().map(|kind| found["measured"][kind]["times"].as_u64()).sum();
    assert_eq!(times, Some(lines as u64 - 1), "every line but the first is a measurement");
    assert_eq!(found["cluster"]["devices"], 2);
}

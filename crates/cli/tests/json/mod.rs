//! The JSON that other programs read, as commands print it.

use std::process::Command;

use serde_json::Value;

/// What the command prints with these arguments.
pub(crate) fn printed(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_meshwright")).args(arguments).output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

#[track_caller]
pub(crate) fn check_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "`{key}` is missing in {object:#}");
    }
}

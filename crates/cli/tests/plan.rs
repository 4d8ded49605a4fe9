//! Plans as files: what is written keeps to the schema, and what is read back is the same plan.

mod json;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use json::{check_keys, printed};
use serde_json::Value;

/// A step that is cut over nodes and devices and recomputes, one in microbatches, one in slices, one with state on the host,
/// one in stages, and one in stages of different sizes.
const MODEL: &str =
    "gpt2 --set layers=4 --set hidden=1024 --set heads=16 --set seq=512 --set vocab=8192 --set batch=64";
const CASES: [&str; 6] = [
    "--cluster 2x2xv100-16g --memory 3500MiB --microbatches 1",
    "--cluster 4xv100-16g --memory 4GiB",
    "--cluster 1xa100-80g --memory 7GiB --microbatches 1",
    "--cluster 1xa100-80g --memory 2000MiB --microbatches 16",
    "--cluster 4xv100-16g --stages 2 --microbatches 8",
    "--cluster 3xv100-16g --stages 2 --microbatches 8",
];

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_meshwright")).args(arguments).output().expect("the command runs")
}

/// Plans and writes the plan; gives what is printed.
fn plan(case: &str, path: &Path) -> Value {
    let shown = path.display().to_string();
    printed(&[&["plan"], &words(MODEL)[..], &words(case)[..], &["--json", "-o", &shown]].concat())
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a plan")).expect("a plan is JSON")
}

/// Checks a value against the part of JSON schema that the schema of plans uses, and collects the keys that are used.
fn validate(root: &Value, schema: &Value, value: &Value, place: &str, used: &mut BTreeSet<String>) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{place}: no {name}"));
        return validate(root, target, value, place, used);
    }
    let is_of = |ty: &str| match ty {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => panic!("{place}: type {ty}"),
    };
    let types = match &schema["type"] {
        Value::String(ty) => vec![ty.as_str()],
        types => types.as_array().expect("a type").iter().filter_map(Value::as_str).collect(),
    };
    assert!(types.iter().any(|ty| is_of(ty)), "{place}: {value} is not of type {types:?}");
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        assert!(choices.contains(value), "{place}: {value} is none of {choices:?}");
    }
    if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Value::as_f64), value.as_f64()) {
        assert!(number >= least, "{place}: {number} is less than {least}");
    }
    for item in value.as_array().into_iter().flatten() {
        validate(root, &schema["items"], item, &format!("{place}[]"), used);
    }
    let Some(object) = value.as_object() else { return };
    for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(object.contains_key(key.as_str().expect("a key")), "{place}: no {key}");
    }
    for (key, inner) in object {
        let place = format!("{place}.{key}");
        match schema.get("properties").and_then(|properties| properties.get(key)) {
            Some(property) => {
                used.insert(place.clone());
                validate(root, property, inner, &place, used);
            }
            None => {
                let others = schema.get("additionalProperties").filter(|others| others.is_object());
                validate(root, others.unwrap_or_else(|| panic!("{place} is not in the schema")), inner, &place, used);
            }
        }
    }
}

/// All keys of a schema.
fn keys(schema: &Value, place: &str, all: &mut BTreeSet<String>) {
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let place = format!("{place}.{key}");
        keys(property, &place, all);
        all.insert(place);
    }
    if let Some(items) = schema.get("items") {
        keys(items, &format!("{place}[]"), all);
    }
}

#[test]
fn plans_keep_to_the_schema_and_use_all_of_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/plan.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).expect("a schema")).expect("the schema is JSON");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut used, mut all) = (BTreeSet::new(), BTreeSet::new());
    for (number, case) in CASES.iter().enumerate() {
        let path = folder.path().join(format!("{number}.json"));
        plan(case, &path);
        validate(&schema, &schema, &read(&path), "", &mut used);
    }
    keys(&schema, "", &mut all);
    assert_eq!(used, all);
}

#[test]
fn a_plan_read_back_simulates_and_partitions_to_what_was_planned() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, case) in CASES.iter().enumerate() {
        let path = folder.path().join(format!("{number}.json"));
        let planned = plan(case, &path);
        check_keys(&planned, &["fits", "lower_bound_seconds", "search_gap", "planning_seconds", "alternatives"]);
        let (shown, cluster) = (path.display().to_string(), words(case)[1]);
        let simulated =
            printed(&[&["simulate"], &words(MODEL)[..], &["--cluster", cluster, "--plan", &shown, "--json"]].concat());
        for key in ["step_seconds", "peak_bytes", "mfu", "hfu", "mesh", "time", "memory"] {
            assert_eq!(simulated[key], planned[key], "{key} of {case}");
        }
        let partitioned = printed(&[&["partition"], &words(MODEL)[..], &["--plan", &shown, "--json"]].concat());
        for (kind, count) in planned["collectives"].as_object().expect("kinds of collectives") {
            assert_eq!(&partitioned["collectives"][kind], count, "{kind} of {case}");
        }
        // Another run writes the same bytes, and replaces a file only where it may.
        let before = fs::read(&path).expect("a plan");
        let again = [&["plan"], &words(MODEL)[..], &words(case)[..], &["-o", &shown]].concat();
        assert_eq!(run(&again).status.code(), Some(2));
        assert_eq!(run(&[&again[..], &["--force"]].concat()).status.code(), Some(0));
        assert!(before == fs::read(&path).expect("a plan"), "another plan for {case}");
    }
}

/// Every way to spoil a plan ends with code 2 and a reason, never with a panic.
#[test]
fn spoiled_plans_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, spoiled) = (folder.path().join("good.json"), folder.path().join("spoiled.json"));
    plan(CASES[0], &good);
    let object = read(&good);
    let shown = spoiled.display().to_string();
    let check = |expected: &str, text: &str| {
        fs::write(&spoiled, text).expect("a file");
        let output =
            run(&[&["simulate"], &words(MODEL)[..], &["--cluster", "2x2xv100-16g", "--plan", &shown]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(expected), "`{told}` for `{expected}`");
    };
    let with = |pointer: &str, value: Value| {
        let mut changed = object.clone();
        *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
        changed.to_string()
    };
    check("line 1, column", "{");
    check("it has no version", "{}");
    check("missing field `model`", "{\"meshwright_plan\": 1}");
    check("it is of version 2", &with("/meshwright_plan", 2.into()));
    check("invalid type", &with("/microbatches", "two".into()));
    check("a batch of 64 is not cut into 7 microbatches", &with("/microbatches", 7.into()));
    check("is no axis of `a=4`", &with("/mesh", "a=4".into()));
    check("is no axis", &with("/mesh", "four".into()));
    check("dimensions, 1 are told", &with("/arguments/0/stored", "[{}]".into()));
    check("is not how a value lies", &with("/arguments/0/stored", "cut".into()));
    check("`x-1` is no number", &with("/strategies/0/ops", "x-1".into()));
    check("beyond", &with("/strategies/0/ops", "0-4000000000".into()));
    check("told twice", &with("/strategies/1", object["strategies"][0].clone()));
    check("has no factor", &with("/strategies/0/factors", serde_json::json!({ "z9": "node" })));
    check("is no name of a factor", &with("/strategies/0/factors", serde_json::json!({ "Q": "node" })));
    check("results, 0 are told", &with("/strategies/0/results", serde_json::json!([])));
    check("beyond", &with("/recomputed/0/ops", "99999999".into()));
    check("a plan for another program", &with("/model/fingerprint", "0".into()));
    check("there is no engine `none`", &with("/engine", "none".into()));
    check("its cluster", &with("/cluster/file", serde_json::json!(["name = 3"])));
    let uneven = folder.path().join("uneven.json");
    plan(CASES[5], &uneven);
    let mut staged = read(&uneven);
    staged["stages"]["meshes"] = serde_json::json!(["device=1", "device=3"]);
    check("`device=3` is no mesh of a stage", &staged.to_string());
    staged["stages"]["meshes"] = serde_json::json!(["device=1"]);
    check("it tells the meshes of 1 stages, and there are 2", &staged.to_string());
}

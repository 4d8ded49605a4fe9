//! The profiler beside what XLA says of the programs that it compiled (`tests/profile/xla.json`).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use meshwright::import::import;
use meshwright::lower::estimate;
use meshwright::models::Model;
use meshwright::profile::{MemoryModel, profile, work};
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::tactics::{parse, partition};
use serde_json::Value;

/// What programs below this size need is decided by what is too small for libraries.
const SMALLEST: f64 = 5e6;

#[test]
fn temporary_memory_is_near_what_xla_allocates() {
    let mut errors: Vec<(f64, String)> = Vec::new();
    for row in rows() {
        let expected = number(&row, "temp_bytes");
        if expected >= SMALLEST {
            let found = profile(&program(&row), MemoryModel::Fused).memory.temporary_bytes() as f64;
            errors.push((found / expected - 1.0, row["name"].as_str().unwrap_or_default().to_owned()));
        }
    }
    errors.sort_by(|left, right| left.0.abs().total_cmp(&right.0.abs()));
    let table: Vec<String> = errors.iter().map(|(error, name)| format!("{:+6.1}% {name}", 100.0 * error)).collect();
    let median = errors[errors.len() / 2].0.abs();
    let near = errors.iter().filter(|(error, _)| error.abs() <= NEAR).count() as f64 / errors.len() as f64;
    let farthest = errors[errors.len() - 1].0.abs();
    let is_near = median <= MEDIAN && near >= MOST && farthest <= FARTHEST;
    assert!(errors.len() > 80 && is_near, "{median} {near}\n{}", table.join("\n"));
}

const MEDIAN: f64 = 0.012;
const NEAR: f64 = 0.15;
/// Some programs that recompute are farther off.
const MOST: f64 = 0.95;
/// None is farther off than this.
const FARTHEST: f64 = 0.2;

/// XLA counts the body of a loop once, so only programs without loops are compared.
#[test]
fn work_is_what_xla_counts() {
    let (mut compared, mut near) = (0, 0);
    for row in rows() {
        let program = program(&row);
        let loops = program.ops.iter().filter(|(_, op)| matches!(op.op, meshwright::program::Op::While)).count();
        if loops > 0 || number(&row, "temp_bytes") < SMALLEST {
            continue;
        }
        let found: f64 = program.ops.ids().map(|op| work(&program, op).total()).sum();
        let error = found / number(&row, "flops") - 1.0;
        assert!(error.abs() <= LARGEST_WORK_ERROR, "{}: {:+.1}%", row["name"], 100.0 * error);
        compared += 1;
        near += usize::from(error.abs() <= NEAR_WORK);
    }
    assert!(compared > 40 && near * 10 >= compared * 9, "{near} of {compared} are near");
}

const LARGEST_WORK_ERROR: f64 = 0.05;
/// Convolutions of small images, and long sequences, are farther off.
const NEAR_WORK: f64 = 0.02;

fn rows() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("tests/profile/xla.json")).expect("what XLA said");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    record["rows"].as_array().expect("rows").clone()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{} has no {key}", row["name"]))
}

fn program(row: &Value) -> Program {
    let model = &row["model"];
    let whole = match model["file"].as_str() {
        Some(file) => read(file),
        None => build(model),
    };
    let Some(mesh) = row["mesh"].as_str() else { return whole };
    let tactics = parse(row["tactics"].as_str().expect("tactics")).expect("tactics");
    let mesh = Mesh::parse(mesh).expect("a mesh");
    partition(&whole, &mesh, &tactics, &estimate).expect("the tactics apply").local.program
}

fn read(file: &str) -> Program {
    let mut text = String::new();
    let file = File::open(root().join(file)).expect("a program");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("text");
    import(&text.as_str().into()).program.expect("a program")
}

fn build(model: &Value) -> Program {
    let mut built = Model::preset(model["preset"].as_str().expect("a preset")).expect("a preset");
    for (key, value) in model["set"].as_object().expect("settings") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        built.set(key, &value).expect("a setting");
    }
    built.build().expect("the model is built")
}

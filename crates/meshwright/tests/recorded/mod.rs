//! Programs of which other tools have said what they cost (`tests/profile`), for tests and the benchmark.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meshwright::lower::estimate;
use meshwright::models::Model;
use meshwright::profile::{MemoryModel, Profile, profile};
use meshwright::program::{Program, expand_attention};
use meshwright::shard::Mesh;
use meshwright::tactics::{parse, partition};
use serde_json::Value;

use crate::common::{import_text, read_gzip};

/// A number that another tool said, and ours.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) name: String,
    pub(crate) truth: f64,
    pub(crate) found: f64,
}

impl Comparison {
    /// How far ours is off, in parts of the truth.
    pub(crate) fn error(&self) -> f64 {
        self.found / self.truth - 1.0
    }
}

/// What programs below this size need is decided by what is too small for libraries.
pub(crate) const SMALLEST: f64 = 5e6;

/// Something that others were asked about, and how our profile says it.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    /// The columns of the record that it is the sum of.
    keys: &'static [&'static str],
    of: fn(&Profile<'_>) -> f64,
}

pub(crate) const XLA: [Quantity; 1] = [Quantity {
    name: "temporary memory",
    keys: &["temp_bytes"],
    of: |profile| profile.memory.temporary_bytes() as f64,
}];

pub(crate) const TORCH: [Quantity; 4] = [
    Quantity {
        name: "peak of forward and backward",
        keys: &["forward_backward_peak_bytes"],
        of: |profile| profile.memory.forward_backward_bytes() as f64,
    },
    // The gradients are there besides what the update allocates.
    Quantity {
        name: "peak of update",
        keys: &["optimizer_peak_bytes", "parameter_bytes"],
        of: |profile| profile.memory.update_bytes() as f64,
    },
    Quantity {
        name: "saved activations",
        keys: &["saved_activation_bytes"],
        of: |profile| profile.memory.saved_activation_bytes() as f64,
    },
    Quantity { name: "work", keys: &["flops"], of: |profile| profile.flops(profile.work(None)) },
];

/// Every program that XLA compiled and that is not too small to tell, with the temporary memory of it.
pub(crate) fn against_xla() -> Vec<Comparison> {
    let rows = rows("xla.json").into_iter().filter(|row| number(row, "temp_bytes") >= SMALLEST);
    rows.flat_map(|row| compare(&row, MemoryModel::Fused, &XLA)).collect()
}

/// How a model in PyTorch attends: by one op, or by products of matrices and a softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    Whole,
    WrittenOut,
}

impl Attention {
    fn of(row: &Value) -> Attention {
        if row["attention"] == "plain" { Attention::WrittenOut } else { Attention::Whole }
    }
}

/// Every model that PyTorch ran and that attends so, a list for each of [`TORCH`].
pub(crate) fn against_torch(attention: Attention) -> [Vec<Comparison>; TORCH.len()] {
    let mut lists = TORCH.map(|_| Vec::new());
    for row in rows("torch.json").iter().filter(|row| Attention::of(row) == attention) {
        for (list, comparison) in lists.iter_mut().zip(compare(row, MemoryModel::Eager, &TORCH)) {
            list.push(comparison);
        }
    }
    lists
}

fn compare(row: &Value, memory_model: MemoryModel, quantities: &[Quantity]) -> Vec<Comparison> {
    let program = program(row);
    let profile = profile(&program, memory_model);
    let comparison = |quantity: &Quantity| Comparison {
        name: row["name"].as_str().unwrap_or_default().to_owned(),
        truth: quantity.keys.iter().map(|key| number(row, key)).sum(),
        found: (quantity.of)(&profile),
    };
    quantities.iter().map(comparison).collect()
}

/// The rows of a record.
pub(crate) fn rows(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("tests/profile").join(file)).expect("what others said");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    record["rows"].as_array().expect("rows").clone()
}

pub(crate) fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{} has no {key}", row["name"]))
}

/// The program of a row.
pub(crate) fn program(row: &Value) -> Program {
    let model = &row["model"];
    let whole = match model["file"].as_str() {
        Some(file) => read(file),
        None => build(model),
    };
    if Attention::of(row) == Attention::WrittenOut {
        return expand_attention(&whole).into_owned();
    }
    let Some(mesh) = row["mesh"].as_str() else { return whole };
    let tactics = parse(row["tactics"].as_str().expect("tactics")).expect("tactics");
    let mesh = Mesh::parse(mesh).expect("a mesh");
    let local = partition(&whole, &mesh, &tactics, &estimate).expect("the tactics apply").local;
    Arc::unwrap_or_clone(local.program)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> Program {
    let text = String::from_utf8(read_gzip(&root().join(file)).expect("a program")).expect("text");
    import_text(&text).expect("a program")
}

fn build(model: &Value) -> Program {
    let mut built = Model::preset(model["preset"].as_str().expect("a preset")).expect("a preset");
    for (key, value) in model["set"].as_object().expect("settings") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        built.set(key, &value).expect("a setting");
    }
    built.build().expect("the model is built")
}

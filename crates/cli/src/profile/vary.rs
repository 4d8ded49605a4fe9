//! What a preset costs at many sizes of batch and sequence.

use meshwright::codes::Code;
use meshwright::models::Model;
use meshwright::profile::{MemoryModel, Polynomial, SymbolicProfile, profile};
use serde_json::{Value, json};

use crate::error::Error;
use crate::table::{Table, count, flops, size};

/// Sizes to go through, as `--vary` gives them.
#[derive(Debug)]
pub(super) struct Sizes {
    batches: Vec<usize>,
    sequences: Vec<usize>,
}

/// What a model costs at one size.
struct Cost {
    batch: usize,
    seq: usize,
    flops: f64,
    saved_activation_bytes: f64,
    temporary_bytes: f64,
    peak_bytes: f64,
}

/// Costs at all sizes, and what the forward pass keeps as a formula.
pub(super) struct Costs {
    costs: Vec<Cost>,
    has_sequence: bool,
    kept: Option<Polynomial>,
}

impl Sizes {
    /// Reads `batch=1,2,4` and the like; what is not varied stays as the model has it.
    pub(super) fn parse(texts: &[String], model: &Model) -> Result<Sizes, Error> {
        let mut sizes = Sizes { batches: vec![model.settings.batch], sequences: vec![model.settings.seq] };
        for text in texts {
            let refuse = |reason: &str| {
                Error::new(Code::Vary, format!("`--vary {text}` {reason}")).hint("such as `--vary batch=1,2,4`")
            };
            let (key, list) = text.split_once('=').ok_or_else(|| refuse("is not of the form KEY=LIST"))?;
            let number = |item: &str| item.parse().ok().filter(|&number: &usize| number > 0);
            let numbers: Option<Vec<usize>> = list.split(',').map(number).collect();
            let numbers = numbers.ok_or_else(|| refuse("has a size that is no whole number above 0"))?;
            match key {
                "batch" => sizes.batches = numbers,
                "seq" if model.family.keys().contains(&"seq") => sizes.sequences = numbers,
                "seq" => return Err(refuse("changes a length that this model does not have")),
                _ => return Err(refuse("is neither `batch` nor `seq`, which are what costs are functions of")),
            }
        }
        Ok(sizes)
    }
}

impl Costs {
    pub(super) fn new(model: &Model, memory_model: MemoryModel, sizes: &Sizes) -> Result<Costs, Error> {
        let symbolic = SymbolicProfile::new(model, memory_model).ok();
        let mut costs = Vec::new();
        for &seq in &sizes.sequences {
            for &batch in &sizes.batches {
                let known = symbolic.as_ref().filter(|symbolic| symbolic.is_exact_at(batch, seq));
                costs.push(match known {
                    Some(symbolic) => evaluated(symbolic, batch, seq),
                    None => profiled(model, memory_model, batch, seq)?,
                });
            }
        }
        let exact = symbolic.filter(|_| memory_model == MemoryModel::Eager);
        let kept = exact.map(|symbolic| symbolic.saved_activation_bytes);
        Ok(Costs { costs, has_sequence: model.family.keys().contains(&"seq"), kept })
    }

    pub(super) fn to_text(&self, width: usize) -> String {
        let mut heading = vec!["batch", "seq", "operations", "kept for backward", "temporary", "at the peak"];
        if !self.has_sequence {
            heading.remove(1);
        }
        let mut table = Table::new(&heading);
        for cost in &self.costs {
            let seq = self.has_sequence.then(|| count(cost.seq));
            let bytes = [cost.saved_activation_bytes, cost.temporary_bytes, cost.peak_bytes];
            let sizes = bytes.map(|bytes| size(bytes.round() as usize));
            table.row([count(cost.batch)].into_iter().chain(seq).chain([flops(cost.flops)]).chain(sizes));
        }
        let kept = self.kept.map(|kept| format!("\nkept for backward = {}\n", formula(&kept)));
        table.render(width) + &kept.unwrap_or_default()
    }

    pub(super) fn to_json(&self) -> Value {
        let cost = |cost: &Cost| {
            json!({
                "batch": cost.batch,
                "seq": self.has_sequence.then_some(cost.seq),
                "flops": cost.flops,
                "saved_activation_bytes": cost.saved_activation_bytes.round() as usize,
                "temp_bytes": cost.temporary_bytes.round() as usize,
                "peak_bytes": cost.peak_bytes.round() as usize,
            })
        };
        json!({ "sizes": self.costs.iter().map(cost).collect::<Vec<_>>() })
    }
}

fn evaluated(symbolic: &SymbolicProfile, batch: usize, seq: usize) -> Cost {
    Cost {
        batch,
        seq,
        flops: symbolic.flops(batch, seq),
        saved_activation_bytes: symbolic.saved_activation_bytes.at(batch, seq),
        temporary_bytes: symbolic.temporary_bytes(batch, seq),
        peak_bytes: symbolic.peak_bytes(batch, seq),
    }
}

fn profiled(model: &Model, memory_model: MemoryModel, batch: usize, seq: usize) -> Result<Cost, Error> {
    let mut model = model.clone();
    (model.settings.batch, model.settings.seq) = (batch, seq);
    let program = model.build().map_err(Error::of(Code::Setting))?;
    let found = profile(&program, memory_model);
    Ok(Cost {
        batch,
        seq,
        flops: found.flops(found.work(None)),
        saved_activation_bytes: found.memory.saved_activation_bytes() as f64,
        temporary_bytes: found.memory.temporary_bytes() as f64,
        peak_bytes: found.memory.peak_bytes() as f64,
    })
}

/// A polynomial as people write it, the highest powers last.
fn formula(polynomial: &Polynomial) -> String {
    let variables = ["", " × batch"];
    let powers = ["", " × seq", " × seq²"];
    let mut terms = Vec::new();
    for (row, batch) in polynomial.terms.iter().zip(variables) {
        for (&term, seq) in row.iter().zip(powers) {
            let bytes = term.round();
            if bytes >= 1.0 {
                terms.push(format!("{}{batch}{seq}", size(bytes as usize)));
            }
        }
    }
    if terms.is_empty() { size(0) } else { terms.join(" + ") }
}

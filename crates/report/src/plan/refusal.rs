//! What is told where nothing fits.

use meshwright::plan::{Binding, TooLarge};
use meshwright::profile::Class;
use serde_json::{Map, Value, json};

use super::json::considered;
use super::text::phase_name;
use crate::table::{Table, count, paragraph, share, size};

/// As people read it.
pub fn refusal_text(large: &TooLarge, limit_bytes: u64, width: usize) -> String {
    let TooLarge { least_bytes, missing_bytes, closest, binding } = large;
    let verdict = format!(
        "Does not fit: the smallest plan found takes {} on a device, {} more than its {}\n\n",
        size(*least_bytes as usize),
        size(*missing_bytes as usize),
        size(limit_bytes as usize),
    );
    let at = if binding.scope.is_empty() { String::new() } else { format!(" at `{}`", binding.scope) };
    let mesh = if closest.mesh.axes.is_empty() { String::new() } else { format!(" ({})", closest.mesh) };
    let when = format!(
        "That plan{mesh} has most in memory in the {} pass, while `{}`{at} runs.",
        phase_name(binding.phase),
        binding.op,
    );
    let classes = classes(binding, *least_bytes, width);
    verdict + &paragraph(&when, "", "", width) + "\n" + &classes + "\n" + &largest(binding, *least_bytes, width)
}

/// The same as JSON.
pub fn refusal_json(large: &TooLarge, limit_bytes: u64) -> Value {
    json!({
        "fits": false,
        "memory_limit": limit_bytes,
        "least_bytes": large.least_bytes,
        "missing_bytes": large.missing_bytes,
        "closest": considered(&large.closest),
        "binding": binding_json(&large.binding),
    })
}
fn classes(binding: &Binding, peak_bytes: u64, width: usize) -> String {
    let mut table = Table::new(&["at the peak", "size", "share"]);
    let mut row = |name: &str, bytes: usize| {
        table.row([name.to_owned(), size(bytes), share(bytes as f64, peak_bytes as f64)]);
    };
    for (class, bytes) in Class::ALL.into_iter().zip(binding.by_class).filter(|(_, bytes)| *bytes > 0) {
        row(class.name(), bytes);
    }
    row("engine", binding.engine_bytes as usize);
    row("all", peak_bytes as usize);
    table.render(width)
}

fn largest(binding: &Binding, peak_bytes: u64, width: usize) -> String {
    let mut table = Table::new(&["what takes most", "class", "values", "size", "share"]).with_words(2);
    for held in &binding.largest {
        let share = share(held.bytes as f64, peak_bytes as f64);
        let class = held.class.name().to_owned();
        table.row([held.name.clone(), class, count(held.count), size(held.bytes as usize), share]);
    }
    table.render(width)
}

fn binding_json(binding: &Binding) -> Value {
    let classes = Class::ALL.into_iter().zip(binding.by_class);
    let mut memory: Map<String, Value> =
        classes.map(|(class, bytes)| (class.name().to_owned(), json!(bytes))).collect();
    memory.insert("engine".to_owned(), json!(binding.engine_bytes));
    let largest = binding.largest.iter().map(
        |held| json!({ "name": held.name, "class": held.class.name(), "values": held.count, "bytes": held.bytes }),
    );
    json!({
        "op": binding.op,
        "scope": binding.scope,
        "pass": phase_name(binding.phase),
        "memory": memory,
        "largest": largest.collect::<Vec<_>>(),
    })
}

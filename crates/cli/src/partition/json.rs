//! The summary as JSON.

use meshwright::lower::{CollectiveKind, Measures};
use meshwright::program::{Program, ValueId};
use serde_json::{Map, Value, json};

use super::{Stored, Summary};
use crate::place::{location, op_name};

impl Summary<'_> {
    pub(super) fn to_json(&self) -> Value {
        let measures = self.measures();
        let tactics: Vec<Value> = self
            .partitioned
            .feedback
            .iter()
            .map(|feedback| {
                json!({
                    "name": feedback.tactic,
                    "collectives": collectives(&feedback.measures),
                    "scalar_collectives": feedback.measures.scalar_collectives,
                    "bytes_moved": feedback.measures.bytes_moved,
                    "peak_bytes": feedback.measures.peak_bytes,
                    "communication_seconds": feedback.measures.communication_seconds,
                    "notes": feedback.notes,
                })
            })
            .collect();
        json!({
            "mesh": self.mesh.to_string(),
            "devices": self.mesh.devices(),
            "collectives": collectives(&measures),
            "scalar_collectives": measures.scalar_collectives,
            "bytes_moved": measures.bytes_moved,
            "peak_bytes": measures.peak_bytes,
            "communication_seconds": measures.communication_seconds,
            "tactics": tactics,
            "conflicts": self.conflicts_json(),
            "arguments": self.stored_json(&self.arguments()),
            "results": self.stored_json(&self.results()),
            "reshards": self.reshards_json(),
            "seconds": self.seconds,
        })
    }

    fn conflicts_json(&self) -> Vec<Value> {
        let conflicts = self.partitioned.conflicts.iter();
        conflicts
            .map(|conflict| {
                json!({
                    "op": op_name(self.program, conflict.op),
                    "location": location(self.program, conflict.op),
                    "axis": self.mesh.axes[self.mesh.axis_of(conflict.piece)].name,
                    "value": value_name(self.program, conflict.value),
                    "type": self.program.ty(conflict.value).to_string(),
                    "dim": conflict.dim,
                    "wanted_by": self.tactic(conflict.wanted_by),
                    "taken_by": self.tactic(conflict.taken_by),
                })
            })
            .collect()
    }

    fn stored_json(&self, values: &[Stored<'_>]) -> Vec<Value> {
        values
            .iter()
            .map(|stored| {
                json!({
                    "name": stored.name,
                    "type": stored.ty.to_string(),
                    "local_type": stored.sharding.local_type(self.mesh, stored.ty).to_string(),
                    "sharding": stored.sharding.describe(self.mesh),
                })
            })
            .collect()
    }

    fn reshards_json(&self) -> Vec<Value> {
        let reshards = self.partitioned.local.reshards.iter().zip(&self.partitioned.explanations);
        reshards
            .map(|(reshard, explanation)| {
                let to = reshard.moves.last().map_or(&reshard.from, |last| &last.to);
                let steps: Vec<String> = reshard.moves.iter().map(|next| next.step.describe(self.mesh)).collect();
                json!({
                    "op": explanation.op.map(|op| op_name(self.program, op)),
                    "location": explanation.op.and_then(|op| location(self.program, op)),
                    "value": value_name(self.program, reshard.value),
                    "type": self.program.ty(reshard.value).to_string(),
                    "from": reshard.from.describe(self.mesh),
                    "to": to.describe(self.mesh),
                    "steps": steps,
                    "bytes": explanation.bytes,
                    "reason": explanation.reason,
                })
            })
            .collect()
    }
}

pub(super) fn collectives(measures: &Measures) -> Value {
    let kinds = [
        CollectiveKind::AllGather,
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::CollectivePermute,
    ];
    let counts: Map<String, Value> =
        kinds.iter().map(|&kind| (kind.name().to_owned(), json!(measures.count(kind)))).collect();
    Value::Object(counts)
}

/// The name of an argument or result, or the number that `meshwright print` shows.
pub(super) fn value_name(program: &Program, value: ValueId) -> String {
    let body = program.body();
    let argument = body.arguments.iter().position(|&argument| argument == value);
    let result = body.results.iter().position(|&result| result == value);
    let name = argument
        .map(|index| &program.arguments[index].name)
        .or_else(|| result.map(|index| &program.results[index].name))
        .filter(|name| !name.is_empty());
    name.map_or_else(|| value.to_string(), Clone::clone)
}

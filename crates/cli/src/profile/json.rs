//! The summary as JSON.

use meshwright::profile::{Buffer, Holds, MemoryModel, Module};
use meshwright::program::{OpId, Phase};
use serde_json::{Map, Value, json};

use super::{PHASES, Summary, phase_name, present};
use crate::place::{location, module_of, op_name};

/// Points of the timeline, at most.
const POINTS: usize = 200;

impl Summary<'_> {
    pub(super) fn to_json(&self, depth: usize, buffers: usize) -> Value {
        let profile = &self.profile;
        let memory = &profile.memory;
        let classes: Map<String, Value> =
            present(self.at_peak()).map(|(class, bytes)| (class.name().to_owned(), json!(bytes))).collect();
        let phases: Map<String, Value> =
            PHASES.iter().map(|&phase| (phase_name(phase).to_owned(), self.phase_json(phase))).collect();
        let at_peak = self.buffers_at_peak();
        json!({
            "name": self.name,
            "memory_model": memory_model_name(profile.memory_model),
            "mesh": self.devices.as_ref().map(|devices| &devices.mesh),
            "devices": self.devices.as_ref().map_or(1, |devices| devices.count),
            "flops": number(self.flops(None)),
            "parameters": profile.parameters(),
            "parameter_bytes": self.parameter_bytes(),
            "argument_bytes": profile.argument_bytes(),
            "output_bytes": profile.output_bytes(),
            "temp_bytes": memory.temporary_bytes(),
            "peak_bytes": self.peak_bytes(),
            "saved_activation_bytes": memory.saved_activation_bytes(),
            "forward_backward_peak_bytes": memory.forward_backward_bytes(),
            "optimizer_peak_bytes": memory.update_bytes(),
            "memory": classes,
            "phases": phases,
            "ops": profile.ops.len(),
            "steps": memory.steps.len(),
            "peak": self.peak_json(),
            "timeline": self.points(POINTS),
            "buffers": at_peak.iter().take(buffers).map(|buffer| self.buffer_json(buffer)).collect::<Vec<_>>(),
            "modules": self.module_json(&profile.modules, depth),
            "seconds": self.seconds,
        })
    }

    fn phase_json(&self, phase: Phase) -> Value {
        let records = || self.profile.ops.iter().filter(|record| record.phase == phase);
        let work = self.profile.work(Some(phase));
        json!({
            "flops": number(self.profile.flops(work)),
            "matrix_flops": number(work.matrix),
            "ops": records().count(),
            "bytes_read": number(records().map(|record| record.bytes_read).sum()),
            "bytes_written": number(records().map(|record| record.bytes_written).sum()),
        })
    }

    /// Where in the step most is in memory.
    fn peak_json(&self) -> Value {
        let Some(step) = self.peak_step else { return Value::Null };
        let mut object = self.op_json(self.profile.memory.steps[step].op);
        object.insert("step".to_owned(), json!(step));
        Value::Object(object)
    }

    fn buffer_json(&self, buffer: &Buffer) -> Value {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(self.buffer_name(buffer)));
        object.insert("type".to_owned(), json!(self.buffer_type(buffer)));
        object.insert("class".to_owned(), json!(buffer.class.name()));
        object.insert("bytes".to_owned(), json!(buffer.bytes));
        let (holds, op) = match buffer.holds {
            Holds::Argument(_) => ("argument", None),
            Holds::Result(_) => ("result", None),
            Holds::Copy(_) => ("copy", None),
            Holds::Made(op) | Holds::Guest(op) => ("value", Some(op)),
            Holds::Scratch(op) => ("scratch", Some(op)),
        };
        object.insert("holds".to_owned(), json!(holds));
        object.insert("first_step".to_owned(), json!(buffer.life.start));
        object.insert("last_step".to_owned(), json!(buffer.life.end.saturating_sub(1)));
        object.extend(op.map(|op| self.op_json(op)).unwrap_or_default());
        Value::Object(object)
    }

    fn op_json(&self, op: OpId) -> Map<String, Value> {
        let program = self.program();
        let mut object = Map::new();
        object.insert("op".to_owned(), json!(op_name(program, op)));
        object.insert("module".to_owned(), json!(module_of(program, op)));
        object.insert("location".to_owned(), json!(location(program, op)));
        object.insert("phase".to_owned(), json!(phase_name(self.profile.anatomy.phase(op))));
        object
    }

    fn module_json(&self, module: &Module, depth: usize) -> Value {
        let inner = if depth > 0 { module.modules.as_slice() } else { &[] };
        let phase = |phase| number(self.profile.flops(module.work(phase)));
        json!({
            "name": module.name,
            "flops": number(self.profile.flops(module.total_work())),
            "forward_flops": phase(Phase::Forward),
            "backward_flops": phase(Phase::Backward),
            "update_flops": phase(Phase::Update),
            "parameters": module.parameters,
            "parameter_bytes": module.parameter_bytes,
            "saved_activation_bytes": module.saved_activation_bytes,
            "ops": module.ops,
            "modules": inner.iter().map(|inner| self.module_json(inner, depth.saturating_sub(1))).collect::<Vec<_>>(),
        })
    }
}

fn memory_model_name(model: MemoryModel) -> &'static str {
    match model {
        MemoryModel::Fused => "fused",
        MemoryModel::Ordered => "ordered",
        MemoryModel::Eager => "eager",
        MemoryModel::Tuned => "tuned",
        MemoryModel::Compiled => "compiled",
        MemoryModel::Plain => "plain",
        MemoryModel::Written => "written",
    }
}

/// Counts are whole numbers, and are written as such as long as they are exact.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && (0.0..=EXACT).contains(&value) { json!(value as u64) } else { json!(value) }
}

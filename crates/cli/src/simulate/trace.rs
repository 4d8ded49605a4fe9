//! What runs when, as trace events that Perfetto and Chrome open.

use meshwright::program::{OpId, Program};
use meshwright::simulate::{Prepared, Runner, SpanKind, StageSpan, run};
use meshwright_report::simulate::Simulation;
use serde_json::{Value, json};

use crate::place::{location, module_of, op_name};

/// Viewers become slow with more events than this.
const MOST_EVENTS: usize = 200_000;

/// The lanes of a stage.
const LANES: [&str; 4] = ["pieces", "kernels", "collectives", "messages"];
const PIECES: usize = 0;
const KERNELS: usize = 1;
const COLLECTIVES: usize = 2;
const MESSAGES: usize = 3;

/// The text of a trace, and how many events were left out of it.
pub(super) fn trace(prepared: &Prepared, simulation: &Simulation<'_>) -> (String, usize) {
    let mut events = Events { lines: Vec::new(), left_out: 0 };
    for stage in 0..simulation.stages().len() {
        events.name_stage(prepared, stage);
    }
    for stage in 0..simulation.stages().len() {
        events.add_stage(prepared, simulation, stage);
    }
    // What is inside of pieces comes last, so that it is left out first.
    for stage in 0..simulation.stages().len() {
        events.add_kernels(prepared, simulation, stage);
    }
    let text = format!("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n", events.lines.join(",\n"));
    (text, events.left_out)
}

struct Events {
    lines: Vec<String>,
    left_out: usize,
}

impl Events {
    fn push(&mut self, event: &Value) {
        if self.lines.len() < MOST_EVENTS {
            self.lines.push(event.to_string());
        } else {
            self.left_out += 1;
        }
    }

    fn name_stage(&mut self, prepared: &Prepared, stage: usize) {
        let pipeline = &prepared.pipeline;
        let devices = pipeline.devices_of(stage);
        let (first, last) = (devices.start, devices.end - 1);
        let which = if devices.len() == 1 { format!("device {first}") } else { format!("devices {first} to {last}") };
        let name = if pipeline.stages.len() == 1 { which } else { format!("stage {stage}, {which}") };
        self.push(&json!({ "ph": "M", "name": "process_name", "pid": stage, "args": { "name": name } }));
        self.push(&json!({ "ph": "M", "name": "process_sort_index", "pid": stage, "args": { "sort_index": stage } }));
        for (lane, name) in LANES.iter().enumerate() {
            let (of_name, of_order) = (json!({ "name": name }), json!({ "sort_index": lane }));
            self.push(&json!({ "ph": "M", "name": "thread_name", "pid": stage, "tid": lane, "args": of_name }));
            self.push(&json!({ "ph": "M", "name": "thread_sort_index", "pid": stage, "tid": lane, "args": of_order }));
        }
    }

    /// Pieces, messages and memory.
    fn add_stage(&mut self, prepared: &Prepared, simulation: &Simulation<'_>, number: usize) {
        let stage = &simulation.stages()[number];
        for span in &stage.spans {
            let name = match span.kind {
                SpanKind::Piece(_) if prepared.pipeline.pieces.len() == 1 => "step".to_owned(),
                SpanKind::Piece(piece) => prepared.pipeline.piece_name(piece),
                SpanKind::Send(to) => format!("send to stage {to}"),
                SpanKind::Wait(from) => format!("wait for stage {from}"),
                SpanKind::Accumulate => "accumulate".to_owned(),
            };
            let event =
                complete(&name, number, PIECES, (span.start, span.end), &json!({ "microbatch": span.microbatch }));
            self.push(&event);
        }
        for message in &stage.messages {
            let name = format!("to stage {}", message.to);
            let details = json!({ "microbatch": message.microbatch, "bytes": message.bytes });
            self.push(&complete(&name, number, MESSAGES, (message.start, message.end), &details));
        }
        for &(seconds, bytes) in &stage.usage {
            let time = microseconds(seconds);
            self.push(&json!({ "ph": "C", "name": "memory", "pid": number, "ts": time, "args": { "bytes": bytes } }));
        }
    }

    /// What runs inside of the pieces of the first microbatch, and of those that run once.
    fn add_kernels(&mut self, prepared: &Prepared, simulation: &Simulation<'_>, number: usize) {
        let device = simulation.cluster.device(prepared.pipeline.devices_of(number).start);
        let runner = Runner { cluster: simulation.cluster, device, engine: simulation.engine };
        for span in &simulation.stages()[number].spans {
            let StageSpan { kind: SpanKind::Piece(piece), microbatch: None | Some(0), start, early, .. } = *span else {
                continue;
            };
            let program = &prepared.pipeline.pieces[piece].program;
            for inner in run(runner, prepared.kernels(piece), early).spans {
                let lane = if inner.is_collective { COLLECTIVES } else { KERNELS };
                let time = (start + inner.start, start + inner.end);
                let name = kernel_name(program, inner.op);
                let details = json!({ "location": location(program, inner.op), "microbatch": span.microbatch });
                self.push(&complete(&name, number, lane, time, &details));
            }
        }
    }
}

/// An op with the modules around it, such as `dot_general layers.0.mlp.up`.
fn kernel_name(program: &Program, op: OpId) -> String {
    let name = op_name(program, op);
    module_of(program, op).map_or_else(|| name.to_owned(), |module| format!("{name} {module}"))
}

/// An event with a beginning and an end.
fn complete(name: &str, stage: usize, lane: usize, (start, end): (f64, f64), details: &Value) -> Value {
    // Both ends are rounded, so that what follows begins where what was before ends.
    let (time, length) = (microseconds(start), microseconds((nanoseconds(end) - nanoseconds(start)) / 1e9));
    json!({ "ph": "X", "name": name, "pid": stage, "tid": lane, "ts": time, "dur": length, "args": details })
}

/// Microseconds, in whole thousandths.
fn microseconds(seconds: f64) -> f64 {
    nanoseconds(seconds) / 1e3
}

fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}

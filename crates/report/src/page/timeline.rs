//! What runs when, stage by stage.

use std::collections::BTreeMap;
use std::sync::Arc;

use meshwright::program::{Id, Program};
use meshwright::simulate::{Run, Runner, SpanKind, StageSpan, run};
use serde::Serialize;

use super::tables::Tables;
use crate::place::op_name;
use crate::simulate::Summary;

/// All times are whole nanoseconds.
#[derive(Debug, Serialize)]
pub(super) struct TimelinePart {
    step: i64,
    /// What pieces run, each told once however often it runs.
    pieces: Vec<PiecePart>,
    stages: Vec<StagePart>,
}

#[derive(Debug, Serialize)]
struct PiecePart {
    kernels: Track,
    collectives: Track,
}

/// What one stream of a device runs, in order, from the beginning of the piece on.
#[derive(Debug, Default, Serialize)]
struct Track {
    /// From the end of the one before.
    gap: Vec<i64>,
    length: Vec<i64>,
    name: Vec<u32>,
    module: Vec<u32>,
}

#[derive(Debug, Default, Serialize)]
struct StagePart {
    /// 0 a piece, 1 a message that is waited for, 2 waiting, 3 summing up.
    kind: Vec<u8>,
    start: Vec<i64>,
    length: Vec<i64>,
    name: Vec<u32>,
    /// Of pieces, which; else -1.
    piece: Vec<i64>,
    /// -1 where there is none.
    microbatch: Vec<i64>,
    messages: MessagesPart,
}

#[derive(Debug, Default, Serialize)]
struct MessagesPart {
    to: Vec<usize>,
    start: Vec<i64>,
    length: Vec<i64>,
    bytes: Vec<usize>,
    microbatch: Vec<i64>,
}

/// The timeline, and for every kind of piece what runs inside of it.
pub(super) fn timeline(tables: &mut Tables, summary: &Summary<'_>) -> (TimelinePart, Vec<Run>) {
    let pipeline = &summary.step.prepared.pipeline;
    let simulation = summary.simulation;
    let mut pieces = Pieces { tables, summary, known: BTreeMap::new(), parts: Vec::new(), runs: Vec::new() };
    let mut stages = Vec::new();
    for (number, stage) in simulation.stages().iter().enumerate() {
        let mut part = StagePart::default();
        for span in &stage.spans {
            let (kind, name) = match span.kind {
                SpanKind::Piece(_) if pipeline.pieces.len() == 1 => (0, "step".to_owned()),
                SpanKind::Piece(piece) => (0, pipeline.piece_name(piece)),
                SpanKind::Send(to) => (1, format!("send to stage {to}")),
                SpanKind::Wait(from) => (2, format!("wait for stage {from}")),
                SpanKind::Accumulate => (3, "accumulate".to_owned()),
            };
            part.kind.push(kind);
            part.start.push(nanoseconds(span.start));
            part.length.push(nanoseconds(span.end) - nanoseconds(span.start));
            part.name.push(pieces.tables.strings.number(&name));
            part.piece.push(pieces.number(number, span));
            part.microbatch.push(microbatch(span.microbatch));
        }
        for message in &stage.messages {
            part.messages.to.push(message.to);
            part.messages.start.push(nanoseconds(message.start));
            part.messages.length.push(nanoseconds(message.end) - nanoseconds(message.start));
            part.messages.bytes.push(message.bytes);
            part.messages.microbatch.push(microbatch(message.microbatch));
        }
        stages.push(part);
    }
    let step = nanoseconds(simulation.timeline.step_seconds);
    (TimelinePart { step, pieces: pieces.parts, stages }, pieces.runs)
}

fn microbatch(number: Option<usize>) -> i64 {
    number.map_or(-1, |number| number as i64)
}

pub(super) fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// The kinds of pieces there are.
struct Pieces<'t, 's> {
    tables: &'t mut Tables,
    summary: &'s Summary<'s>,
    /// By program, device, and how early its collectives began.
    known: BTreeMap<(usize, String, u64), usize>,
    parts: Vec<PiecePart>,
    runs: Vec<Run>,
}

impl Pieces<'_, '_> {
    fn number(&mut self, stage: usize, span: &StageSpan) -> i64 {
        let SpanKind::Piece(piece) = span.kind else { return -1 };
        let (prepared, simulation) = (&self.summary.step.prepared, self.summary.simulation);
        let program = &prepared.pipeline.pieces[piece].program;
        let device = simulation.cluster.device(prepared.pipeline.devices_of(stage).start);
        let key = (Arc::as_ptr(program) as usize, device.name.to_string(), span.early.to_bits());
        if let Some(&number) = self.known.get(&key) {
            return number as i64;
        }
        let runner = Runner { cluster: simulation.cluster, device, engine: simulation.engine };
        let run = run(runner, prepared.kernels(piece), span.early);
        let places = self.tables.places(program);
        self.parts.push(PiecePart {
            kernels: track(self.tables, program, &places, &run, false),
            collectives: track(self.tables, program, &places, &run, true),
        });
        self.runs.push(run);
        self.known.insert(key, self.parts.len() - 1);
        self.parts.len() as i64 - 1
    }
}

fn track(tables: &mut Tables, program: &Program, places: &[u32], run: &Run, is_collective: bool) -> Track {
    let mut spans: Vec<_> = run.spans.iter().filter(|span| span.is_collective == is_collective).collect();
    spans.sort_by(|left, right| left.start.total_cmp(&right.start));
    let mut track = Track::default();
    let mut end = 0;
    for span in spans {
        let (start, until) = (nanoseconds(span.start), nanoseconds(span.end));
        track.gap.push(start - end);
        track.length.push(until - start);
        track.name.push(tables.strings.number(op_name(program, span.op)));
        track.module.push(places[program.ops[span.op].location.index()]);
        end = until;
    }
    track
}

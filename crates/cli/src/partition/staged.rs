//! The summary of a model in stages.

use std::fmt::Write;
use std::sync::Arc;

use meshwright::lower::{CollectiveKind, Measures};
use meshwright::pipeline::{Instruction, Pipeline, Pipelined, Role, StageMeasures};
use meshwright::program::Program;
use meshwright_report::simulate::stages_on_devices;
use serde_json::{Value, json};

use super::json::collectives;
use crate::table::{Table, count, paragraph, size};

pub(super) struct StagedSummary<'a> {
    pub(super) name: String,
    pub(super) pipelined: &'a Pipelined,
    pub(super) seconds: f64,
}

impl StagedSummary<'_> {
    fn pipeline(&self) -> &Pipeline {
        &self.pipelined.pipeline
    }

    /// The modules of the chunks of a stage.
    fn modules(&self, stage: usize) -> String {
        let stages = self.pipeline().stages.len();
        let own = self.pipelined.modules.iter().skip(stage).step_by(stages);
        own.map(String::as_str).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn to_text(&self, width: usize) -> String {
        let pipeline = self.pipeline();
        let plural = if pipeline.microbatches == 1 { "" } else { "es" };
        let mut text = format!(
            "{} in {}: {}, {} microbatch{plural}\n\n",
            self.name,
            stages_on_devices(pipeline),
            pipeline.schedule.name(),
            count(pipeline.microbatches),
        );
        let mut table =
            Table::new(&["stage", "sends", "sent", "collectives", "moved", "peak", "modules"]).ending_in_prose();
        for (stage, StageMeasures { measures, sends, sent_bytes }) in pipeline.stage_measures().iter().enumerate() {
            table.row([
                stage.to_string(),
                count(*sends),
                size(*sent_bytes),
                count(measures.collectives.iter().sum()),
                size(measures.bytes_moved as usize),
                size(measures.peak_bytes),
                self.modules(stage),
            ]);
        }
        text += &table.render(width);
        text += "\n";
        let facts = "Per device and step. `sent` goes to other stages, `moved` to other devices of the same stage.";
        text += &paragraph(facts, "", "", width);
        text + "\n" + &self.pieces(width) + &self.notes(width)
    }

    /// A row for every program, with the chunks that run it.
    fn pieces(&self, width: usize) -> String {
        let pipeline = self.pipeline();
        let mut table = Table::new(&["piece", "runs", "operations", "collectives of a run"]).ending_in_prose();
        let runs = runs(pipeline);
        let measures = pipeline.piece_measures();
        let is_same = |left: usize, right: usize| {
            let (left, right) = (&pipeline.pieces[left], &pipeline.pieces[right]);
            left.kind == right.kind && Arc::ptr_eq(&left.program, &right.program)
        };
        for index in 0..pipeline.pieces.len() {
            if (0..index).any(|before| is_same(before, index)) {
                continue;
            }
            let alike: Vec<usize> = (index..pipeline.pieces.len()).filter(|&other| is_same(index, other)).collect();
            let name = match alike.last() {
                Some(last) if alike.len() > 1 => {
                    let chunks = alike.len();
                    format!("{} to {}, {chunks} alike", pipeline.piece_name(index), pipeline.pieces[*last].chunk)
                }
                _ => pipeline.piece_name(index),
            };
            let kinds = CollectiveKind::ALL.iter().filter(|&&kind| measures[index].count(kind) > 0);
            let kinds: Vec<String> = kinds
                .map(|&kind| format!("{} {}", measures[index].count(kind), kind.name().replace('_', "-")))
                .collect();
            let operations = pipeline.pieces[index].program.body().ops.len();
            table.row([name, count(runs[index]), count(operations), kinds.join(", ")]);
        }
        table.render(width)
    }

    fn notes(&self, width: usize) -> String {
        let mut text = String::new();
        for feedback in &self.pipelined.feedback {
            for note in &feedback.notes {
                text += &paragraph(&format!("{}: {note}", feedback.tactic), "  ", "    ", width);
            }
        }
        if text.is_empty() { text } else { format!("\nnotes\n{text}") }
    }

    pub(super) fn to_json(&self) -> Value {
        let pipeline = self.pipeline();
        let sum = pipeline.measures();
        let tactics = self.pipelined.feedback.iter().map(|feedback| {
            let mut costs = costs(&feedback.measures);
            costs["name"] = json!(feedback.tactic);
            costs["notes"] = json!(feedback.notes);
            costs
        });
        let tactics = tactics.collect::<Vec<Value>>();
        let stages: Vec<Value> = pipeline
            .stage_measures()
            .iter()
            .enumerate()
            .map(|(stage, measures)| self.stage_json(stage, measures))
            .collect();
        let mut all = costs(&sum);
        all["mesh"] = json!(pipeline.mesh.to_string());
        all["devices"] = json!(pipeline.devices());
        all["microbatches"] = json!(pipeline.microbatches);
        all["schedule"] = json!(pipeline.schedule.name());
        all["tactics"] = json!(tactics);
        all["stages"] = json!(stages);
        all["seconds"] = json!(self.seconds);
        all
    }

    fn stage_json(&self, stage: usize, StageMeasures { measures, sends, sent_bytes }: &StageMeasures) -> Value {
        let pipeline = self.pipeline();
        let (stages, devices) = (pipeline.stages.len(), pipeline.devices_of(stage));
        let (runs, costs_of_run) = (runs(pipeline), pipeline.piece_measures());
        let own = (0..pipeline.pieces.len()).filter(|&piece| pipeline.pieces[piece].chunk % stages == stage);
        let pieces: Vec<Value> = own
            .map(|piece| {
                json!({
                    "chunk": pipeline.pieces[piece].chunk,
                    "kind": pipeline.pieces[piece].kind.name(),
                    "runs": runs[piece],
                    "collectives": collectives(&costs_of_run[piece]),
                })
            })
            .collect();
        let chunks: Vec<Value> = (stage..pipeline.chunk_count)
            .step_by(stages)
            .map(|chunk| json!({ "chunk": chunk, "modules": self.pipelined.modules[chunk] }))
            .collect();
        let mut stage_json = costs(measures);
        stage_json["stage"] = json!(stage);
        stage_json["devices"] = json!([devices.start, devices.end]);
        stage_json["chunks"] = json!(chunks);
        stage_json["pieces"] = json!(pieces);
        stage_json["sends"] = json!(sends);
        stage_json["sent_bytes"] = json!(sent_bytes);
        stage_json
    }
}

fn costs(measures: &Measures) -> Value {
    json!({
        "collectives": collectives(measures),
        "scalar_collectives": measures.scalar_collectives,
        "bytes_moved": measures.bytes_moved,
        "peak_bytes": measures.peak_bytes,
        "communication_seconds": measures.communication_seconds,
    })
}

/// How often every piece runs in a step.
fn runs(pipeline: &Pipeline) -> Vec<usize> {
    let mut runs = vec![0; pipeline.pieces.len()];
    for instruction in pipeline.stages.iter().flatten() {
        if let Instruction::Run { piece, .. } = instruction {
            runs[*piece] += 1;
        }
    }
    runs
}

/// The programs of all pieces, each once, with the buffers that they read and write, then the instructions
/// of all stages.
pub(super) fn emit(pipeline: &Pipeline) -> String {
    let mut text = String::new();
    let mut printed: Vec<(&Arc<Program>, usize)> = Vec::new();
    for (index, piece) in pipeline.pieces.iter().enumerate() {
        let name = pipeline.piece_name(index);
        let list = |buffers: &[usize]| buffers.iter().map(|&buffer| describe(pipeline, buffer)).collect::<Vec<_>>();
        let _ = writeln!(text, "// {name}");
        for read in list(&piece.reads) {
            let _ = writeln!(text, "//   reads {read}");
        }
        for write in list(&piece.writes) {
            let _ = writeln!(text, "//   writes {write}");
        }
        match printed.iter().find(|(program, _)| Arc::ptr_eq(program, &piece.program)) {
            Some((_, same)) => _ = writeln!(text, "//   runs what {} runs\n", pipeline.piece_name(*same)),
            None => {
                let _ = writeln!(text, "{}", piece.program);
                printed.push((&piece.program, index));
            }
        }
    }
    for line in pipeline.to_string().lines() {
        let _ = writeln!(text, "// {line}");
    }
    text
}

fn describe(pipeline: &Pipeline, buffer: usize) -> String {
    let info = &pipeline.buffers[buffer];
    let role = match info.role {
        Role::Argument(_) => "argument",
        Role::Result(_) => "result",
        Role::Activation => "activation",
        Role::Received => "received",
        Role::Gradient => "sum",
        Role::Made => "made once",
        Role::Number => "number of the microbatch",
    };
    format!("`{}` {} ({role})", info.name, info.ty)
}

//! What devices send each other: collectives as they run, and the reshards that they come from.

use meshwright::lower::{Explanation, Haste, LocalProgram, Movement, Reason, Reshard};
use meshwright::program::{Id, Program};
use meshwright::shard::Mesh;
use meshwright::simulate::{Runner, collective_costs, movement_seconds};
use serde::Serialize;

use super::program::Shardings;
use super::tables::Tables;
use crate::place::{location, op_name, short_type};
use crate::simulate::{Summary, collective_name};

/// Columns, one entry for every collective of every stage.
#[derive(Debug, Default, Serialize)]
pub(super) struct CollectivesPart {
    name: Vec<u32>,
    module: Vec<u32>,
    source: Vec<u32>,
    stage: Vec<usize>,
    devices: Vec<usize>,
    runs: Vec<usize>,
    /// Of one run.
    bytes: Vec<usize>,
    /// Of all runs.
    seconds: Vec<f64>,
}

pub(super) fn collectives_part(tables: &mut Tables, summary: &Summary<'_>) -> CollectivesPart {
    let (prepared, simulation) = (&summary.step.prepared, summary.simulation);
    let mut part = CollectivesPart::default();
    // Pieces in a row have the same program.
    let mut places: Option<(usize, Vec<u32>)> = None;
    for cost in collective_costs(prepared, simulation.cluster, simulation.engine) {
        let program = &prepared.pipeline.pieces[cost.piece].program;
        if places.as_ref().is_none_or(|(piece, _)| *piece != cost.piece) {
            places = Some((cost.piece, tables.places(program)));
        }
        let module = places.as_ref().map_or(0, |(_, places)| places[program.ops[cost.op].location.index()]);
        part.name.push(tables.strings.number(collective_name(cost.collective)));
        part.module.push(module);
        part.source.push(tables.strings.number(&location(program, cost.op).unwrap_or_default()));
        part.stage.push(cost.stage);
        part.devices.push(cost.devices);
        part.runs.push(cost.runs);
        part.bytes.push(cost.bytes);
        part.seconds.push(rounded(cost.seconds));
    }
    part
}

/// Columns, one entry for every reshard.
#[derive(Debug, Default, Serialize)]
pub(super) struct ReshardsPart {
    /// The op that makes or reads the value.
    op: Vec<u32>,
    module: Vec<u32>,
    source: Vec<u32>,
    #[serde(rename = "type")]
    ty: Vec<u32>,
    from: Vec<i32>,
    to: Vec<i32>,
    steps: Vec<u32>,
    reason: Vec<u32>,
    times: Vec<usize>,
    /// That a device sends, all times together.
    bytes: Vec<f64>,
    seconds: Vec<f64>,
}

/// What is resharded in a program that was laid out and lowered.
pub(super) struct Resharded<'r> {
    pub(super) program: &'r Program,
    pub(super) local: &'r LocalProgram,
    pub(super) explanations: &'r [Explanation],
}

pub(super) fn reshards_part(
    tables: &mut Tables,
    shardings: &mut Shardings,
    resharded: &Resharded<'_>,
    runner: Runner<'_>,
) -> ReshardsPart {
    let Resharded { program, local, explanations } = *resharded;
    let (mesh, trips) = (&local.mesh, program.trips());
    let places = tables.places(program);
    let mut part = ReshardsPart::default();
    for (reshard, explanation) in local.reshards.iter().zip(explanations) {
        let to = reshard.moves.last().map_or(&reshard.from, |last| &last.to);
        let steps: Vec<String> = reshard.moves.iter().map(|next| next.step.describe(mesh)).collect();
        let times = reshard.times.saturating_mul(trips.of_value(program, reshard.value));
        let strings = &mut tables.strings;
        let name = match (explanation.op, reshard.reason) {
            (Some(op), _) => op_name(program, op).to_owned(),
            (None, Reason::Stored { result }) => program.results[result].name.clone(),
            (None, Reason::Made { .. } | Reason::Read { .. }) => String::new(),
        };
        part.op.push(strings.number(&name));
        part.module.push(explanation.op.map_or(0, |op| places[program.ops[op].location.index()]));
        let source = explanation.op.and_then(|op| location(program, op)).unwrap_or_default();
        part.source.push(strings.number(&source));
        part.ty.push(strings.number(&short_type(program.ty(reshard.value))));
        part.from.push(shardings.number(mesh, &reshard.from));
        part.to.push(shardings.number(mesh, to));
        part.steps.push(strings.number(&steps.join(", ")));
        part.reason.push(strings.number(&explanation.reason));
        part.times.push(times);
        part.bytes.push(explanation.bytes);
        part.seconds.push(rounded(times as f64 * seconds(program, mesh, reshard, runner)));
    }
    part
}

/// Of one time, each step for itself.
fn seconds(program: &Program, mesh: &Mesh, reshard: &Reshard, runner: Runner<'_>) -> f64 {
    let ty = program.ty(reshard.value);
    let mut before = reshard.from.local_type(mesh, ty).bytes();
    let mut seconds = 0.0;
    for next in &reshard.moves {
        let after = next.to.local_type(mesh, ty).bytes();
        let haste = Haste::Awaited;
        let movement = Movement { step: &next.step, pieces: next.step.pieces(), before, after, haste };
        seconds += movement_seconds(runner, mesh, &movement);
        before = after;
    }
    seconds
}

/// Whole nanoseconds.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

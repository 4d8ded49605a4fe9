//! The collectives of a step, those alike told once.

use meshwright::cluster::Collective;
use meshwright::simulate::collective_costs;

use super::Summary;
use crate::names::collapse;
use crate::place::op_place;

/// Collectives of one kind at like places of the model, on the stage where they take longest.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    pub name: &'static str,
    pub place: String,
    pub devices: usize,
    pub stage: usize,
    pub runs: usize,
    /// Of all runs.
    pub bytes: usize,
    pub seconds: f64,
}

impl Summary<'_> {
    /// The dearest first.
    pub fn collectives(&self) -> Vec<Kind> {
        let (prepared, simulation) = (&self.step.prepared, self.simulation);
        let mut kinds: Vec<Kind> = Vec::new();
        for cost in collective_costs(prepared, simulation.cluster, simulation.engine) {
            let program = &prepared.pipeline.pieces[cost.piece].program;
            let place = op_place(program, cost.op).map(|place| collapse(&place)).unwrap_or_default();
            let name = name(cost.collective);
            let bytes = cost.bytes * cost.runs;
            let is_same = |kind: &&mut Kind| {
                (kind.name, kind.stage, kind.devices) == (name, cost.stage, cost.devices) && kind.place == place
            };
            match kinds.iter_mut().find(is_same) {
                Some(kind) => {
                    kind.runs += cost.runs;
                    kind.bytes += bytes;
                    kind.seconds += cost.seconds;
                }
                None => kinds.push(Kind {
                    name,
                    place,
                    devices: cost.devices,
                    stage: cost.stage,
                    runs: cost.runs,
                    bytes,
                    seconds: cost.seconds,
                }),
            }
        }
        kinds.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
        let mut dearest: Vec<Kind> = Vec::new();
        for kind in kinds {
            let is_same =
                |other: &Kind| (other.name, other.devices) == (kind.name, kind.devices) && other.place == kind.place;
            if !dearest.iter().any(is_same) {
                dearest.push(kind);
            }
        }
        dearest
    }
}

pub(crate) fn name(collective: Collective) -> &'static str {
    match collective {
        Collective::AllGather => "all-gather",
        Collective::AllReduce => "all-reduce",
        Collective::AllToAll => "all-to-all",
        Collective::Broadcast => "broadcast",
        Collective::CollectivePermute => "collective-permute",
        Collective::ReduceScatter => "reduce-scatter",
        Collective::Send => "send",
    }
}

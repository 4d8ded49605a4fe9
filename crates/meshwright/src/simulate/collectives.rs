//! What the collectives of a step take, one by one.

use super::engine::Engine;
use super::kernels::{Kernel, Task};
use super::prepare::Prepared;
use super::run::Runner;
use crate::cluster::{Cluster, Collective};
use crate::pipeline::Instruction;
use crate::program::OpId;

/// A collective of a step, on each device of its stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveCost {
    pub stage: usize,
    /// The piece whose program has it.
    pub piece: usize,
    /// Of several that are combined, the last.
    pub op: OpId,
    pub collective: Collective,
    /// How many devices meet.
    pub devices: usize,
    /// Of one run, as [`crate::cluster::estimate`] wants them.
    pub bytes: usize,
    pub runs: usize,
    /// Of all runs, whether anybody waits for them or not.
    pub seconds: f64,
}

/// All collectives of a step in the order of stages and pieces. Of branches all are told, though one runs.
pub fn collective_costs(prepared: &Prepared, cluster: &Cluster, engine: &Engine) -> Vec<CollectiveCost> {
    let pipeline = &prepared.pipeline;
    let mut costs = Vec::new();
    for (stage, list) in pipeline.stages.iter().enumerate() {
        let mut runs = vec![0; pipeline.pieces.len()];
        for instruction in list {
            if let Instruction::Run { piece, .. } = instruction {
                runs[*piece] += 1;
            }
        }
        let part = cluster.around(pipeline.devices_of(stage));
        let runner = Runner { cluster: &part, device: part.slowest_device(), engine };
        for (piece, runs) in runs.into_iter().enumerate().filter(|(_, runs)| *runs > 0) {
            let mut found = Found { runner, stage, piece, costs: &mut costs };
            found.add(prepared.kernels(piece), runs);
        }
    }
    costs
}

struct Found<'f> {
    runner: Runner<'f>,
    stage: usize,
    piece: usize,
    costs: &'f mut Vec<CollectiveCost>,
}

impl Found<'_> {
    fn add(&mut self, kernels: &[Kernel], runs: usize) {
        for kernel in kernels {
            match &kernel.task {
                Task::Collective { collective, pieces, bytes } => self.costs.push(CollectiveCost {
                    stage: self.stage,
                    piece: self.piece,
                    op: kernel.op,
                    collective: *collective,
                    devices: pieces.iter().map(|piece| piece.0).product(),
                    bytes: *bytes,
                    runs,
                    seconds: runs as f64 * self.runner.collective_seconds(*collective, pieces, *bytes),
                }),
                Task::Loop { body, trips } => self.add(body, runs * trips),
                Task::Branch(branches) => branches.iter().for_each(|branch| self.add(branch, runs)),
                Task::Chain | Task::Products(_) | Task::Attention(_) | Task::HostCopy { .. } => {}
            }
        }
    }
}

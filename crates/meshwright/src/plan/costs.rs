//! What computing and moving cost.

use super::work::Worker;
use crate::lower::{Movement, Price, Step};
use crate::profile::MemoryModel;
use crate::shard::Mesh;
use crate::simulate::{Runner, movement_seconds};

/// What labels cost, and what they are counted in.
#[derive(Clone, Copy)]
pub(super) struct Costs<'c> {
    /// `None` where computing costs nothing, but must not be done twice.
    pub(super) worker: Option<Worker<'c>>,
    pub(super) price: Price<'c>,
    /// Of gradients: nobody waits for them, so that engines move many at a time.
    pub(super) combined: Price<'c>,
    /// What it takes to copy a byte from the host.
    pub(super) host_seconds_per_byte: f64,
    /// Costs are told apart that differ by as much.
    pub(super) unit: f64,
    pub(super) memory_model: MemoryModel,
}

/// What a step takes as a part of larger ones, as engines combine those of gradients.
pub(super) fn combined_seconds(runner: Runner<'_>, mesh: &Mesh, movement: &Movement<'_>) -> f64 {
    let most = movement.before.max(movement.after).max(1);
    let is_combined =
        matches!(movement.step, Step::AllGather { .. } | Step::AllReduce { .. } | Step::ReduceScatter { .. });
    let times = if is_combined { (runner.engine.bucket_bytes / most).max(1) } else { 1 };
    let (before, after) = (times * movement.before, times * movement.after);
    movement_seconds(runner, mesh, &Movement { before, after, ..*movement }) / times as f64
}

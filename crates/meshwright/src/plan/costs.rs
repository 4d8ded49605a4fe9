//! What computing and moving cost.

use super::work::Worker;
use crate::lower::Price;
use crate::profile::MemoryModel;

/// What labels cost, and what they are counted in.
#[derive(Clone, Copy)]
pub(super) struct Costs<'c> {
    /// `None` where computing costs nothing, but must not be done twice.
    pub(super) worker: Option<Worker<'c>>,
    pub(super) price: Price<'c>,
    /// What it takes to copy a byte from the host.
    pub(super) host_seconds_per_byte: f64,
    /// Costs are told apart that differ by as much.
    pub(super) unit: f64,
    pub(super) memory_model: MemoryModel,
}

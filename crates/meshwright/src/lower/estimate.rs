//! A first estimate of what collectives cost: a start and a rate.

use super::reshard::{Movement, Step};
use crate::shard::Mesh;

/// Seconds before the first byte of a collective arrives. NCCL's small-message all-reduce within a
/// node takes 10 to 20 microseconds (nccl-tests, PERFORMANCE.md).
const START: f64 = 10e-6;
/// Bytes a second between devices: a fifth of NVLink 3's 600 GB/s (NVIDIA A100 datasheet), between
/// what a node and what a network reaches.
const RATE: f64 = 120e9;
/// Bytes a second through a device's own memory: 2,039 GB/s for an A100 80GB SXM (NVIDIA datasheet).
const MEMORY_RATE: f64 = 2.039e12;

/// The kinds of collectives that lowering emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollectiveKind {
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
}

impl CollectiveKind {
    pub const ALL: [CollectiveKind; 5] = [
        CollectiveKind::AllGather,
        CollectiveKind::AllReduce,
        CollectiveKind::AllToAll,
        CollectiveKind::CollectivePermute,
        CollectiveKind::ReduceScatter,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::CollectivePermute => "collective_permute",
            CollectiveKind::ReduceScatter => "reduce_scatter",
        }
    }
}

/// Seconds that a movement takes.
pub fn estimate(mesh: &Mesh, movement: &Movement<'_>) -> f64 {
    let Movement { step, pieces, before, after, .. } = *movement;
    let Some(kind) = step.collective() else {
        let read = if matches!(step, Step::Spread { .. }) { before } else { 0 };
        return (read + after) as f64 / MEMORY_RATE;
    };
    transfer_seconds(sent_bytes(kind, mesh.product(pieces), before, after))
}

impl Step {
    /// The collective that the step is, or `None` where devices do not talk to each other.
    pub fn collective(&self) -> Option<CollectiveKind> {
        match self {
            Step::AllGather { .. } => Some(CollectiveKind::AllGather),
            Step::AllReduce { .. } => Some(CollectiveKind::AllReduce),
            Step::AllToAll { .. } => Some(CollectiveKind::AllToAll),
            Step::Permute => Some(CollectiveKind::CollectivePermute),
            Step::ReduceScatter { .. } => Some(CollectiveKind::ReduceScatter),
            Step::Slice { .. } | Step::Spread { .. } => None,
        }
    }
}

/// Bytes that each device of a group sends by the algorithms that send least.
pub fn sent_bytes(kind: CollectiveKind, group: usize, before: usize, after: usize) -> f64 {
    let others = (group as f64 - 1.0) / group as f64;
    match kind {
        CollectiveKind::AllGather => others * after as f64,
        CollectiveKind::AllReduce => 2.0 * others * before as f64,
        CollectiveKind::AllToAll | CollectiveKind::ReduceScatter => others * before as f64,
        CollectiveKind::CollectivePermute => before as f64,
    }
}

/// Seconds that a collective takes in which a device sends so many bytes.
pub(super) fn transfer_seconds(sent: f64) -> f64 {
    START + sent / RATE
}

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

/// Seconds that a movement takes, with the bandwidth-optimal algorithms.
pub fn estimate(mesh: &Mesh, movement: &Movement<'_>) -> f64 {
    let Movement { step, pieces, before, after } = *movement;
    let group = mesh.product(pieces) as f64;
    // What each device sends, as a share of the larger side.
    let share = (group - 1.0) / group;
    let sent = match step {
        Step::AllGather { .. } => share * after as f64,
        Step::AllReduce { .. } => 2.0 * share * before as f64,
        Step::AllToAll { .. } => share * before as f64,
        Step::Permute => before as f64,
        Step::ReduceScatter { .. } => share * before as f64,
        Step::Slice { .. } => return after as f64 / MEMORY_RATE,
        Step::Spread { .. } => return (before + after) as f64 / MEMORY_RATE,
    };
    START + sent / RATE
}

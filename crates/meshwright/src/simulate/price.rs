//! What the steps of reshards take on a cluster.

use smallvec::SmallVec;

use super::run::Runner;
use crate::cluster::Collective;
use crate::lower::{CollectiveKind, Haste, Movement, Step};
use crate::shard::{Mesh, Piece};

/// Seconds of one step of a reshard: its share, where engines combine it with others as large.
pub fn movement_seconds(runner: Runner<'_>, mesh: &Mesh, movement: &Movement<'_>) -> f64 {
    let Movement { step, before, after, haste, .. } = *movement;
    let may_combine = matches!(step, Step::AllGather { .. } | Step::AllReduce { .. } | Step::ReduceScatter { .. });
    let times = match haste {
        Haste::Combined if may_combine => (runner.engine.bucket_bytes / before.max(after).max(1)).max(1),
        Haste::Awaited | Haste::Combined => 1,
    };
    let all = Movement { before: times * before, after: times * after, ..*movement };
    seconds_alone(runner, mesh, &all) / times as f64
}

fn seconds_alone(runner: Runner<'_>, mesh: &Mesh, movement: &Movement<'_>) -> f64 {
    let Movement { step, pieces, before, after, .. } = *movement;
    let (collective, bytes) = match step.collective() {
        Some(CollectiveKind::AllGather) => (Collective::AllGather, after),
        Some(CollectiveKind::AllReduce) => (Collective::AllReduce, before),
        Some(CollectiveKind::AllToAll) => (Collective::AllToAll, before),
        Some(CollectiveKind::CollectivePermute) => (Collective::CollectivePermute, before),
        Some(CollectiveKind::ReduceScatter) => (Collective::ReduceScatter, before),
        None => {
            let read = if matches!(step, Step::Spread { .. }) { before } else { 0 };
            let rate = runner.device.memory_bytes_per_second * runner.device.efficiency.memory;
            return (read + after) as f64 / rate;
        }
    };
    let level = |piece: Piece| (mesh.size(piece), mesh.stride(piece));
    let is_spatial = |piece: &Piece| !mesh.is_temporal(*piece);
    let levels: SmallVec<[(usize, usize); 8]> = match step {
        // Whoever has a part sends it to whoever needs it, anywhere.
        Step::Permute => mesh.all_pieces().filter(is_spatial).map(level).collect(),
        _ => pieces.iter().copied().map(level).collect(),
    };
    let host = runner.engine.collective_seconds;
    host + runner.collective_seconds(collective, &levels, bytes)
}

//! What collectives cost in Alpa's tests: a start and a rate of each dimension of the mesh, and a little more, so that
//! of ways that cost the same the plainest is cheapest.

use meshwright::lower::{CollectiveKind, Haste, Movement, Step};
use meshwright::program::{Program, ValueId};
use meshwright::shard::{Mesh, Sharding};
use meshwright::tactics::Partitioned;

/// Start and rate of the axes of a mesh, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prices {
    pub(crate) alpha: [f64; 2],
    pub(crate) beta: [f64; 2],
}

/// Costs more than any program here. Alpa knows no permutations, and gathers only what is stored in parts: where
/// reducing takes long along one dimension, lowering would rather reduce a part of a value and gather it along the
/// other, which is cheaper than what Alpa expects.
const DEAR: f64 = 1e9;

impl Prices {
    /// All devices of an axis together reduce so many bytes.
    pub(crate) fn all_reduce(&self, bytes: usize, devices: usize, axis: usize) -> f64 {
        self.collective(CollectiveKind::AllReduce, bytes, devices, axis)
    }

    /// `bytes` are those of the whole that a group of devices has or makes.
    fn collective(&self, kind: CollectiveKind, bytes: usize, devices: usize, axis: usize) -> f64 {
        let (bytes, n) = (bytes as f64, devices as f64);
        let share = (n - 1.0) / n;
        let (factor, more) = match kind {
            CollectiveKind::AllGather => (share, 0.1),
            CollectiveKind::AllReduce => (2.0 * share, 0.01),
            CollectiveKind::AllToAll => (share / n * (n / 2.0), 0.001),
            CollectiveKind::ReduceScatter => (share, 0.001),
            CollectiveKind::CollectivePermute => return DEAR,
        };
        self.alpha[axis] + self.beta[axis] * factor * bytes + more
    }

    /// What lowering finds the cheapest ways by.
    pub(crate) fn price(&self, mesh: &Mesh, movement: &Movement<'_>) -> f64 {
        let is_dear = matches!(movement.step, Step::AllGather { .. } | Step::Permute);
        self.cost(mesh, movement) + if is_dear { DEAR } else { 0.0 }
    }

    /// What a movement costs; along several axes, one after the other.
    pub(crate) fn cost(&self, mesh: &Mesh, movement: &Movement<'_>) -> f64 {
        let Some(kind) = movement.step.collective() else { return 0.0 };
        if kind == CollectiveKind::CollectivePermute {
            return DEAR;
        }
        let mut total = 0.0;
        for part in mesh.parts(movement.pieces) {
            let bytes = match kind {
                CollectiveKind::AllGather => movement.after,
                CollectiveKind::AllToAll => movement.before * part.size,
                CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::CollectivePermute => {
                    movement.before
                }
            };
            total += self.collective(kind, bytes, part.size, part.axis);
        }
        total
    }

    /// The sum of what all movements of a step cost. Alpa's steps give no loss, so numbers alone are left out.
    pub(crate) fn objective(&self, partitioned: &Partitioned) -> f64 {
        let (program, mesh) = (&partitioned.program, &partitioned.local.mesh);
        let mut total = 0.0;
        for reshard in &partitioned.local.reshards {
            if program.ty(reshard.value).elements() == 1 {
                continue;
            }
            let mut from = &reshard.from;
            for step in &reshard.moves {
                let bytes = |lies: &Sharding| local_bytes(program, mesh, reshard.value, lies);
                let (before, after) = (bytes(from), bytes(&step.to));
                let haste = Haste::Awaited;
                let movement = Movement { step: &step.step, pieces: step.step.pieces(), before, after, haste };
                total += reshard.times as f64 * self.cost(mesh, &movement);
                from = &step.to;
            }
        }
        total
    }
}

fn local_bytes(program: &Program, mesh: &Mesh, value: ValueId, lies: &Sharding) -> usize {
    lies.local_type(mesh, program.ty(value)).bytes()
}

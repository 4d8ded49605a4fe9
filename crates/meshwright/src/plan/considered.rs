//! Plans found on the way, told in few numbers.

use std::cmp::Ordering;

use super::sketch::{Frame, Outcome};
use crate::shard::Mesh;

/// A plan that was found on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// Of one stage.
    pub mesh: Mesh,
    pub stages: usize,
    pub microbatches: usize,
    pub step_seconds: f64,
    pub peak_bytes: u64,
}

/// Figures that differ by less than this share are taken for the same.
pub(super) const ALIKE: f64 = 1e-3;

impl Considered {
    pub(super) fn new(frame: &Frame, outcome: &Outcome) -> Considered {
        Considered {
            mesh: outcome.local.mesh.clone(),
            stages: 1,
            microbatches: frame.microbatches,
            step_seconds: outcome.timeline.step_seconds,
            peak_bytes: outcome.peak_bytes,
        }
    }

    /// Whether another says nothing that is not said by this one, which is no slower: it is the same by other names of
    /// axes, or on the same mesh and larger.
    fn covers(&self, other: &Considered) -> bool {
        let is_alike = |left: f64, right: f64| (left - right).abs() <= ALIKE * left.max(right);
        let is_same_plan = is_alike(self.step_seconds, other.step_seconds)
            && is_alike(self.peak_bytes as f64, other.peak_bytes as f64);
        let is_larger = self.mesh == other.mesh && self.peak_bytes <= other.peak_bytes;
        (self.stages, self.microbatches) == (other.stages, other.microbatches) && (is_same_plan || is_larger)
    }
}

/// The faster first; of equals the smaller, and the one with fewer names.
pub(super) fn by_time(left: &Considered, right: &Considered) -> Ordering {
    let names = |considered: &Considered| considered.mesh.axes.len();
    let memory = left.peak_bytes.cmp(&right.peak_bytes).then(names(left).cmp(&names(right)));
    left.step_seconds.total_cmp(&right.step_seconds).then(memory)
}

/// The fastest first, each once.
pub(super) fn distinct(mut all: Vec<Considered>) -> Vec<Considered> {
    all.sort_by(by_time);
    let mut kept: Vec<Considered> = Vec::new();
    for considered in all {
        if !kept.iter().any(|before| before.covers(&considered)) {
            kept.push(considered);
        }
    }
    kept
}

/// Those that no other beats in both time and memory, the fastest first, which takes the most.
pub(super) fn pareto(mut all: Vec<Considered>) -> Vec<Considered> {
    all.sort_by(by_time);
    let mut kept: Vec<Considered> = Vec::new();
    for considered in all {
        if kept.last().is_none_or(|before| considered.peak_bytes < before.peak_bytes) {
            kept.push(considered);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn considered(mesh: &str, microbatches: usize, step_seconds: f64, peak_bytes: u64) -> Considered {
        Considered { mesh: Mesh::parse(mesh).expect("a mesh"), stages: 1, microbatches, step_seconds, peak_bytes }
    }

    #[test]
    fn the_same_plan_by_other_names_is_told_once() {
        let [first, renamed] = ["device=4", "device0=2,device1=2"].map(|mesh| considered(mesh, 1, 1.0, 1000));
        let larger = considered("device=4", 1, 1.1, 2000);
        let smaller = considered("device=4", 1, 1.2, 500);
        let all = vec![renamed, smaller.clone(), larger, first.clone()];
        assert_eq!(distinct(all), [first, smaller]);
    }

    #[test]
    fn what_is_beaten_in_both_is_not_in_the_pareto_set() {
        let all: Vec<Considered> = [(2.0, 500), (1.0, 1000), (1.5, 1000), (3.0, 500), (4.0, 100), (1.0, 900)]
            .map(|(seconds, bytes)| considered("device=4", 1, seconds, bytes))
            .to_vec();
        let found: Vec<(f64, u64)> = pareto(all).iter().map(|found| (found.step_seconds, found.peak_bytes)).collect();
        assert_eq!(found, [(1.0, 900), (2.0, 500), (4.0, 100)]);
    }
}

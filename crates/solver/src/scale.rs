//! Costs as floats, exactly where it counts: what every assignment costs is taken off, and what is left is
//! counted in the largest unit that divides it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::problem::{Cost, FORBIDDEN, Problem};

/// How costs of a problem become those of a model. The latter are whole numbers from 0 on, and so exact
/// up to 2^53 in sums too; larger ones are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// The least costs of all nodes and edges together.
    offset: i128,
    unit: u64,
}

/// From here on, floats may round.
const EXACT: f64 = (1_u64 << 53) as f64;

impl Scale {
    pub(crate) fn new(problem: &Problem) -> Scale {
        let (mut offset, mut unit) = (0, 0);
        for node in &problem.nodes {
            let costs = || node.alternatives.iter().map(|alternative| alternative.cost);
            let least = least(costs());
            offset += i128::from(least);
            unit = common(unit, least, costs());
        }
        let mut leasts: FxHashMap<*const Cost, Cost> = FxHashMap::default();
        for edge in &problem.edges {
            let costs = || edge.costs.iter().copied();
            let least = *leasts.entry(edge.costs.as_ptr()).or_insert_with(|| {
                let least = least(costs());
                unit = common(unit, least, costs());
                least
            });
            offset += i128::from(least);
        }
        Scale { offset, unit: unit.max(1) }
    }

    /// The costs of a node.
    pub(crate) fn costs(self, costs: impl Iterator<Item = Cost> + Clone) -> Vec<f64> {
        let least = least(costs.clone());
        costs.map(|cost| self.above(cost, least)).collect()
    }

    /// The costs of an edge.
    pub(crate) fn table(self, costs: &[Cost]) -> Arc<[f64]> {
        let least = least(costs.iter().copied());
        costs.iter().map(|cost| self.above(*cost, least)).collect()
    }

    fn above(self, cost: Cost, least: Cost) -> f64 {
        if cost == FORBIDDEN { f64::INFINITY } else { (cost.abs_diff(least) / self.unit) as f64 }
    }

    /// What an assignment costs in the model.
    pub(crate) fn shrink(self, cost: i128) -> f64 {
        ((cost - self.offset) / i128::from(self.unit)) as f64
    }

    /// The least cost that an assignment can have if it is at least this in the model.
    pub(crate) fn grow(self, cost: f64) -> i128 {
        let units = cost.ceil() as i128;
        units.saturating_mul(i128::from(self.unit)).saturating_add(self.offset)
    }

    /// Whether nothing was rounded in assignments that cost no more than this.
    pub(crate) fn is_exact(self, cost: i128) -> bool {
        self.shrink(cost) < EXACT
    }
}

/// The least cost that is not forbidden, or nothing.
fn least(costs: impl Iterator<Item = Cost>) -> Cost {
    costs.filter(|cost| *cost != FORBIDDEN).min().unwrap_or(0)
}

/// The greatest common divisor of a unit and of how far costs are above the least.
fn common(mut unit: u64, least: Cost, costs: impl Iterator<Item = Cost>) -> u64 {
    for cost in costs {
        if unit == 1 {
            return 1;
        }
        if cost != FORBIDDEN {
            unit = greatest_common_divisor(unit, cost.abs_diff(least));
        }
    }
    unit
}

fn greatest_common_divisor(mut first: u64, mut second: u64) -> u64 {
    while second != 0 {
        (first, second) = (second, first % second);
    }
    first
}

//! Why there is no solution.

use crate::chain::Chain;
use crate::problem::Problem;
use crate::reduce::Wipeout;
use crate::relax::{Direction, Relaxation};
use crate::slots::Slots;

/// The reason, as far as one can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Infeasible {
    /// What is forbidden leaves this node no alternative.
    Forbidden { node: usize },
    /// At this time, more than the limit is used whatever is chosen.
    Limit {
        resource: usize,
        time: u64,
        /// At least so much is used.
        needed: u128,
        limit: u64,
        /// The nodes that use most of it, with what each uses at least.
        nodes: Vec<(usize, u64)>,
    },
    /// Every combination breaks some rule, but no single time or node is to blame.
    Combination,
}

/// How many nodes are named.
const NAMED: usize = 10;
/// Passes of the relaxation for one slot.
const PASSES: usize = 30;
/// How many slots are looked at.
const SLOTS: usize = 50;

pub(crate) fn explain_wipeout(wipeout: Wipeout) -> Infeasible {
    match wipeout.node {
        Some(node) => Infeasible::Forbidden { node: node as usize },
        None => Infeasible::Combination,
    }
}

/// Looks for a time at which the least that can be used is more than the limit.
pub(crate) fn explain_limits(problem: &Problem, slots: &Slots, chain: &Chain) -> Infeasible {
    let model = chain.model();
    // What all labels use alike was taken off the limits.
    let mut worst: Option<(i64, usize)> = model.limits.iter().enumerate().map(|(slot, limit)| (-limit, slot)).max();
    if worst.is_some_and(|(over, _)| over <= 0) {
        worst = relaxed_worst(model);
    }
    let Some((over, slot)) = worst.filter(|(over, _)| *over > 0) else { return Infeasible::Combination };
    let Some((resource, time)) = slots.place(chain.first_slot(slot)) else { return Infeasible::Combination };
    let limit = problem.resources[resource].limit.unwrap_or(0);
    Infeasible::Limit {
        resource,
        time,
        needed: u128::from(limit) + over as u128,
        limit,
        nodes: largest_users(problem, resource, time),
    }
}

/// The slot of those with the tightest limits that must be exceeded by most, if costs do not matter.
fn relaxed_worst(model: &crate::model::Model) -> Option<(i64, usize)> {
    let mut tight: Vec<usize> = (0..model.limits.len()).collect();
    tight.sort_by_key(|slot| model.limits[*slot]);
    let mut free = model.clone();
    free.constant = 0.0;
    free.nodes.iter_mut().for_each(|node| node.costs.fill(0.0));
    for factor in &mut free.factors {
        let free = |entry: &f64| if *entry < f64::INFINITY { 0.0 } else { f64::INFINITY };
        factor.table = factor.table.iter().map(free).collect();
    }
    let over = |slot: usize| {
        let mut prices = vec![0.0; model.limits.len()];
        prices[slot] = 1.0;
        let mut relaxation = Relaxation::new(&free, prices);
        let mut bound = f64::NEG_INFINITY;
        for _ in 0..PASSES {
            relaxation.pass(&free, Direction::Forward);
            let pass = relaxation.pass(&free, Direction::Backward);
            bound = bound.max(pass.bound - 1e-12 * pass.magnitude);
        }
        bound.ceil() as i64
    };
    tight.iter().take(SLOTS).map(|slot| (over(*slot), *slot)).max()
}

/// The nodes that use most at a time, whatever they choose.
fn largest_users(problem: &Problem, resource: usize, time: u64) -> Vec<(usize, u64)> {
    let mut users: Vec<(usize, u64)> = Vec::new();
    for (index, node) in problem.nodes.iter().enumerate() {
        let least = node.alternatives.iter().map(|alternative| {
            let uses = alternative.uses.iter();
            let uses = uses.filter(|used| used.resource as usize == resource && used.start <= time && time < used.end);
            uses.map(|used| used.amount).sum::<u64>()
        });
        users.extend(least.min().filter(|least| *least > 0).map(|least| (index, least)));
    }
    users.sort_by_key(|(index, least)| (std::cmp::Reverse(*least), *index));
    users.truncate(NAMED);
    users
}

//! Variants of a problem: others of its family that are not at hand.

use std::sync::Arc;

use meshwright_solver::Problem;
use meshwright_solver::problem::{Cost, FORBIDDEN};

use super::{Random, set_room};

#[derive(Clone, Copy, Debug)]
pub enum Variant {
    /// The limit at so many times the peak of what is used at least.
    Room(f64),
    /// What is forbidden between nodes costs much instead.
    Costly,
    /// What is forbidden between nodes costs as much as the dearest that is allowed.
    Allowed,
    /// Edges that forbid something are gone.
    Unbound,
    /// Every cost changes by some percent.
    Perturbed(u64),
    /// Only the first half of the nodes.
    Half,
    /// Costs beyond what floats hold exactly.
    Huge,
}

pub fn vary(problem: &Problem, variant: Variant) -> Problem {
    let mut problem = problem.clone();
    match variant {
        Variant::Room(room) => set_room(&mut problem, room),
        Variant::Costly => {
            let costly = 10 * largest(problem.edges.iter().flat_map(|edge| &*edge.costs)).max(1);
            change_tables(&mut problem, |_, cost| if cost == FORBIDDEN { costly } else { cost });
        }
        Variant::Allowed => {
            change_tables(&mut problem, |costs, cost| if cost == FORBIDDEN { largest(costs) } else { cost });
        }
        Variant::Unbound => problem.edges.retain(|edge| !edge.costs.contains(&FORBIDDEN)),
        Variant::Perturbed(percent) => {
            let mut random = Random(percent);
            let mut change = |cost: Cost| match cost {
                FORBIDDEN => FORBIDDEN,
                _ => (i128::from(cost) * i128::from(100 + random.below(2 * percent + 1) - percent) / 100) as Cost,
            };
            let alternatives = problem.nodes.iter_mut().flat_map(|node| &mut node.alternatives);
            alternatives.for_each(|alternative| alternative.cost = change(alternative.cost));
            for edge in &mut problem.edges {
                edge.costs = edge.costs.iter().map(|cost| change(*cost)).collect();
            }
        }
        Variant::Half => {
            problem.nodes.truncate(problem.nodes.len() / 2);
            let count = problem.nodes.len() as u32;
            problem.edges.retain(|edge| edge.nodes.iter().all(|node| *node < count));
            set_room(&mut problem, 1.1);
        }
        Variant::Huge => {
            let scaled =
                |cost: Cost| if cost == FORBIDDEN { cost } else { cost.saturating_mul(1_000_003).min(FORBIDDEN - 1) };
            let alternatives = problem.nodes.iter_mut().flat_map(|node| &mut node.alternatives);
            alternatives.for_each(|alternative| alternative.cost = scaled(alternative.cost));
            change_tables(&mut problem, |_, cost| scaled(cost));
        }
    }
    problem.name = format!("{} {variant:?}", problem.name.rsplit('-').next().unwrap_or_default());
    problem
}

/// Tables that are shared stay shared.
fn change_tables(problem: &mut Problem, change: impl Fn(&[Cost], Cost) -> Cost) {
    let mut changed: std::collections::BTreeMap<*const Cost, Arc<[Cost]>> = std::collections::BTreeMap::new();
    for edge in &mut problem.edges {
        let old = edge.costs.clone();
        edge.costs =
            changed.entry(old.as_ptr()).or_insert_with(|| old.iter().map(|cost| change(&old, *cost)).collect()).clone();
    }
}

fn largest<'a>(costs: impl IntoIterator<Item = &'a Cost>) -> Cost {
    costs.into_iter().copied().filter(|cost| *cost != FORBIDDEN).max().unwrap_or(0)
}

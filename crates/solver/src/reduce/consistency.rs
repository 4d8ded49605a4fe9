//! Arc consistency: a label goes when a factor forbids it with whatever else may be chosen.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::Wipeout;
use super::graph::Graph;
use crate::model::Factor;

/// Marks labels without support as gone, until all that are left have some.
pub(super) fn enforce(graph: &mut Graph) -> Result<(), Wipeout> {
    let mut waiting: VecDeque<u32> = (0..graph.factors.len() as u32).collect();
    let mut is_waiting = vec![true; graph.factors.len()];
    while let Some(index) = waiting.pop_front() {
        is_waiting[index as usize] = false;
        let Some(factor) = &graph.factors[index as usize] else { continue };
        for (node, gone) in unsupported(graph, factor) {
            if let Some(node) = &mut graph.nodes[node as usize] {
                gone.iter().for_each(|label| node.costs[*label] = f64::INFINITY);
            }
            for near in graph.adjacent(node) {
                if !std::mem::replace(&mut is_waiting[near as usize], true) {
                    waiting.push_back(near);
                }
            }
            if graph.node(node).is_some_and(|node| node.costs.iter().all(|cost| *cost == f64::INFINITY)) {
                return Err(Wipeout { node: Some(node) });
            }
        }
    }
    Ok(())
}

/// Nodes with those of their labels that a factor forbids, whatever is chosen of what is left.
fn unsupported(graph: &Graph, factor: &Factor) -> SmallVec<[(u32, Vec<usize>); 2]> {
    let costs: SmallVec<[&[f64]; 4]> =
        factor.nodes.iter().map(|node| graph.node(*node).map_or(&[][..], |node| &node.costs)).collect();
    if supports_all(factor, &costs) {
        return SmallVec::new();
    }
    // Labels that still need support; those that are gone need none.
    let mut needy: SmallVec<[Vec<bool>; 4]> =
        costs.iter().map(|costs| costs.iter().map(|cost| *cost < f64::INFINITY).collect()).collect();
    let mut count: usize = needy.iter().flatten().filter(|needy| **needy).count();
    let width = costs.last().map_or(0, |costs| costs.len());
    let mut labels: SmallVec<[usize; 4]> = SmallVec::from_elem(0, costs.len().saturating_sub(1));
    for row in factor.table.chunks_exact(width.max(1)) {
        if count == 0 {
            return SmallVec::new();
        }
        if labels.iter().zip(&costs).all(|(label, costs)| costs[*label] < f64::INFINITY) {
            count -= support(row, &costs, &labels, &mut needy);
        }
        for position in (0..labels.len()).rev() {
            labels[position] += 1;
            if labels[position] < costs[position].len() {
                break;
            }
            labels[position] = 0;
        }
    }
    let gone = needy.into_iter().map(|needy| (0..needy.len()).filter(|label| needy[*label]).collect::<Vec<usize>>());
    factor.nodes.iter().copied().zip(gone).filter(|(_, gone)| !gone.is_empty()).collect()
}

/// Whether it is seen at first sight that every label has support: in the first row and column.
fn supports_all(factor: &Factor, costs: &[&[f64]]) -> bool {
    let &[first, second] = costs else { return false };
    let finite = |value: &f64| *value < f64::INFINITY;
    factor.table.iter().take(second.len()).all(finite)
        && factor.table.iter().step_by(second.len().max(1)).all(finite)
        && first.iter().chain(second).all(finite)
}

/// Notes which labels a row supports, and returns how many needed it: a row has all labels of the last
/// node with one of each other.
fn support(row: &[f64], costs: &[&[f64]], labels: &[usize], needy: &mut [Vec<bool>]) -> usize {
    let Some((last, others)) = needy.split_last_mut() else { return 0 };
    let others_need = labels.iter().zip(others.iter()).any(|(label, needy)| needy[*label]);
    let (mut helped, mut is_supported) = (0, false);
    for ((entry, cost), needy) in row.iter().zip(costs[labels.len()]).zip(last) {
        if *entry < f64::INFINITY && *cost < f64::INFINITY {
            helped += usize::from(std::mem::take(needy));
            is_supported = true;
        }
    }
    if others_need && is_supported {
        for (label, needy) in labels.iter().zip(others) {
            helped += usize::from(std::mem::take(&mut needy[*label]));
        }
    }
    helped
}

//! Nodes whose best label follows from those of their neighbors, whatever the limits are.

use smallvec::SmallVec;

use super::graph::{Graph, for_each_combination};
use super::merge::merge;
use crate::model::{Factor, Node};

/// Takes out nodes with at most two neighbors that use the same whatever their label, and nodes with
/// at most one neighbor for which one label is best for each of the neighbor's.
pub(super) fn determine(graph: &mut Graph) {
    let mut waiting: Vec<u32> = (0..graph.nodes.len() as u32).rev().collect();
    while let Some(index) = waiting.pop() {
        let Some(neighbors) = few_neighbors(graph, index) else { continue };
        let Some(node) = graph.node(index) else { continue };
        let gone = match *neighbors {
            [] => free(graph, index),
            _ if neighbors.len() <= 2 && node.uses.spans.is_empty() && is_small(graph, index, &neighbors) => {
                eliminate(graph, index, &neighbors);
                true
            }
            [neighbor] => attach(graph, index, neighbor),
            _ => false,
        };
        if gone {
            waiting.extend(neighbors);
        }
    }
}

/// The neighbors of a node, ascending, if there are at most two.
fn few_neighbors(graph: &mut Graph, index: u32) -> Option<SmallVec<[u32; 2]>> {
    let mut neighbors: SmallVec<[u32; 2]> = SmallVec::new();
    for factor in graph.adjacent(index) {
        for node in graph.factors[factor as usize].iter().flat_map(|factor| &factor.nodes) {
            if *node != index && !neighbors.contains(node) {
                neighbors.push(*node);
            }
        }
        if neighbors.len() > 2 {
            return None;
        }
    }
    neighbors.sort_unstable();
    Some(neighbors)
}

/// A node without neighbors, if one label is the cheapest and uses least.
fn free(graph: &mut Graph, index: u32) -> bool {
    let Some(best) = graph.node(index).and_then(|node| best_label(node, |_| 0.0)) else { return false };
    // Its label stays a choice of one, which the next compaction fixes with what it uses.
    (0..graph.label_count(index)).filter(|label| *label != best).for_each(|label| graph.stand_in(index, label, best));
    false
}

/// Whether the table over the neighbors is no larger than those it replaces.
fn is_small(graph: &Graph, index: u32, neighbors: &[u32]) -> bool {
    let size: usize = neighbors.iter().map(|node| graph.label_count(*node)).product();
    let labels = graph.label_count(index);
    size <= 4 * labels * neighbors.iter().map(|node| graph.label_count(*node)).sum::<usize>()
}

/// Replaces a node that uses nothing by the cost of its best label for each choice of its neighbors.
fn eliminate(graph: &mut Graph, index: u32, neighbors: &[u32]) {
    let counts: SmallVec<[usize; 2]> = neighbors.iter().map(|node| graph.label_count(*node)).collect();
    let Some(node) = graph.node(index).cloned() else { return };
    let factors: Vec<Factor> =
        graph.adjacent(index).iter().filter_map(|factor| graph.factors[*factor as usize].take()).collect();
    // How far apart entries are for the node's labels, and for those of each neighbor.
    let strides: Vec<(usize, SmallVec<[usize; 2]>)> = factors
        .iter()
        .map(|factor| {
            let strides = graph.strides(&factor.nodes);
            let of = |node: u32| factor.nodes.iter().position(|other| *other == node).map_or(0, |place| strides[place]);
            (of(index), neighbors.iter().map(|neighbor| of(*neighbor)).collect())
        })
        .collect();
    let (mut table, mut labels) = (Vec::new(), Vec::new());
    let mut sums = node.costs.clone();
    for_each_combination(&counts, |combination| {
        sums.copy_from_slice(&node.costs);
        for (factor, (own, others)) in factors.iter().zip(&strides) {
            let start: usize = others.iter().zip(combination).map(|(stride, label)| stride * label).sum();
            let entries = factor.table[start..].iter().step_by(*own);
            sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += entry);
        }
        let (mut best, mut least) = (0, f64::INFINITY);
        for (label, cost) in sums.iter().enumerate() {
            if *cost < least {
                (best, least) = (label, *cost);
            }
        }
        table.push(least);
        labels.push(best);
    });
    graph.determine(index, neighbors, |combination| {
        labels[combination.iter().zip(&counts).fold(0, |place, (label, count)| place * count + label)]
    });
    graph.nodes[index as usize] = None;
    graph.add(Factor { nodes: neighbors.iter().copied().collect(), table: table.into() });
}

/// Merges a node into its only neighbor if, for each label of the neighbor, one of its labels is
/// cheapest and uses least.
fn attach(graph: &mut Graph, index: u32, neighbor: u32) -> bool {
    let near = graph.adjacent(index);
    let &[factor] = &*near else { return false };
    let (Some(node), Some(factor)) = (graph.node(index), &graph.factors[factor as usize]) else { return false };
    let strides = graph.strides(&factor.nodes);
    let (own, other) = (strides[factor.position(index)], strides[factor.position(neighbor)]);
    let label_of: Option<Vec<usize>> = (0..graph.label_count(neighbor))
        .map(|label| best_label(node, |own_label| factor.table[own_label * own + label * other]))
        .collect();
    let Some(label_of) = label_of else { return false };
    merge(graph, index, neighbor, &label_of);
    true
}

/// The label that is cheapest and never uses more than another that is allowed, if there is one.
fn best_label(node: &Node, edge_cost: impl Fn(usize) -> f64) -> Option<usize> {
    let costs: SmallVec<[f64; 16]> =
        node.costs.iter().enumerate().map(|(label, cost)| cost + edge_cost(label)).collect();
    let allowed = |label: &usize| costs[*label] < f64::INFINITY;
    let amount = |label: usize| node.uses.of(label).map(|(_, amount)| amount).sum::<i64>();
    let best = (0..costs.len()).min_by(|first, second| {
        costs[*first].total_cmp(&costs[*second]).then_with(|| amount(*first).cmp(&amount(*second)))
    })?;
    if !allowed(&best) {
        return Some(best);
    }
    (0..costs.len()).filter(allowed).all(|label| node.uses.at_most(best, label)).then_some(best)
}

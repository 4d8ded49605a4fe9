//! Merging: where one node's label leaves its neighbor a single one, the two are one node.

use smallvec::SmallVec;

use super::graph::Graph;
use crate::model::Factor;

/// Merges neighbors bound to each other, as long as tables do not grow by it.
pub(super) fn merge_bound(graph: &mut Graph) {
    let mut waiting: Vec<u32> = (0..graph.factors.len() as u32).rev().collect();
    while let Some(index) = waiting.pop() {
        let Some((bound, to, label_of)) = binding(graph, index) else { continue };
        let before = graph.factors.len() as u32;
        merge(graph, bound, to, &label_of);
        // Merging makes other pairs bound; looking at all around the node again would be quadratic
        // for nodes with many neighbors, so only what is new is looked at.
        waiting.extend(before..graph.factors.len() as u32);
    }
}

/// Whether a factor binds one of its two nodes to the other: which, to which, and its label for each
/// of the other's.
fn binding(graph: &mut Graph, index: u32) -> Option<(u32, u32, Vec<usize>)> {
    let factor = graph.factors[index as usize].as_ref()?;
    let &[first, second] = &*factor.nodes else { return None };
    let columns = graph.label_count(second);
    let of_rows = || only(factor.table.chunks_exact(columns).map(|row| row.iter()));
    let of_columns = || only((0..columns).map(|column| factor.table[column..].iter().step_by(columns)));
    let mut found = [(second, first, of_rows()), (first, second, of_columns())];
    // The node with fewer factors moves.
    found.sort_by_key(|(bound, ..)| graph.degree(*bound));
    let paying = found.into_iter().find(|(bound, to, label_of)| label_of.is_some() && pays(graph, *bound, *to));
    paying.and_then(|(bound, to, label_of)| Some((bound, to, label_of?)))
}

/// The one finite entry of each line, if each has one.
fn only<'a>(lines: impl Iterator<Item = impl Iterator<Item = &'a f64>>) -> Option<Vec<usize>> {
    lines
        .map(|line| {
            let mut finite = line.enumerate().filter(|(_, entry)| **entry < f64::INFINITY).map(|(label, _)| label);
            finite.next().filter(|_| finite.next().is_none())
        })
        .collect()
}

/// Whether tables do not grow when a node is replaced by another.
fn pays(graph: &mut Graph, bound: u32, to: u32) -> bool {
    let (few, many) = (graph.label_count(bound), graph.label_count(to));
    if many <= few {
        return true;
    }
    let mut growth = 0;
    for factor in graph.adjacent(bound) {
        let Some(factor) = &graph.factors[factor as usize] else { continue };
        if !factor.nodes.contains(&to) {
            growth += factor.table.len() / few * (many - few);
        }
    }
    growth <= few * many
}

/// Makes one node part of another: `label_of` gives its label for each of the other's.
pub(super) fn merge(graph: &mut Graph, bound: u32, to: u32, label_of: &[usize]) {
    for factor in graph.adjacent(bound) {
        let Some(factor) = graph.factors[factor as usize].take() else { continue };
        let factor = replaced(graph, &factor, bound, to, label_of);
        graph.add(factor);
    }
    graph.determine(bound, &[to], |labels| label_of[labels[0]]);
    if let (Some(from), Some(into)) = (graph.nodes[bound as usize].take(), &mut graph.nodes[to as usize]) {
        into.costs.iter_mut().zip(label_of).for_each(|(sum, label)| *sum += from.costs[*label]);
        into.uses.append(from.uses.select(label_of));
    }
}

/// A factor with one node in place of another.
fn replaced(graph: &mut Graph, factor: &Factor, bound: u32, to: u32, label_of: &[usize]) -> Factor {
    let strides = graph.strides(&factor.nodes);
    let of_bound = strides[factor.position(bound)];
    let mut nodes: SmallVec<[u32; 2]> = factor.nodes.iter().copied().filter(|node| *node != bound).collect();
    if !nodes.contains(&to) {
        nodes.push(to);
    }
    let axes: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let own = factor.nodes.iter().position(|other| other == node).map_or(0, |position| strides[position]);
            let bound_label = |label: usize| if *node == to { label_of[label] * of_bound } else { 0 };
            (0..graph.label_count(*node)).map(|label| label * own + bound_label(label)).collect()
        })
        .collect();
    Factor { nodes, table: graph.gather(&factor.table, axes) }
}

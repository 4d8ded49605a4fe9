//! Arc consistency: a label goes when a factor forbids it with whatever else may be chosen.

use std::collections::VecDeque;

use super::Wipeout;
use super::graph::Graph;

/// Marks labels without support as gone, until all that are left have some.
pub(super) fn enforce(graph: &mut Graph) -> Result<(), Wipeout> {
    let mut waiting: VecDeque<u32> = (0..graph.factors.len() as u32).collect();
    let mut is_waiting = vec![true; graph.factors.len()];
    for node in 0..graph.nodes.len() as u32 {
        let gone: Vec<usize> = match graph.node(node) {
            Some(node) => (0..node.costs.len()).filter(|label| node.costs[*label] == f64::INFINITY).collect(),
            None => continue,
        };
        if !gone.is_empty() {
            forbid(graph, node, &gone);
        }
    }
    while let Some(index) = waiting.pop_front() {
        is_waiting[index as usize] = false;
        let Some(factor) = &graph.factors[index as usize] else { continue };
        let mut removed = Vec::new();
        for (position, node) in factor.nodes.iter().enumerate() {
            let view = graph.view(factor, position);
            let costs = graph.node(*node).map_or(&[][..], |node| &node.costs);
            let unsupported = |label: &usize| {
                costs[*label] < f64::INFINITY
                    && view.rows(*label).all(|row| factor.table[row].iter().all(|entry| *entry == f64::INFINITY))
            };
            let gone: Vec<usize> = (0..costs.len()).filter(unsupported).collect();
            if !gone.is_empty() {
                removed.push((*node, gone));
            }
        }
        for (node, gone) in removed {
            for near in forbid(graph, node, &gone) {
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

/// Marks labels of a node as gone, in its costs and in every table; returns the factors it is in.
fn forbid(graph: &mut Graph, index: u32, gone: &[usize]) -> Vec<u32> {
    let near = graph.adjacent(index);
    if let Some(node) = &mut graph.nodes[index as usize] {
        gone.iter().for_each(|label| node.costs[*label] = f64::INFINITY);
    }
    for factor in &near {
        let Some(mut factor) = graph.factors[*factor as usize].take().map(|taken| (*factor, taken)) else { continue };
        let view = graph.view(&factor.1, factor.1.position(index));
        for row in gone.iter().flat_map(|label| view.rows(*label)) {
            factor.1.table[row].fill(f64::INFINITY);
        }
        graph.factors[factor.0 as usize] = Some(factor.1);
    }
    near.to_vec()
}

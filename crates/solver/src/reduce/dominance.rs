//! Dominance: a label goes when another costs no more, whatever is chosen around it, and uses no more.

use super::graph::Graph;
use crate::model::{Factor, View};

/// Pairs of labels times entries that are compared at one node before it is left as it is.
const WORK: usize = 20_000_000;

/// Marks dominated labels as gone.
pub(super) fn remove_dominated(graph: &mut Graph) {
    for index in 0..graph.nodes.len() as u32 {
        let near = graph.adjacent(index);
        let Some(node) = graph.node(index) else { continue };
        let factors: Vec<(&Factor, View)> = near
            .iter()
            .filter_map(|factor| graph.factors[*factor as usize].as_ref())
            .map(|factor| (factor, graph.view(factor, factor.position(index))))
            .collect();
        let count = node.costs.len();
        let entries: usize = factors.iter().map(|(factor, _)| factor.table.len()).sum();
        if entries.saturating_mul(count) > WORK {
            continue;
        }
        let mut gone = vec![false; count];
        for label in 0..count {
            gone[label] = (0..count).any(|other| {
                other != label
                    && !gone[other]
                    && node.uses.at_most(other, label)
                    && most_added(&factors, node.costs[other] - node.costs[label], label, other)
            });
        }
        if let Some(node) = &mut graph.nodes[index as usize] {
            node.costs.iter_mut().zip(gone).filter(|(_, gone)| *gone).for_each(|(cost, _)| *cost = f64::INFINITY);
        }
    }
}

/// Whether changing from a label to another never adds cost.
fn most_added(factors: &[(&Factor, View)], mut added: f64, label: usize, other: usize) -> bool {
    // What one factor gives at least, another may take: the sum of the worst decides. Factors that
    // forbid the change decide at once, so those come first to the eye: any order is right.
    for (factor, view) in factors {
        let mut most = f64::NEG_INFINITY;
        for (row, other_row) in view.rows(label).zip(view.rows(other)) {
            for (entry, other_entry) in factor.table[row].iter().zip(&factor.table[other_row]) {
                if *entry < f64::INFINITY {
                    most = most.max(other_entry - entry);
                }
            }
        }
        added += most;
        if added == f64::INFINITY {
            return false;
        }
    }
    added <= 0.0
}

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
        let mut gone: Vec<Option<usize>> = vec![None; count];
        for label in 0..count {
            gone[label] = (0..count).find(|other| {
                *other != label
                    && gone[*other].is_none()
                    && node.uses.at_most(*other, label)
                    && never_adds(&factors, node.costs[*other] - node.costs[label], label, *other)
            });
        }
        for (label, other) in gone.iter().enumerate() {
            if let Some(other) = other {
                graph.stand_in(index, label, *other);
            }
        }
    }
}

/// Whether changing from a label to another never adds cost.
fn never_adds(factors: &[(&Factor, View)], mut added: f64, label: usize, other: usize) -> bool {
    // What one factor takes, another may give: the sum of the worst decides.
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

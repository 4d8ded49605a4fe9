//! Dominance: a label goes when another costs no more, whatever is chosen around it, and uses no more.

use rustc_hash::FxHashMap;

use super::graph::Graph;
use crate::model::{Factor, Node, Uses, View};

/// Pairs of labels times entries that are compared at one node before it is left as it is.
const WORK: usize = 200_000_000;
/// Entries of a table that are looked at before all of it is.
const SAMPLES: usize = 8;

/// Marks dominated labels as gone, at nodes around which something changed since the last time.
pub(super) fn remove_dominated(graph: &mut Graph) {
    let mut known: FxHashMap<Kind, Vec<(usize, usize)>> = FxHashMap::default();
    for index in graph.take_changed() {
        let near = graph.adjacent(index);
        let Some(node) = graph.node(index) else { continue };
        let sides: Vec<Side<'_>> = near
            .iter()
            .filter_map(|factor| graph.factors[*factor as usize].as_ref())
            .map(|factor| Side { factor, view: graph.view(factor, factor.position(index)) })
            .collect();
        let gone = known.entry(kind(node, &sides)).or_insert_with(|| dominated(node, &sides)).clone();
        for (label, other) in gone {
            graph.stand_in(index, label, other);
        }
    }
}

/// What dominance depends on: costs, uses, and tables as they are seen from the node.
type Kind = (Vec<u64>, Uses, Vec<(*const f64, usize, usize)>);

fn kind(node: &Node, sides: &[Side<'_>]) -> Kind {
    let mut uses = node.uses.clone();
    if let [span] = &mut uses.spans[..] {
        // A single span is as good as any other.
        *span = (0, 1);
    }
    let sides = sides.iter().map(|side| (side.factor.table.as_ptr(), side.view.outer, side.view.inner));
    (node.costs.iter().map(|cost| cost.to_bits()).collect(), uses, sides.collect())
}

/// Labels of a node with others that dominate them.
fn dominated(node: &Node, sides: &[Side<'_>]) -> Vec<(usize, usize)> {
    let count = node.costs.len();
    let samples = Samples::new(node, sides);
    let mut work = 0;
    let mut gone: Vec<Option<usize>> = vec![None; count];
    for label in 0..count {
        if work > WORK {
            break;
        }
        gone[label] = (0..count).find(|other| {
            *other != label
                && gone[*other].is_none()
                && samples.may_dominate(*other, label)
                && node.uses.at_most(*other, label)
                && never_adds(sides, &samples, node.costs[*other] - node.costs[label], label, *other, &mut work)
        });
    }
    gone.iter().enumerate().filter_map(|(label, other)| Some((label, (*other)?))).collect()
}

/// A factor as a node sees it.
#[derive(Debug)]
struct Side<'a> {
    factor: &'a Factor,
    view: View,
}

impl Side<'_> {
    /// Some entries of a label.
    fn samples(&self, label: usize) -> [f64; SAMPLES] {
        let View { outer, labels, inner } = self.view;
        std::array::from_fn(|sample| {
            let entry = sample * outer * inner / SAMPLES;
            self.factor.table[(entry / inner * labels + label) * inner + entry % inner]
        })
    }

    /// What changing from a label to another adds in the worst case, or something above `bearable`.
    fn worst(&self, label: usize, other: usize, bearable: f64) -> f64 {
        let table = &self.factor.table;
        let mut most = f64::NEG_INFINITY;
        for (row, other_row) in self.view.rows(label).zip(self.view.rows(other)) {
            most = most_added(most, &table[row], &table[other_row]);
            if most > bearable {
                break;
            }
        }
        most
    }
}

/// The most that an entry of the second list is above that of the first. A difference of two that are
/// forbidden is no number, and no number is larger than any.
fn most_added(most: f64, from: &[f64], to: &[f64]) -> f64 {
    from.iter().zip(to).fold(most, |most, (from, to)| if to - from > most { to - from } else { most })
}

/// A few entries of every factor for every label: they refute most pairs.
#[derive(Debug)]
struct Samples {
    sides: usize,
    /// By label, by factor.
    entries: Vec<[f64; SAMPLES]>,
    /// By label: its cost with the first entry of every factor, with the second, and so on.
    totals: Vec<[f64; SAMPLES]>,
}

impl Samples {
    fn new(node: &Node, sides: &[Side<'_>]) -> Samples {
        let mut samples = Samples { sides: sides.len(), entries: Vec::new(), totals: Vec::new() };
        for (label, cost) in node.costs.iter().enumerate() {
            let mut total = [*cost; SAMPLES];
            for side in sides {
                let entries = side.samples(label);
                total.iter_mut().zip(&entries).for_each(|(sum, entry)| *sum += entry);
                samples.entries.push(entries);
            }
            samples.totals.push(total);
        }
        samples
    }

    /// Whether a label is nowhere seen to cost more than another.
    fn may_dominate(&self, label: usize, other: usize) -> bool {
        self.totals[label].iter().zip(&self.totals[other]).all(|(cost, other)| cost <= other)
    }

    fn of(&self, label: usize) -> &[[f64; SAMPLES]] {
        &self.entries[label * self.sides..][..self.sides]
    }
}

/// Whether changing from a label to another never adds cost. What one factor takes, another may give:
/// the sum of the worst decides.
fn never_adds(
    sides: &[Side<'_>],
    samples: &Samples,
    mut added: f64,
    label: usize,
    other: usize,
    work: &mut usize,
) -> bool {
    // What the factors ahead add at least.
    let pairs = samples.of(label).iter().zip(samples.of(other));
    let mut ahead: f64 = pairs.clone().map(|(from, to)| most_added(f64::NEG_INFINITY, from, to)).sum();
    *work += sides.len() * SAMPLES;
    if added + ahead > 0.0 {
        return false;
    }
    for (side, (from, to)) in sides.iter().zip(pairs) {
        *work += side.view.outer * side.view.inner;
        // Where samples say nothing of a factor, the sum says nothing from there on.
        ahead -= most_added(f64::NEG_INFINITY, from, to);
        added += side.worst(label, other, if ahead.is_finite() { -(added + ahead) } else { f64::INFINITY });
        if added == f64::INFINITY || added + ahead > 0.0 {
            return false;
        }
    }
    added <= 0.0
}

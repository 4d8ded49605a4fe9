//! The form that everything after reading works on: times are slots, costs are floats, a node's labels
//! share the spans over which they use something.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::problem::{Cost, Problem};
use crate::scale::Scale;
use crate::slots::Slots;

/// What a forbidden combination counts in sums that go on: more than all else together.
pub(crate) const FORBIDDEN_COST: f64 = 1e30;

/// Integers up to 2^53 are exact in floats, and so are their sums. Infinite is forbidden.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) nodes: Vec<Node>,
    pub(crate) factors: Vec<Factor>,
    /// What every assignment costs.
    pub(crate) constant: f64,
    /// What may be used in each slot.
    pub(crate) limits: Vec<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) costs: Vec<f64>,
    pub(crate) uses: Uses,
}

/// What the labels of a node use: an amount for each span of slots and each label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Uses {
    /// Half-open; they may overlap and repeat.
    pub(crate) spans: Vec<(u32, u32)>,
    /// All labels in the first span, then all in the second, and so on.
    pub(crate) amounts: Vec<i64>,
}

/// A cost for every combination of labels of its nodes; the last changes fastest.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    pub(crate) nodes: SmallVec<[u32; 2]>,
    /// Factors alike share one table.
    pub(crate) table: Arc<[f64]>,
}

impl Uses {
    /// The spans with what each label uses there.
    pub(crate) fn columns(&self) -> impl Iterator<Item = ((u32, u32), &[i64])> {
        let labels = self.amounts.len().checked_div(self.spans.len()).unwrap_or(1).max(1);
        self.spans.iter().copied().zip(self.amounts.chunks_exact(labels))
    }

    /// The spans with what one label uses there.
    pub(crate) fn of(&self, label: usize) -> impl Iterator<Item = ((u32, u32), i64)> {
        self.columns().map(move |(span, amounts)| (span, amounts[label]))
    }

    /// The given labels, in the given order, which may repeat.
    pub(crate) fn select(&self, labels: &[usize]) -> Uses {
        let amounts = self.columns().flat_map(|(_, column)| labels.iter().map(|label| column[*label])).collect();
        Uses { spans: self.spans.clone(), amounts }
    }

    /// Adds what another node with as many labels uses.
    pub(crate) fn append(&mut self, mut other: Uses) {
        self.spans.append(&mut other.spans);
        self.amounts.append(&mut other.amounts);
    }

    /// Joins equal spans, and takes out what all labels use alike: the callback gets it.
    pub(crate) fn tidy(&mut self, mut common: impl FnMut((u32, u32), i64)) {
        if self.is_tidy() {
            return;
        }
        let mut order: Vec<usize> = (0..self.spans.len()).collect();
        order.sort_by_key(|span| self.spans[*span]);
        let columns: Vec<((u32, u32), &[i64])> = self.columns().collect();
        let mut tidy = Uses::default();
        for same in order.chunk_by(|first, second| columns[*first].0 == columns[*second].0) {
            let (span, first) = columns[same[0]];
            let mut sums = first.to_vec();
            for other in &same[1..] {
                sums.iter_mut().zip(columns[*other].1).for_each(|(sum, amount)| *sum += amount);
            }
            let least = sums.iter().copied().min().unwrap_or(0);
            if least != 0 {
                common(span, least);
            }
            if sums.iter().any(|sum| *sum != least) {
                tidy.spans.push(span);
                tidy.amounts.extend(sums.iter().map(|sum| sum - least));
            }
        }
        *self = tidy;
    }

    fn is_tidy(&self) -> bool {
        // Amounts are never negative.
        let is_needed = |column: &[i64]| column.contains(&0) && column.iter().any(|amount| *amount != 0);
        self.spans.is_sorted_by(|first, second| first < second) && self.columns().all(|(_, column)| is_needed(column))
    }

    /// Whether one label never uses more than another.
    pub(crate) fn at_most(&self, label: usize, other: usize) -> bool {
        if self.columns().all(|(_, column)| column[label] <= column[other]) {
            return true;
        }
        if self.spans.len() == 1 {
            return false;
        }
        // A span in which it uses more may lie inside others in which it uses less.
        let mut changes: Vec<(u32, i64)> = Vec::with_capacity(2 * self.spans.len());
        for ((start, end), column) in self.columns() {
            let difference = column[label] - column[other];
            if difference != 0 {
                changes.push((start, difference));
                changes.push((end, -difference));
            }
        }
        changes.sort_unstable_by_key(|(slot, _)| *slot);
        let mut now = 0;
        changes.chunk_by(|first, second| first.0 == second.0).all(|same| {
            now += same.iter().map(|(_, change)| change).sum::<i64>();
            now <= 0
        })
    }
}

impl Factor {
    /// The table as seen from one of its nodes: how many entries there are before a change of its
    /// label starts over, and how far apart neighboring labels are.
    pub(crate) fn view(&self, position: usize, nodes: &[Node]) -> View {
        let inner = self.nodes[position + 1..].iter().map(|node| nodes[*node as usize].costs.len()).product();
        let labels = nodes[self.nodes[position] as usize].costs.len();
        let outer = self.nodes[..position].iter().map(|node| nodes[*node as usize].costs.len()).product();
        View { outer, labels, inner }
    }

    pub(crate) fn position(&self, node: u32) -> usize {
        self.nodes.iter().position(|other| *other == node).unwrap_or(0)
    }
}

/// See [`Factor::view`]: the entry of a label is at `(outer * labels + label) * inner + inner index`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) outer: usize,
    pub(crate) labels: usize,
    pub(crate) inner: usize,
}

impl View {
    /// The places of a label's entries, as ranges.
    pub(crate) fn rows(self, label: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..self.outer).map(move |outer| {
            let start = (outer * self.labels + label) * self.inner;
            start..start + self.inner
        })
    }
}

impl Model {
    /// The problem as it stands: nodes, labels and edges keep their numbers, edges of fewer than two
    /// nodes become costs of nodes.
    pub(crate) fn new(problem: &Problem, slots: &Slots, scale: Scale) -> Model {
        let mut model = Model { limits: slots.limits(), ..Model::default() };
        for node in &problem.nodes {
            let costs = scale.costs(node.alternatives.iter().map(|alternative| alternative.cost));
            model.nodes.push(Node { costs, uses: slots.uses(node) });
        }
        let mut tables: FxHashMap<*const Cost, Arc<[f64]>> = FxHashMap::default();
        for edge in &problem.edges {
            let table = tables.entry(edge.costs.as_ptr()).or_insert_with(|| scale.table(&edge.costs));
            match *edge.nodes {
                [] => model.constant += table.first().copied().unwrap_or(0.0),
                [node] => {
                    let costs = &mut model.nodes[node as usize].costs;
                    costs.iter_mut().zip(&**table).for_each(|(sum, cost)| *sum += cost);
                }
                _ => model.factors.push(Factor { nodes: edge.nodes.clone(), table: table.clone() }),
            }
        }
        model
    }

    /// What an assignment costs.
    pub(crate) fn cost(&self, labels: &[u32]) -> f64 {
        let nodes: f64 = self.nodes.iter().zip(labels).map(|(node, label)| node.costs[*label as usize]).sum();
        let entry = |factor: &Factor| factor.table[self.place(factor, labels)].min(FORBIDDEN_COST);
        let factors: f64 = self.factors.iter().map(entry).sum();
        self.constant + nodes + factors
    }

    /// More than any assignment costs that has nothing forbidden.
    pub(crate) fn most(&self) -> f64 {
        let most: f64 = self.ranges().map(|(_, most)| most).sum();
        (self.constant + most) * (1.0 + 1e-9) + 1.0
    }

    /// The least costs of all nodes and factors together.
    pub(crate) fn least(&self) -> f64 {
        self.constant + self.ranges().map(|(least, _)| least).sum::<f64>()
    }

    /// Forbids entries of factors that are above the least of their factor by more than this. Returns
    /// whether there were any.
    pub(crate) fn forbid_above(&mut self, slack: f64) -> bool {
        let mut tables: FxHashMap<*const f64, Option<Arc<[f64]>>> = FxHashMap::default();
        let mut changed = Vec::new();
        for (index, factor) in self.factors.iter().enumerate() {
            let table = tables.entry(factor.table.as_ptr()).or_insert_with(|| {
                let most = range(&factor.table).0 + slack * (1.0 + 1e-9) + 1e-3;
                let is_dear = |entry: &f64| *entry > most && *entry < f64::INFINITY;
                let keep = |entry: &f64| if *entry > most { f64::INFINITY } else { *entry };
                factor.table.iter().any(is_dear).then(|| factor.table.iter().map(keep).collect())
            });
            changed.extend(table.clone().map(|table| (index, table)));
        }
        let any = !changed.is_empty();
        for (index, table) in changed {
            self.factors[index].table = table;
        }
        any
    }

    /// What a unit of use is worth at first sight: how far costs differ, by how far uses do.
    pub(crate) fn exchange_rate(&self) -> f64 {
        let costs: f64 = self.ranges().map(|(least, most)| (most - least).max(0.0)).sum();
        let uses = self.nodes.iter().flat_map(|node| &node.uses.amounts).map(|amount| *amount as f64).sum::<f64>();
        1e-3 * (costs + 1.0) / (uses + 1.0)
    }

    /// The least and the most that is not forbidden, of each node and of each factor.
    fn ranges(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut tables: FxHashMap<*const f64, (f64, f64)> = FxHashMap::default();
        let factors = self
            .factors
            .iter()
            .map(move |factor| *tables.entry(factor.table.as_ptr()).or_insert_with(|| range(&factor.table)));
        self.nodes.iter().map(|node| range(&node.costs)).chain(factors)
    }

    /// Table entries and labels: what a pass over everything costs.
    pub(crate) fn size(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(|node| node.costs.len() + node.uses.amounts.len()).sum();
        nodes + self.factors.iter().map(|factor| factor.table.len()).sum::<usize>() + self.limits.len()
    }

    /// What an assignment uses in each slot.
    pub(crate) fn usage(&self, labels: &[u32]) -> Vec<i64> {
        let mut usage = vec![0; self.limits.len() + 1];
        for (node, label) in self.nodes.iter().zip(labels) {
            for ((start, end), amount) in node.uses.of(*label as usize) {
                usage[start as usize] += amount;
                usage[end as usize] -= amount;
            }
        }
        usage.pop();
        let mut now = 0;
        for used in &mut usage {
            now += *used;
            *used = now;
        }
        usage
    }

    /// Where a factor has the entry of an assignment.
    pub(crate) fn place(&self, factor: &Factor, labels: &[u32]) -> usize {
        factor
            .nodes
            .iter()
            .fold(0, |place, node| place * self.nodes[*node as usize].costs.len() + labels[*node as usize] as usize)
    }
}

fn range(costs: &[f64]) -> (f64, f64) {
    let finite = costs.iter().copied().filter(|cost| *cost < f64::INFINITY);
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), cost| (least.min(cost), most.max(cost)))
}

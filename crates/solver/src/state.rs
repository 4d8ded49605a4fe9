//! An assignment with what it costs and uses.

use crate::eliminate::Links;
use crate::model::{FORBIDDEN_COST, Model};

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) labels: Vec<u32>,
    pub(crate) cost: f64,
    /// What is used in each slot.
    pub(crate) usage: Vec<i64>,
    /// By how much limits are exceeded, all slots together.
    pub(crate) excess: i64,
}

/// What a change of labels would come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) cost: f64,
    pub(crate) excess: i64,
}

/// How a change of labels changes what is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    /// The first slot that may change.
    first: usize,
    /// From there on, by how much more each slot changes than the one before it.
    changes: Vec<i64>,
}

impl State {
    pub(crate) fn new(model: &Model, labels: Vec<u32>) -> State {
        let cost = model.cost(&labels);
        let usage = model.usage(&labels);
        let excess = usage.iter().zip(&model.limits).map(|(used, limit)| (used - limit).max(0)).sum();
        State { labels, cost, usage, excess }
    }

    /// Whether nothing forbidden is chosen and limits are kept.
    pub(crate) fn is_feasible(&self) -> bool {
        self.excess == 0 && self.cost < FORBIDDEN_COST / 2.0
    }

    /// Whether it has fewer forbidden combinations, then is less beyond the limits, then costs less.
    pub(crate) fn is_nearer_than(&self, other: &State) -> bool {
        if (self.cost - other.cost).abs() > FORBIDDEN_COST / 2.0 {
            return self.cost < other.cost;
        }
        (self.excess, self.cost) < (other.excess, other.cost)
    }

    /// Whether a change is for the better, or at least not for the worse: fewer forbidden
    /// combinations, then less beyond the limits, then less cost.
    pub(crate) fn welcomes(&self, change: Change) -> bool {
        if change.cost.abs() > FORBIDDEN_COST / 2.0 {
            return change.cost < 0.0;
        }
        change.excess < self.excess || change.excess == self.excess && change.cost <= 0.0
    }

    /// What changing labels would do; it leaves in `difference` what they would use more or less.
    pub(crate) fn try_change(
        &mut self,
        model: &Model,
        links: &Links,
        changes: &[(u32, u32)],
        difference: &mut Difference,
    ) -> Change {
        let mut cost = -self.around(model, links, changes);
        let before: Vec<(u32, u32)> = self.swap_in(changes);
        cost += self.around(model, links, changes);
        self.swap_in(&before);
        let spans = || changes.iter().flat_map(|(node, _)| &model.nodes[*node as usize].uses.spans);
        difference.first = spans().map(|(start, _)| *start).min().unwrap_or(0) as usize;
        let end = spans().map(|(_, end)| *end).max().unwrap_or(0) as usize;
        difference.changes.clear();
        difference.changes.resize(end - difference.first + 1, 0);
        for (&(node, new), &(_, old)) in changes.iter().zip(&before) {
            for ((start, end), column) in model.nodes[node as usize].uses.columns() {
                let amount = column[new as usize] - column[old as usize];
                difference.changes[start as usize - difference.first] += amount;
                difference.changes[end as usize - difference.first] -= amount;
            }
        }
        let (mut now, mut excess) = (0, self.excess);
        let slots = self.usage[difference.first..].iter().zip(&model.limits[difference.first..]);
        for (change, (used, limit)) in difference.changes.iter().zip(slots) {
            now += change;
            excess += (used + now - limit).max(0) - (used - limit).max(0);
        }
        Change { cost, excess }
    }

    /// Makes a change that was just tried: `difference` is as that left it.
    pub(crate) fn apply(&mut self, changes: &[(u32, u32)], change: Change, difference: &Difference) {
        self.swap_in(changes);
        self.cost += change.cost;
        self.excess = change.excess;
        let mut now = 0;
        for (change, used) in difference.changes.iter().zip(&mut self.usage[difference.first..]) {
            now += change;
            *used += now;
        }
    }

    /// Sets labels and returns what they were.
    fn swap_in(&mut self, changes: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let swap = |&(node, label): &(u32, u32)| (node, std::mem::replace(&mut self.labels[node as usize], label));
        changes.iter().map(swap).collect()
    }

    /// The cost of some nodes, ascending, and of all factors that have one of them.
    fn around(&self, model: &Model, links: &Links, changes: &[(u32, u32)]) -> f64 {
        let mut sum = 0.0;
        for &(node, _) in changes {
            sum += model.nodes[node as usize].costs[self.labels[node as usize] as usize];
            for factor in &links.factors[node as usize] {
                let factor = &model.factors[*factor as usize];
                // A factor counts with the first of its nodes that is among them.
                let is_first = factor
                    .nodes
                    .iter()
                    .take_while(|other| **other != node)
                    .all(|other| changes.binary_search_by_key(other, |(changed, _)| *changed).is_err());
                if is_first {
                    sum += factor.table[model.place(factor, &self.labels)].min(FORBIDDEN_COST);
                }
            }
        }
        sum
    }
}

//! Times at which limits can bind, numbered across all resources.

use crate::model::Uses;
use crate::problem::{Alternative, Node, Problem};
use crate::solve::Price;

/// The slots of a problem. Use only grows where an interval starts, and what is alive at a start
/// counts only if something of it ends before the next start: the last start before an end sees
/// everything that the starts just before it saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    resources: Vec<ResourceSlots>,
}

#[derive(Clone, Debug, Default)]
struct ResourceSlots {
    /// The number of the first slot.
    first: u32,
    times: Vec<u64>,
    limit: i64,
}

impl Slots {
    pub(crate) fn new(problem: &Problem) -> Slots {
        let mut first = 0;
        let mut resources = Vec::new();
        for (index, resource) in problem.resources.iter().enumerate() {
            let mut slots = ResourceSlots { first, ..ResourceSlots::default() };
            if let Some(limit) = resource.limit {
                slots.limit = i64::try_from(limit).unwrap_or(i64::MAX);
                slots.times = binding_times(problem, index, slots.limit);
            }
            first += slots.times.len() as u32;
            resources.push(slots);
        }
        Slots { resources }
    }

    pub(crate) fn limits(&self) -> Vec<i64> {
        self.resources.iter().flat_map(|slots| std::iter::repeat_n(slots.limit, slots.times.len())).collect()
    }

    /// The resource and the time of a slot.
    pub(crate) fn place(&self, slot: usize) -> Option<(usize, u64)> {
        self.resources.iter().enumerate().find_map(|(resource, slots)| {
            let index = slot.checked_sub(slots.first as usize)?;
            slots.times.get(index).map(|time| (resource, *time))
        })
    }

    /// Prices by slot; a price for another time goes to the slot before it.
    pub(crate) fn prices(&self, prices: &[Price]) -> Vec<f64> {
        let mut by_slot = vec![0.0; self.resources.iter().map(|slots| slots.times.len()).sum()];
        for price in prices {
            let Some(slots) = self.resources.get(price.resource as usize) else { continue };
            let place = slots.times.partition_point(|time| *time <= price.time).saturating_sub(1);
            if let Some(sum) = by_slot.get_mut(slots.first as usize + place).filter(|_| price.price > 0.0) {
                *sum += price.price;
            }
        }
        by_slot
    }

    /// What the alternatives of a node use.
    pub(crate) fn uses(&self, node: &Node) -> Uses {
        let spans_of = |alternative: &Alternative| -> Vec<((u32, u32), i64)> {
            let uses = alternative.uses.iter().filter(|used| !used.is_empty());
            let spans = uses.map(|used| {
                let slots = &self.resources[used.resource as usize];
                let place = |time| slots.first + slots.times.partition_point(|slot| *slot < time) as u32;
                ((place(used.start), place(used.end)), used.amount as i64)
            });
            spans.filter(|((start, end), _)| start < end).collect()
        };
        let by_label: Vec<_> = node.alternatives.iter().map(spans_of).collect();
        let mut spans: Vec<(u32, u32)> = by_label.iter().flatten().map(|(span, _)| *span).collect();
        spans.sort_unstable();
        spans.dedup();
        let mut amounts = vec![0; spans.len() * by_label.len()];
        for (label, uses) in by_label.iter().enumerate() {
            for (span, amount) in uses {
                let place = spans.binary_search(span).unwrap_or(0);
                amounts[place * by_label.len() + label] += amount;
            }
        }
        Uses { spans, amounts }
    }
}

/// The starts that see something end before the next start, and at which more than the limit could
/// be used.
fn binding_times(problem: &Problem, resource: usize, limit: i64) -> Vec<u64> {
    // By time: what starts there, what ends there. At one time, ends come first.
    let mut events: Vec<(u64, i64)> = Vec::new();
    for node in &problem.nodes {
        most_used(node, resource, &mut events);
    }
    events.sort_unstable();
    let mut times = Vec::new();
    let (mut now, mut start) = (0_i128, None);
    for (time, change) in events {
        if change < 0 {
            if let Some(start) = start.take_if(|_| now > i128::from(limit)) {
                times.push(start);
            }
            start = None;
        } else {
            start = Some(time);
        }
        now += i128::from(change);
    }
    times
}

/// The changes of what a node can use at most, as it chooses.
fn most_used(node: &Node, resource: usize, events: &mut Vec<(u64, i64)>) {
    let mut uses: Vec<_> = node.alternatives.iter().flat_map(|alternative| &alternative.uses).copied().collect();
    uses.retain(|used| used.resource as usize == resource && !used.is_empty());
    let simple = node.alternatives.iter().all(|alternative| alternative.uses.len() <= 1);
    if simple && uses.iter().all(|used| (used.start, used.end) == (uses[0].start, uses[0].end)) {
        // One interval: the label that uses most.
        let amount = uses.iter().map(|used| used.amount as i64).max();
        uses.truncate(1);
        events.extend(uses.iter().zip(amount).flat_map(|(used, amount)| [(used.start, amount), (used.end, -amount)]));
        return;
    }
    // Several: no more than all labels together.
    events.extend(uses.iter().flat_map(|used| [(used.start, used.amount as i64), (used.end, -(used.amount as i64))]));
}

//! Large-neighborhood search: a region of nodes chooses anew, exactly, while all others keep their
//! labels.

use crate::eliminate::{Links, Scratch, eliminate};
use crate::limit::Meter;
use crate::model::{FORBIDDEN_COST, Model};
use crate::order::{Order, smallest_first};
use crate::random::Random;
use crate::state::{Difference, State};

/// A walk from assignment to assignment.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    model: &'a Model,
    links: &'a Links,
    pub(crate) state: State,
    /// The price of what each label uses, and where the labels of each node begin.
    prices: &'a [f64],
    starts: &'a [usize],
    random: Random,
    scratch: Scratch,
    difference: Difference,
    /// Places of nodes in the region, or nothing.
    place: Vec<u32>,
    /// Changes made, in order.
    pub(crate) changes: Vec<Relabeling>,
}

/// Nodes with their new labels, ascending.
pub(crate) type Relabeling = Vec<(u32, u32)>;

const OUTSIDE: u32 = u32::MAX;

/// A region has so few nodes that this much work for each is allowed, and an attempt at it does no more
/// than one part in so many of the work allowed: large problems are not walked in a single step.
const NODE_WORK: f64 = 500.0;
const ATTEMPT_SHARE: f64 = 4.0;

impl<'a> Walker<'a> {
    pub(crate) fn new(
        model: &'a Model,
        links: &'a Links,
        prices: &'a [f64],
        starts: &'a [usize],
        state: State,
        seed: u64,
    ) -> Walker<'a> {
        Walker {
            model,
            links,
            state,
            prices,
            starts,
            random: Random::new(seed),
            scratch: Scratch::default(),
            difference: Difference::default(),
            place: vec![OUTSIDE; model.nodes.len()],
            changes: Vec::new(),
        }
    }

    /// Tries regions until the meter says stop.
    pub(crate) fn walk(&mut self, meter: &mut Meter<'_>) {
        while !self.model.nodes.is_empty() && !meter.is_over() {
            self.step(meter);
        }
    }

    /// Tries one region at several prices.
    fn step(&mut self, meter: &mut Meter<'_>) {
        let count = self.model.nodes.len();
        let most = (count as f64).min(meter.allowed() / NODE_WORK).max(5.0);
        let size = self.random.magnitude(4.0, most) as usize;
        let largest = self.random.magnitude(3e2, 3e4);
        let region = self.region(size.min(count));
        let order = self.order(&region, largest, meter.allowed() / ATTEMPT_SHARE);
        let noise = if self.random.below(2) == 0 { 0.0 } else { self.random.magnitude(0.05, 2.0) };
        // Prices are searched for the least at which the region still fits.
        let (mut low, mut high, mut scale) = (0.0, f64::INFINITY, self.random.magnitude(0.3, 2.0));
        for _ in 0..4 {
            // Besides its tables, an elimination costs something for every node and slot.
            meter.add(2.0 * order.work + 20.0 * order.steps.len() as f64 + self.model.limits.len() as f64);
            let fits = self.attempt(&order, scale, noise);
            if fits {
                high = scale;
            } else {
                low = scale;
            }
            scale = if high == f64::INFINITY { 2.0 * low } else { 0.5 * (low + high) };
            if fits && low == 0.0 {
                scale = 0.3 * high;
            }
        }
    }

    /// Solves for a region at scaled prices; keeps what is better. Returns whether limits are kept.
    fn attempt(&mut self, order: &Order, scale: f64, noise: f64) -> bool {
        let (model, prices, starts, random) = (self.model, self.prices, self.starts, &mut self.random);
        let costs = |node: u32, own: &mut Vec<f64>| {
            let scale = if noise > 0.0 { scale * (noise * (random.unit() - 0.5)).exp() } else { scale };
            let labels = model.nodes[node as usize].costs.iter().zip(&prices[starts[node as usize]..]);
            own.extend(labels.map(|(cost, price)| cost + scale * price));
        };
        let chosen = eliminate(model, self.links, order, &self.state.labels, costs, &mut self.scratch);
        let mut changes: Vec<(u32, u32)> =
            chosen.into_iter().filter(|(node, label)| self.state.labels[*node as usize] != *label).collect();
        changes.sort_unstable();
        if changes.is_empty() {
            return self.state.is_feasible();
        }
        let change = self.state.try_change(self.model, self.links, &changes, &mut self.difference);
        if self.state.welcomes(change) {
            self.state.apply(&changes, change, &self.difference);
            self.changes.push(changes);
        }
        change.excess == 0 && change.cost < FORBIDDEN_COST / 2.0
    }

    /// Nodes around a random one, ascending.
    fn region(&mut self, size: usize) -> Vec<u32> {
        let seed = self.random.below(self.model.nodes.len()) as u32;
        let mut region = vec![seed];
        let mut frontier = vec![seed];
        self.place[seed as usize] = 0;
        while region.len() < size && !frontier.is_empty() {
            let index = self.random.below(frontier.len());
            let node = frontier.swap_remove(index);
            let near = &self.links.neighbors[node as usize];
            // Of nodes with very many neighbors, some.
            let take = near.len().min(30);
            let offset = self.random.below(near.len());
            for step in 0..take {
                let other = near[(offset + step) % near.len()];
                if self.place[other as usize] == OUTSIDE && region.len() < size {
                    self.place[other as usize] = 0;
                    region.push(other);
                    frontier.push(other);
                }
            }
        }
        region.sort_unstable();
        region
    }

    fn order(&mut self, region: &[u32], largest: f64, most_work: f64) -> Order {
        for (place, node) in region.iter().enumerate() {
            self.place[*node as usize] = place as u32;
        }
        let neighbors = region
            .iter()
            .map(|node| {
                let near = self.links.neighbors[*node as usize].iter();
                near.map(|other| self.place[*other as usize]).filter(|place| *place != OUTSIDE).collect()
            })
            .collect();
        let sizes = |node: u32| self.model.nodes[node as usize].costs.len();
        let order = smallest_first(sizes, region, neighbors, largest, most_work);
        region.iter().for_each(|node| self.place[*node as usize] = OUTSIDE);
        order
    }
}

//! Large-neighborhood search: a region of nodes chooses anew, exactly, while all others keep their
//! labels.

use crate::eliminate::{Links, Scratch, eliminate};
use crate::model::Model;
use crate::order::{Order, smallest_first};
use crate::random::Random;
use crate::state::State;

/// A walk from assignment to assignment.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    model: &'a Model,
    links: &'a Links,
    pub(crate) state: State,
    /// For each node and label, the price of what it uses.
    prices: &'a [Vec<f64>],
    random: Random,
    scratch: Scratch,
    difference: Vec<i64>,
    /// Places of nodes in the region, or nothing.
    place: Vec<u32>,
    /// Changes made, in order.
    pub(crate) changes: Vec<Vec<(u32, u32)>>,
    /// Table entries computed so far.
    pub(crate) work: f64,
    pub(crate) tries: usize,
}

const OUTSIDE: u32 = u32::MAX;

impl<'a> Walker<'a> {
    pub(crate) fn new(
        model: &'a Model,
        links: &'a Links,
        prices: &'a [Vec<f64>],
        state: State,
        seed: u64,
    ) -> Walker<'a> {
        Walker {
            model,
            links,
            state,
            prices,
            random: Random::new(seed),
            scratch: Scratch::default(),
            difference: Vec::new(),
            place: vec![OUTSIDE; model.nodes.len()],
            changes: Vec::new(),
            work: 0.0,
            tries: 0,
        }
    }

    /// Tries one region at several prices.
    pub(crate) fn step(&mut self) {
        let count = self.model.nodes.len();
        if count == 0 {
            return;
        }
        let size = self.random.magnitude(4.0, 1500.0) as usize;
        let largest = self.random.magnitude(3e2, 3e4);
        let region = self.region(size.min(count));
        let order = self.order(region, largest);
        let noise = if self.random.below(2) == 0 { 0.0 } else { self.random.magnitude(0.05, 2.0) };
        // Prices are searched for the least at which the region still fits.
        let (mut low, mut high, mut scale) = (0.0, f64::INFINITY, self.random.magnitude(0.3, 2.0));
        for _ in 0..4 {
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
        self.tries += 1;
        let (model, prices, random) = (self.model, self.prices, &mut self.random);
        let costs = |node: u32, own: &mut Vec<f64>| {
            let scale = if noise > 0.0 { scale * (noise * (random.unit() - 0.5)).exp() } else { scale };
            let labels = model.nodes[node as usize].costs.iter().zip(&prices[node as usize]);
            own.extend(labels.map(|(cost, price)| cost + scale * price));
        };
        let chosen = eliminate(model, self.links, order, &self.state.labels, costs, &mut self.scratch);
        self.work += order.work;
        let mut changes: Vec<(u32, u32)> =
            chosen.into_iter().filter(|(node, label)| self.state.labels[*node as usize] != *label).collect();
        changes.sort_unstable();
        if changes.is_empty() {
            return self.state.excess == 0;
        }
        let change = self.state.try_change(self.model, self.links, &changes, &mut self.difference);
        let better = change.excess < self.state.excess
            || change.excess == self.state.excess && change.cost <= 0.0;
        if better {
            self.state.apply(&changes, change, &self.difference);
            self.changes.push(changes);
        }
        change.excess == 0
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

    fn order(&mut self, region: Vec<u32>, largest: f64) -> Order {
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
        let order = smallest_first(sizes, &region, neighbors, largest);
        region.iter().for_each(|node| self.place[*node as usize] = OUTSIDE);
        order
    }
}

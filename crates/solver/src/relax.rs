//! The relaxation: memory has a price per slot, and nodes and factors agree only in the end. Whatever
//! the prices and messages are, it bounds the cost of every assignment from below.

use smallvec::SmallVec;

use crate::model::Model;
use crate::prices::label_prices;

/// Prices and messages, improved by [`Relaxation::pass`]. It belongs to one model.
#[derive(Clone, Debug)]
pub(crate) struct Relaxation {
    /// Where the labels of each node begin among those of all.
    pub(crate) first: Vec<usize>,
    /// Cost of each label with the price of what it uses.
    priced: Vec<f64>,
    prices: Vec<f64>,
    /// The factors of each node: which, at which of its nodes.
    adjacent: Vec<SmallVec<[Place; 4]>>,
    /// What each factor has given to the labels of each of its nodes.
    messages: Vec<f64>,
    message_first: Vec<SmallVec<[usize; 2]>>,
    /// By how much choosing a label would raise the bound, as the last pass saw it.
    pub(crate) excess: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    factor: u32,
    position: u32,
}

/// What a pass found out.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) bound: f64,
    /// The sum of the magnitudes that were added up; rounding is in proportion to it.
    pub(crate) magnitude: f64,
    /// The labels that look best, each given those before it.
    pub(crate) labels: Vec<u32>,
    /// What those cost, once somebody has looked.
    pub(crate) cost: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Relaxation {
    pub(crate) fn new(model: &Model, prices: Vec<f64>) -> Relaxation {
        let mut first = vec![0];
        for node in &model.nodes {
            first.push(first[first.len() - 1] + node.costs.len());
        }
        let mut adjacent: Vec<SmallVec<[Place; 4]>> = vec![SmallVec::new(); model.nodes.len()];
        let (mut message_first, mut messages) = (Vec::new(), 0);
        for (index, factor) in model.factors.iter().enumerate() {
            let mut starts = SmallVec::new();
            for (position, node) in factor.nodes.iter().enumerate() {
                adjacent[*node as usize].push(Place { factor: index as u32, position: position as u32 });
                starts.push(messages);
                messages += model.nodes[*node as usize].costs.len();
            }
            message_first.push(starts);
        }
        let labels = first[model.nodes.len()];
        let mut relaxation = Relaxation {
            first,
            priced: Vec::new(),
            prices,
            adjacent,
            messages: vec![0.0; messages],
            message_first,
            excess: vec![0.0; labels],
        };
        relaxation.reprice(model);
        relaxation
    }

    pub(crate) fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// Changes prices.
    pub(crate) fn set_prices(&mut self, model: &Model, change: impl FnOnce(&mut [f64])) {
        change(&mut self.prices);
        self.reprice(model);
    }

    /// Makes costs follow prices.
    fn reprice(&mut self, model: &Model) {
        let sums = prefix_sums(&self.prices);
        self.priced.clear();
        for node in &model.nodes {
            let start = self.priced.len();
            self.priced.extend_from_slice(&node.costs);
            for ((from, to), column) in node.uses.columns() {
                let price = sums[to as usize] - sums[from as usize];
                if price != 0.0 {
                    let labels = self.priced[start..].iter_mut();
                    labels.zip(column).for_each(|(cost, amount)| *cost += price * *amount as f64);
                }
            }
        }
    }

    /// The same model with messages moved from factors to nodes: whoever starts there without messages
    /// has the same bound.
    pub(crate) fn moved(&self, model: &Model) -> Model {
        let mut moved = model.clone();
        for (factor, starts) in moved.factors.iter_mut().zip(&self.message_first) {
            let mut table = factor.table.to_vec();
            for (position, start) in starts.iter().enumerate() {
                let view = factor.view(position, &model.nodes);
                let node = factor.nodes[position] as usize;
                let message = &self.messages[*start..start + view.labels];
                for (label, given) in message.iter().enumerate() {
                    moved.nodes[node].costs[label] += given;
                    view.rows(label).for_each(|row| table[row].iter_mut().for_each(|entry| *entry -= given));
                }
            }
            factor.table = table.into();
        }
        moved
    }

    /// How far rounding of messages can bring the bound off.
    pub(crate) fn rounding(&self) -> f64 {
        let starts = self.message_first.iter().flatten().copied();
        let ends = starts.clone().skip(1).chain([self.messages.len()]);
        let largest = |(start, end): (usize, usize)| {
            self.messages[start..end].iter().fold(0.0_f64, |most, message| most.max(message.abs()))
        };
        f64::EPSILON * starts.zip(ends).map(largest).sum::<f64>()
    }

    /// What the least costs of a model with messages moved come to at the prices, and how much was added
    /// up for it.
    pub(crate) fn bound_of(&self, moved: &Model) -> (f64, f64) {
        let capacity: f64 = self.prices.iter().zip(&moved.limits).map(|(price, limit)| price * *limit as f64).sum();
        let (mut bound, mut magnitude) = (moved.constant - capacity, moved.constant.abs() + capacity);
        let prices = label_prices(moved, &self.prices);
        let mut prices = &prices[..];
        let mut priced = Vec::new();
        for node in &moved.nodes {
            let (own, rest) = prices.split_at(node.costs.len());
            prices = rest;
            priced.clear();
            priced.extend(node.costs.iter().zip(own).map(|(cost, price)| cost + price));
            bound += min(&priced);
            magnitude += min(&priced).abs();
        }
        for factor in &moved.factors {
            bound += min(&factor.table);
            magnitude += min(&factor.table).abs();
        }
        (bound, magnitude)
    }

    /// One sweep over all nodes: each takes what its factors can give and hands it on to those that
    /// lead further.
    pub(crate) fn pass(&mut self, model: &Model, direction: Direction) -> Pass {
        let count = model.nodes.len();
        let capacity: f64 = self.prices.iter().zip(&model.limits).map(|(price, limit)| price * *limit as f64).sum();
        let mut bound = model.constant - capacity;
        let mut magnitude = model.constant.abs() + capacity;
        let mut labels = vec![0_u32; count];
        let (mut total, mut decided) = (Vec::new(), Vec::new());
        for step in 0..count {
            let node = if direction == Direction::Forward { step } else { count - 1 - step };
            let size = model.nodes[node].costs.len();
            total.clear();
            total.extend_from_slice(&self.priced[self.first[node]..][..size]);
            decided.clear();
            decided.extend_from_slice(&total);
            let (mut behind, mut ahead) = (0_u32, 0_u32);
            for index in 0..self.adjacent[node].len() {
                let place = self.adjacent[node][index];
                let nodes = &model.factors[place.factor as usize].nodes;
                let (is_first, is_last) = (place.position == 0, place.position as usize + 1 == nodes.len());
                let (has_behind, has_ahead) =
                    if direction == Direction::Forward { (!is_first, !is_last) } else { (!is_last, !is_first) };
                behind += u32::from(has_behind);
                ahead += u32::from(has_ahead);
                if has_behind {
                    self.take(model, place, size);
                }
                let start = self.message_first[place.factor as usize][place.position as usize];
                let message = &self.messages[start..start + size];
                total.iter_mut().zip(message).for_each(|(sum, message)| *sum += message);
                if has_behind && nodes.len() == 2 {
                    self.add_decided(model, place, &labels, &mut decided);
                } else {
                    decided.iter_mut().zip(message).for_each(|(sum, message)| *sum += message);
                }
            }
            labels[node] = arg_min(&decided);
            let least = min(&total);
            bound += least;
            magnitude += least.abs();
            let excess = &mut self.excess[self.first[node]..][..size];
            excess.iter_mut().zip(&total).for_each(|(excess, sum)| *excess = sum - least);
            let share = 1.0 / f64::from(behind.max(ahead).max(1));
            for place in &self.adjacent[node] {
                let nodes = model.factors[place.factor as usize].nodes.len();
                let leads = match direction {
                    Direction::Forward => place.position as usize + 1 < nodes,
                    Direction::Backward => place.position > 0,
                };
                if leads {
                    let start = self.message_first[place.factor as usize][place.position as usize];
                    let message = &mut self.messages[start..start + size];
                    message.iter_mut().zip(&total).for_each(|(message, sum)| *message -= share * (sum - least));
                }
            }
        }
        Pass { bound, magnitude, cost: f64::INFINITY, labels }
    }

    /// Recomputes what a factor can give to one of its nodes.
    fn take(&mut self, model: &Model, place: Place, size: usize) {
        let factor = &model.factors[place.factor as usize];
        let starts = &self.message_first[place.factor as usize];
        let own = starts[place.position as usize];
        if let (&[first, second], 2) = (&**starts, factor.nodes.len()) {
            let columns = model.nodes[factor.nodes[1] as usize].costs.len();
            let rows = factor.table.chunks_exact(columns);
            if place.position == 1 {
                let (before, after) = self.messages.split_at_mut(second);
                let (given, out) = (&before[first..], &mut after[..size]);
                out.fill(f64::INFINITY);
                for (row, given) in rows.zip(given) {
                    lower(out, row, *given);
                }
            } else {
                let (before, after) = self.messages.split_at_mut(second);
                let (out, given) = (&mut before[own..own + size], &after[..columns]);
                for (row, out) in rows.zip(out) {
                    *out = least_difference(row, given);
                }
            }
            return;
        }
        let view = factor.view(place.position as usize, &model.nodes);
        let mut rest = factor.table.to_vec();
        for (position, start) in starts.iter().enumerate() {
            if position == place.position as usize {
                continue;
            }
            let other = factor.view(position, &model.nodes);
            for label in 0..other.labels {
                let given = self.messages[start + label];
                other.rows(label).for_each(|row| rest[row].iter_mut().for_each(|entry| *entry -= given));
            }
        }
        for label in 0..size {
            self.messages[own + label] = view.rows(label).map(|row| min(&rest[row])).fold(f64::INFINITY, f64::min);
        }
    }

    /// Adds the cost of a pair whose other label is decided.
    fn add_decided(&self, model: &Model, place: Place, labels: &[u32], sums: &mut [f64]) {
        let factor = &model.factors[place.factor as usize];
        let columns = model.nodes[factor.nodes[1] as usize].costs.len();
        if place.position == 1 {
            let row = labels[factor.nodes[0] as usize] as usize;
            let row = &factor.table[row * columns..][..columns];
            sums.iter_mut().zip(row).for_each(|(sum, entry)| *sum += entry);
        } else {
            let column = labels[factor.nodes[1] as usize] as usize;
            let entries = factor.table[column..].iter().step_by(columns);
            sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += entry);
        }
    }
}

pub(crate) fn prefix_sums(prices: &[f64]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(prices.len() + 1);
    let mut sum = 0.0;
    sums.push(0.0);
    for price in prices {
        sum += price;
        sums.push(sum);
    }
    sums
}

/// Lowers sums to what a row offers after something was given away.
fn lower(out: &mut [f64], row: &[f64], given: f64) {
    for (out, entry) in out.iter_mut().zip(row) {
        let offer = entry - given;
        *out = if offer < *out { offer } else { *out };
    }
}

/// The least difference, in four lanes.
fn least_difference(row: &[f64], given: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; 4];
    let (rows, givens) = (row.chunks_exact(4), given.chunks_exact(4));
    let rest = rows.remainder().iter().zip(givens.remainder());
    for (row, given) in rows.zip(givens) {
        for lane in 0..4 {
            let difference = row[lane] - given[lane];
            lanes[lane] = if difference < lanes[lane] { difference } else { lanes[lane] };
        }
    }
    rest.fold(min(&lanes), |least, (entry, given)| least.min(entry - given))
}

fn min(values: &[f64]) -> f64 {
    values.iter().fold(f64::INFINITY, |least, value| if *value < least { *value } else { least })
}

fn arg_min(values: &[f64]) -> u32 {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value < values[best] {
            best = index;
        }
    }
    best as u32
}

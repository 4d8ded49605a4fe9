//! How prices rise where too much is used and fall where there is room.

use crate::model::Model;
use crate::relax::{Direction, Pass, Relaxation, prefix_sums};

/// Ascent of the bound over prices, by averaged subgradients.
#[derive(Clone, Debug)]
pub(crate) struct Ascent {
    pub(crate) relaxation: Relaxation,
    pub(crate) bound: f64,
    /// Prices of the best bound.
    pub(crate) best_prices: Vec<f64>,
    /// How often each label was chosen lately.
    pub(crate) shares: Vec<f64>,
    pub(crate) steps: u32,
    /// What assignments lately used beyond the limits, on average.
    beyond: Vec<f64>,
    /// Slots that may have a price.
    priced: Vec<bool>,
    manner: Manner,
    /// Steps since the bound rose; and steps that raised it, one after another.
    stalled: u32,
    risen: u32,
    /// The bound some steps ago, to see whether it still rises.
    mark: (u32, f64),
    /// The first bound of an ascent that started from afar.
    first: Option<f64>,
}

/// How prices move.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// From the best so far, at few slots, as if the bound could rise by `reach`: fast while far away.
    Around { reach: f64 },
    /// From the last ones, at all slots, towards a cost that is known to be possible, in a part of the
    /// way: finds what the other manner gets stuck below.
    Onward { pace: f64 },
}

/// How much a step counts in the average.
const FRESH: f64 = 0.1;
/// The share of the way that a step tries to go.
const PACE: f64 = 0.1;
/// Around the best: steps without a better bound before the reach falls, and with one before it grows.
const PATIENCE: u32 = 2;
const FALL: f64 = 0.66;
const LUCK: u32 = 1;
const RISE: f64 = 1.5;
/// It ends when it reaches less than this part of what is left, and starts with a larger one.
const LEAST_REACH: f64 = 0.02;
const REACH: f64 = 0.3;
/// Onward: steps without a better bound before the pace falls; it ends below the least.
const LONG_PATIENCE: u32 = 25;
const LONG_FALL: f64 = 0.6;
const LEAST_PACE: f64 = 0.02;
/// The ascent has come to its end when so many steps win less than this part of what is left: many
/// for the whole problem, few for its parts.
const MARK_STEPS: [u32; 2] = [20, 150];
const MARK_GAIN: f64 = 0.02;
/// Rounding errors are smaller than this part of what is added up.
const ROUNDING: f64 = 1e-12;

impl Ascent {
    /// Starts from prices; `reach` is how far the bound is thought to be from what it can be.
    pub(crate) fn new(model: &Model, prices: Vec<f64>, reach: Option<f64>) -> Ascent {
        let best_prices = prices.clone();
        let priced = prices.iter().map(|price| *price > 0.0).collect();
        let relaxation = Relaxation::new(model, prices);
        Ascent {
            bound: f64::NEG_INFINITY,
            best_prices,
            shares: vec![0.0; relaxation.excess.len()],
            steps: 0,
            beyond: vec![0.0; model.limits.len()],
            priced,
            manner: Manner::Around { reach: reach.unwrap_or(0.0) },
            stalled: 0,
            risen: 0,
            mark: (0, f64::NEG_INFINITY),
            first: None,
            relaxation,
        }
    }

    /// Two passes and a change of prices. `ceiling` is a cost that is known to be possible, if one is.
    /// Returns what the second pass found, with a bound that is valid, and by how much its assignment
    /// exceeds limits.
    pub(crate) fn step(&mut self, model: &Model, ceiling: Option<f64>) -> (Pass, i64) {
        self.relaxation.pass(model, Direction::Forward);
        let mut pass = self.relaxation.pass(model, Direction::Backward);
        pass.bound -= ROUNDING * pass.magnitude + self.relaxation.rounding();
        pass.cost = model.cost(&pass.labels);
        self.steps += 1;
        self.adapt(model, pass.bound, ceiling);
        let weight = if self.steps == 1 { 1.0 } else { FRESH };
        self.shares.iter_mut().for_each(|share| *share *= 1.0 - weight);
        for (node, label) in pass.labels.iter().enumerate() {
            self.shares[self.relaxation.first[node] + *label as usize] += weight;
        }
        let usage = model.usage(&pass.labels);
        let excess = self.admit(model, &usage);
        let way = match (self.manner, ceiling) {
            (Manner::Around { reach }, _) => PACE * reach,
            (Manner::Onward { pace }, ceiling) => pace * (ceiling.unwrap_or(self.bound) - pass.bound),
        };
        self.move_prices(model, &usage, way, weight);
        (pass, excess)
    }

    /// Moves prices so far that the bound would rise by `way`, if it were linear.
    fn move_prices(&mut self, model: &Model, usage: &[i64], way: f64, weight: f64) {
        let is_around = matches!(self.manner, Manner::Around { .. });
        let mut norm = 0.0;
        for slot in (0..usage.len()).filter(|slot| self.priced[*slot]) {
            let beyond = &mut self.beyond[slot];
            *beyond += weight * ((usage[slot] - model.limits[slot]) as f64 - *beyond);
            let price = if is_around { self.best_prices[slot] } else { self.relaxation.prices()[slot] };
            if *beyond > 0.0 || price > 0.0 {
                norm += *beyond * *beyond;
            }
        }
        if norm == 0.0 {
            return;
        }
        let step = way.max(0.0) / norm;
        let Ascent { relaxation, best_prices, beyond, .. } = self;
        relaxation.set_prices(model, |prices| {
            for (slot, price) in prices.iter_mut().enumerate() {
                let from = if is_around { best_prices[slot] } else { *price };
                *price = (from + step * beyond[slot]).max(0.0);
            }
        });
    }

    /// Lets slots whose limits are exceeded have a price: the worst of each stretch of them, since its
    /// neighbors say much the same, or all. Returns how much limits are exceeded together.
    fn admit(&mut self, model: &Model, usage: &[i64]) -> i64 {
        let all = matches!(self.manner, Manner::Onward { .. });
        let (mut excess, mut worst) = (0, (0, 0));
        for (slot, (used, limit)) in usage.iter().zip(&model.limits).enumerate() {
            let over = used - limit;
            if over > 0 {
                excess += over;
                worst = worst.max((over, slot));
                self.priced[slot] |= all;
            } else if worst.0 > 0 {
                self.priced[worst.1] = true;
                worst = (0, 0);
            }
        }
        if worst.0 > 0 {
            self.priced[worst.1] = true;
        }
        excess
    }

    /// Takes note of a bound, and changes how far or in which manner prices move.
    fn adapt(&mut self, model: &Model, bound: f64, ceiling: Option<f64>) {
        let significant = match &mut self.manner {
            Manner::Around { reach } => {
                if *reach == 0.0 {
                    *reach = bound.abs().max(1.0);
                    self.first = Some(bound);
                }
                1e-3 * *reach
            }
            Manner::Onward { .. } => 1e-4 * (ceiling.unwrap_or(bound) - self.bound).abs(),
        };
        if self.bound == f64::NEG_INFINITY || bound > self.bound + significant {
            (self.stalled, self.risen) = (0, self.risen + 1);
        } else {
            (self.stalled, self.risen) = (self.stalled + 1, 0);
        }
        if bound > self.bound {
            self.bound = bound;
            self.best_prices.copy_from_slice(self.relaxation.prices());
        }
        match &mut self.manner {
            Manner::Around { reach } => {
                if self.stalled > PATIENCE {
                    (self.stalled, *reach) = (0, FALL * *reach);
                }
                if self.risen > LUCK {
                    (self.risen, *reach) = (0, RISE * *reach);
                }
                // Early on, costs that are known to be possible say little; what was won says more.
                let won = self.first.map_or(f64::INFINITY, |first| self.bound - first);
                if ceiling.is_some_and(|ceiling| *reach < LEAST_REACH * (ceiling - self.bound).min(won)) {
                    self.first = None;
                    self.change_manner(model, Manner::Onward { pace: PACE });
                }
            }
            Manner::Onward { pace } => {
                if self.stalled > LONG_PATIENCE {
                    (self.stalled, *pace) = (0, LONG_FALL * *pace);
                }
                if *pace < LEAST_PACE {
                    let left = ceiling.map_or(self.bound.abs(), |ceiling| ceiling - self.bound);
                    self.change_manner(model, Manner::Around { reach: REACH * left });
                }
            }
        }
    }

    fn change_manner(&mut self, model: &Model, manner: Manner) {
        self.manner = manner;
        (self.stalled, self.risen) = (0, 0);
        self.relaxation.set_prices(model, |prices| prices.copy_from_slice(&self.best_prices));
    }

    /// Whether more steps would win little.
    pub(crate) fn is_done(&mut self, target: f64, is_root: bool) -> bool {
        if self.steps < self.mark.0 + MARK_STEPS[usize::from(is_root)] {
            return false;
        }
        let gained = self.bound - self.mark.1;
        self.mark = (self.steps, self.bound);
        gained < MARK_GAIN * (target - self.bound).max(0.0)
    }

    /// Labels that no assignment cheaper than `cutoff` has. Uses the best prices, and leaves them in
    /// place.
    pub(crate) fn refuted(&mut self, model: &Model, cutoff: f64) -> Vec<(u32, u32)> {
        self.relaxation.set_prices(model, |prices| prices.copy_from_slice(&self.best_prices));
        let mut pass = self.relaxation.pass(model, Direction::Forward);
        // A few passes at these prices: messages were made for others.
        for _ in 0..4 {
            self.relaxation.pass(model, Direction::Backward);
            pass = self.relaxation.pass(model, Direction::Forward);
        }
        let valid = pass.bound - ROUNDING * pass.magnitude - self.relaxation.rounding();
        self.bound = self.bound.max(valid);
        self.relaxation.pass(model, Direction::Backward);
        let slack = cutoff - valid;
        let mut refuted = Vec::new();
        for node in 0..model.nodes.len() {
            let excess = &self.relaxation.excess[self.relaxation.first[node]..self.relaxation.first[node + 1]];
            let gone = excess.iter().enumerate().filter(|(_, excess)| **excess > slack);
            refuted.extend(gone.map(|(label, _)| (node as u32, label as u32)));
        }
        refuted
    }

    /// What each label pays for what it uses, at the best prices.
    pub(crate) fn label_prices(&self, model: &Model) -> Vec<f64> {
        label_prices(model, &self.best_prices)
    }
}

/// For each label of each node, the price of what it uses.
pub(crate) fn label_prices(model: &Model, prices: &[f64]) -> Vec<f64> {
    let sums = prefix_sums(prices);
    let mut all = Vec::new();
    for node in &model.nodes {
        let start = all.len();
        all.resize(start + node.costs.len(), 0.0);
        for ((from, to), column) in node.uses.columns() {
            let price = sums[to as usize] - sums[from as usize];
            all[start..].iter_mut().zip(column).for_each(|(sum, amount)| *sum += price * *amount as f64);
        }
    }
    all
}

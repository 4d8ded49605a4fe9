//! A first assignment: one price for all times at which limits bind, found by bisection.

use crate::model::Model;
use crate::relax::{Direction, Relaxation};
use crate::state::State;

/// A search for the least price at which limits are kept.
#[derive(Debug)]
pub(crate) struct Opening {
    relaxation: Relaxation,
    /// What the price counts at each slot.
    weights: Vec<f64>,
    /// The next price to try; the highest at which limits were broken, the lowest at which they were not.
    price: f64,
    low: f64,
    high: f64,
    probes: u32,
    /// The best bound so far, and its prices.
    bound: f64,
    pub(crate) prices: Vec<f64>,
}

/// Tries at most.
const PROBES: u32 = 12;
/// By how much the price changes as long as limits were always broken, or always kept.
const STRIDE: f64 = 8.0;
/// The bisection ends when prices are this close.
const CLOSE: f64 = 1.2;
/// By how much a slot counts more when its limit is broken again.
const GROWTH: f64 = 0.5;

impl Opening {
    /// Starts from prices if there are any, or else without.
    pub(crate) fn new(model: &Model, prices: Vec<f64>) -> Opening {
        let price = if prices.iter().any(|price| *price > 0.0) { 1.0 } else { 0.0 };
        Opening {
            relaxation: Relaxation::new(model, prices.clone()),
            weights: prices.clone(),
            price,
            low: 0.0,
            high: f64::INFINITY,
            probes: 0,
            bound: f64::NEG_INFINITY,
            prices,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.probes >= PROBES || self.high <= CLOSE * self.low || self.high == 0.0
    }

    /// Tries a price. Returns the assignment that comes with it.
    pub(crate) fn probe(&mut self, model: &Model) -> State {
        let Opening { relaxation, weights, price, .. } = self;
        relaxation.set_prices(model, |prices| {
            prices.iter_mut().zip(&*weights).for_each(|(slot, weight)| *slot = *price * weight);
        });
        relaxation.pass(model, Direction::Forward);
        let pass = relaxation.pass(model, Direction::Backward);
        if pass.bound > self.bound {
            self.bound = pass.bound;
            self.prices.copy_from_slice(self.relaxation.prices());
        }
        let state = State::new(model, pass.labels);
        self.probes += 1;
        if state.excess == 0 {
            self.high = self.high.min(self.price);
        } else {
            self.low = self.low.max(self.price);
            self.admit(model, &state.usage);
        }
        self.price = self.next_price(model);
        state
    }

    fn next_price(&self, model: &Model) -> f64 {
        match (self.low > 0.0, self.high < f64::INFINITY) {
            (false, false) => {
                let slots: f64 = self.weights.iter().sum();
                1e3 * model.exchange_rate() / slots.max(1.0)
            }
            (false, true) => self.high / STRIDE,
            (true, false) => self.low * STRIDE,
            (true, true) => (self.low * self.high).sqrt(),
        }
    }

    /// Lets slots count whose limits are broken: the worst of each stretch of them.
    fn admit(&mut self, model: &Model, usage: &[i64]) {
        let over: Vec<i64> = usage.iter().zip(&model.limits).map(|(used, limit)| used - limit).collect();
        let mut first = 0;
        for stretch in over.chunk_by(|first, second| (*first > 0) == (*second > 0)) {
            if stretch[0] > 0 {
                let worst = (0..stretch.len()).max_by_key(|slot| (stretch[*slot], std::cmp::Reverse(*slot)));
                let weight = &mut self.weights[first + worst.unwrap_or(0)];
                *weight = if *weight == 0.0 { 1.0 } else { *weight * (1.0 + GROWTH) };
            }
            first += stretch.len();
        }
    }
}

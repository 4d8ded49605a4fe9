//! Branch and bound: relax, refute labels, reduce, and where that does not settle it, split.

use std::sync::Arc;

use crate::chain::Chain;
use crate::limit::Meter;
use crate::model::{FORBIDDEN_COST, Model};
use crate::prices::Ascent;
use crate::state::State;

/// A search tree that is worked on for a while at a time.
#[derive(Debug)]
pub(crate) struct Tree {
    /// What costs are, before reduction and messages.
    original: Model,
    /// What is left to do; the last is next.
    open: Vec<Part>,
    active: Option<Active>,
    /// No assignment below this cost remains outside of what is left to do.
    settled: f64,
    /// The whole problem as far as it has been reduced, with its prices: where others search.
    pub(crate) stage: Arc<Chain>,
    pub(crate) stage_prices: Vec<f64>,
    /// Feasible assignments of the first model, each cheaper than the one before.
    pub(crate) found: Vec<Vec<u32>>,
    /// Labels that looked best last, for whoever has none.
    pub(crate) guess: Option<(Arc<Chain>, Vec<u32>)>,
    /// The cost below which assignments are looked for.
    cutoff: f64,
    /// The whole problem, to return to from its parts.
    root: Option<Part>,
    /// Work done on parts since they were split, and on the whole; parts may take so many times as much.
    work: [f64; 2],
    patience: f64,
    /// How much single costs could be above the least when those were last looked at.
    dear: f64,
    /// Whether `cutoff` is the cost of an assignment.
    is_real: bool,
    /// Where nothing is cheaper than this, enough is known.
    pub(crate) enough: f64,
}

/// A part of the problem: some labels are excluded.
#[derive(Debug)]
struct Part {
    chain: Arc<Chain>,
    prices: Vec<f64>,
    bound: f64,
    depth: u32,
    /// Whether prices may be far from good.
    is_cold: bool,
}

#[derive(Debug)]
struct Active {
    part: Part,
    ascent: Ascent,
}

/// Parts may take this much of the work on the whole at first, and more by this factor each time.
const PATIENCE: f64 = 0.25;
const PATIENCE_GROWTH: f64 = 2.0;

/// Messages are moved into costs if rounding is below this part of what is left to prove.
const SOUND: f64 = 1e-3;

/// Costs are looked at again when the known assignment is this part as far from the least.
const MUCH_CHEAPER: f64 = 0.5;
/// The problem must be this part of what it was to start over.
const MUCH_SMALLER: f64 = 0.8;

/// What became of a part.
enum Fate {
    /// It goes on.
    Open(Part),
    /// No assignment in it is cheaper than the cutoff.
    Closed,
}

impl Tree {
    /// The problem as it was reduced first, from the original.
    pub(crate) fn new(original: Model, chain: Arc<Chain>, prices: Vec<f64>) -> Tree {
        let cutoff = chain.model().most();
        let part =
            Part { chain: chain.clone(), prices: prices.clone(), bound: f64::NEG_INFINITY, depth: 0, is_cold: true };
        Tree {
            original,
            open: vec![part],
            active: None,
            settled: f64::INFINITY,
            stage: chain,
            stage_prices: prices,
            found: Vec::new(),
            guess: None,
            cutoff,
            root: None,
            work: [0.0, 0.0],
            patience: PATIENCE,
            dear: f64::INFINITY,
            is_real: false,
            enough: f64::INFINITY,
        }
    }

    /// Prices to start from, before anything is done.
    pub(crate) fn start_from(&mut self, prices: Vec<f64>) {
        self.open.iter_mut().for_each(|part| part.prices.clone_from(&prices));
        self.stage_prices = prices;
    }

    /// Forbids what by itself is dearer than an assignment that is known, as long as the whole problem is
    /// relaxed, and whenever that assignment has become much cheaper. Costs that are meant to forbid do so
    /// from then on.
    pub(crate) fn drop_dear(&mut self) {
        if !self.is_real || !self.is_rooted() {
            return;
        }
        let Some(part) = self.active.as_ref().map(|active| &active.part).or(self.open.first()) else { return };
        let slack = self.cutoff - part.chain.model().least();
        if slack > MUCH_CHEAPER * self.dear {
            return;
        }
        self.dear = slack;
        let mut model = part.chain.model().clone();
        if !model.forbid_above(slack) {
            return;
        }
        let Ok(chain) = part.chain.without(model, std::iter::empty()) else { return };
        if chain.model().size() as f64 > MUCH_SMALLER * part.chain.model().size() as f64 {
            return;
        }
        let (prices, bound) = match &self.active {
            Some(active) => (&active.ascent.best_prices, active.ascent.bound.max(active.part.bound)),
            None => (&part.prices, part.bound),
        };
        let part = Part { prices: chain.carry_prices(prices), chain: Arc::new(chain), bound, depth: 0, is_cold: true };
        self.stage = part.chain.clone();
        self.stage_prices.clone_from(&part.prices);
        self.active = None;
        self.open = vec![part];
    }

    /// A cost that an assignment has: from now on, cheaper ones are looked for.
    pub(crate) fn set_cutoff(&mut self, cost: f64) {
        if !self.is_real || cost < self.cutoff {
            self.cutoff = cost;
            self.is_real = true;
        }
    }

    /// No assignment costs less.
    pub(crate) fn bound(&self) -> f64 {
        let active = self.active.iter().map(|active| active.part.bound.max(active.ascent.bound));
        self.open.iter().map(|part| part.bound).chain(active).fold(self.settled, f64::min)
    }

    /// Nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.open.is_empty() && self.active.is_none()
    }

    /// Whether as much is known as was asked for.
    pub(crate) fn is_enough(&self) -> bool {
        self.bound() >= self.enough
    }

    /// Whether the whole problem is still being relaxed for the first time.
    pub(crate) fn is_rooted(&self) -> bool {
        self.active.iter().all(|active| active.part.depth == 0) && self.open.len() < 2
    }

    /// Works until the meter says stop.
    pub(crate) fn advance(&mut self, meter: &mut Meter<'_>) {
        while !meter.is_over() && !self.is_enough() {
            let Some(mut active) = self.active.take().or_else(|| self.activate()) else { return };
            let size = active.part.chain.model().size();
            self.relax(&mut active);
            meter.add(3.0 * size as f64);
            if active.ascent.bound > self.cutoff - 1.0 {
                self.settled = self.settled.min(active.ascent.bound);
                continue;
            }
            let is_root = active.part.depth == 0;
            self.work[usize::from(is_root)] += 3.0 * size as f64;
            if !is_root && self.return_to_root(&active) {
                continue;
            }
            if !active.ascent.is_done(self.cutoff, is_root) {
                self.active = Some(active);
                continue;
            }
            meter.add(12.0 * size as f64);
            self.settle(active);
        }
    }

    /// Gives up splitting when it has taken as long as relaxing the whole: that goes on, and with a cheaper
    /// assignment it may refute more. The next time splitting may take longer.
    fn return_to_root(&mut self, active: &Active) -> bool {
        let [splitting, relaxing] = self.work;
        if splitting < self.patience * relaxing {
            return false;
        }
        let Some(mut root) = self.root.take() else { return false };
        // What was proven of all parts holds for the whole.
        root.bound = root.bound.max(self.bound().min(active.part.bound.max(active.ascent.bound)));
        self.work[0] = 0.0;
        self.patience *= PATIENCE_GROWTH;
        self.settled = f64::INFINITY;
        self.stage = root.chain.clone();
        self.stage_prices.clone_from(&root.prices);
        self.open = vec![root];
        true
    }

    /// Takes the next part, unless it is known to be of no use.
    fn activate(&mut self) -> Option<Active> {
        loop {
            let part = self.open.pop()?;
            if part.bound > self.cutoff - 1.0 {
                self.settled = self.settled.min(part.bound);
                continue;
            }
            let model = part.chain.model();
            // What is used beyond the common part is never negative.
            if model.limits.iter().any(|limit| *limit < 0) {
                continue;
            }
            let reach = (!part.is_cold).then(|| (0.1 * (self.cutoff - part.bound)).max(1.0));
            let ascent = Ascent::new(model, part.prices.clone(), reach);
            return Some(Active { part, ascent });
        }
    }

    /// One step of the relaxation, and a look at the assignment that comes with it.
    fn relax(&mut self, active: &mut Active) {
        let model = active.part.chain.model();
        let (pass, excess) = active.ascent.step(model, self.is_real.then_some(self.cutoff));
        if active.part.depth == 0 {
            self.stage_prices.clone_from(&active.ascent.best_prices);
        }
        if pass.cost < FORBIDDEN_COST / 2.0 && excess == 0 && pass.cost < self.cutoff {
            // Where messages were moved into costs, those are rounded: the original says what it costs.
            let assignment = active.part.chain.expand(&pass.labels);
            let state = State::new(&self.original, assignment);
            if state.is_feasible() && state.cost < self.cutoff {
                self.set_cutoff(state.cost);
                self.found.push(state.labels);
            }
        }
        if !self.is_real {
            self.guess = Some((active.part.chain.clone(), pass.labels));
        }
    }

    /// The relaxation has come to its end: reduce what it refuted, or split.
    fn settle(&mut self, mut active: Active) {
        let model = active.part.chain.model();
        let is_root = active.part.depth == 0;
        // Others search in the whole problem, where the best assignment so far must remain.
        let cutoff = if is_root { self.cutoff } else { self.cutoff - 1.0 };
        let labels: usize = model.nodes.iter().map(|node| node.costs.len()).sum();
        let refuted = active.ascent.refuted(model, cutoff);
        if refuted.len() * 50 > labels {
            if let Fate::Open(part) = restricted(&active, refuted.iter().copied(), cutoff) {
                if is_root {
                    self.stage = part.chain.clone();
                    self.stage_prices.clone_from(&part.prices);
                }
                self.open.push(part);
            }
            return;
        }
        if is_root {
            self.root = match restricted(&active, refuted.iter().copied(), cutoff) {
                Fate::Open(part) => Some(part),
                Fate::Closed => None,
            };
        }
        let Some((node, low)) = split(model, &active.ascent) else {
            // One label for every node: the assignment was looked at already.
            return;
        };
        let count = model.nodes[node as usize].costs.len() as u32;
        let halves = [true, false].map(|keep_low| {
            let gone = (0..count).filter(|label| low.contains(label) != keep_low).map(|label| (node, label));
            restricted(&active, gone, cutoff)
        });
        for half in halves {
            if let Fate::Open(mut part) = half {
                part.depth += 1;
                self.open.push(part);
            }
        }
    }
}

/// A part without some of its labels, and without what no assignment cheaper than `cutoff` has. It starts
/// from the messages and prices of the whole.
fn restricted(active: &Active, gone: impl Iterator<Item = (u32, u32)>, cutoff: f64) -> Fate {
    let chain = &active.part.chain;
    let relaxation = &active.ascent.relaxation;
    // Where no assignment is left, messages grow without end; moving them would drown costs in rounding.
    let error = relaxation.rounding();
    let is_sound = error < SOUND * (cutoff - active.ascent.bound).abs().max(1.0);
    let mut moved = if is_sound { relaxation.moved(chain.model()) } else { chain.model().clone() };
    // Whatever messages and prices are, the least of everything together is a bound.
    let (bound, magnitude) = relaxation.bound_of(&moved);
    moved.forbid_above(cutoff - bound + 1e-9 * magnitude + error);
    match chain.without(moved, gone) {
        Err(_) => Fate::Closed,
        Ok(chain) => Fate::Open(Part {
            prices: chain.carry_prices(active.ascent.relaxation.prices()),
            chain: Arc::new(chain),
            bound: active.ascent.bound.max(active.part.bound),
            depth: active.part.depth,
            is_cold: false,
        }),
    }
}

/// The node to split at, and some of its labels: those that use little, if what it uses is in question.
fn split(model: &Model, ascent: &Ascent) -> Option<(u32, Vec<u32>)> {
    let mut best: Option<(f64, u32, Vec<u32>)> = None;
    let prices = ascent.label_prices(model);
    for (index, node) in model.nodes.iter().enumerate() {
        if node.costs.len() < 2 {
            continue;
        }
        let labels = ascent.relaxation.first[index]..ascent.relaxation.first[index + 1];
        let (shares, prices) = (&ascent.shares[labels.clone()], &prices[labels.clone()]);
        let excess = &ascent.relaxation.excess[labels];
        let favorite = (0..shares.len()).max_by(|first, second| {
            shares[*first].total_cmp(&shares[*second]).then(excess[*second].total_cmp(&excess[*first]))
        })?;
        let mean: f64 = shares.iter().zip(prices).map(|(share, price)| share * price).sum();
        let spread: f64 = shares.iter().zip(prices).map(|(share, price)| share * (price - mean).abs()).sum();
        let second = (0..excess.len()).filter(|label| *label != favorite).map(|label| excess[label]);
        let second = second.fold(f64::INFINITY, f64::min);
        let score = spread + (1.0 - shares[favorite]) * second.max(1.0) + 1e-6 / (1.0 + second);
        if best.as_ref().is_none_or(|(most, ..)| score > *most) {
            let low: Vec<u32> = (0..prices.len() as u32).filter(|label| prices[*label as usize] <= mean).collect();
            let low = if low.is_empty() || low.len() == prices.len() { vec![favorite as u32] } else { low };
            best = Some((score, index as u32, low));
        }
    }
    best.map(|(_, node, low)| (node, low))
}

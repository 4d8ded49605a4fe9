//! The ways in which a bundle can be cut.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bundle::Bundle;
use super::moves::{Moves, Place};
use super::parts::Parts;
use super::work::{Work, Worker};
use crate::program::{OpId, ValueId, is_heavy};
use crate::shard::{Layout, Sharding, Strategy, is_tie};

/// One way to cut a bundle.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Of every op of the bundle.
    pub(super) ops: Vec<Cut>,
    /// Of computing, in all trips.
    pub(super) compute_seconds: f64,
    /// Of moving values inside of the bundle, in all trips.
    pub(super) inner_seconds: f64,
}

/// How an op is cut.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) strategy: Strategy,
    /// How it wants its operands.
    pub(super) wanted: SmallVec<[Place; 3]>,
    /// How its results come out, and how they lie once they are finished.
    pub(super) made: SmallVec<[Place; 1]>,
    pub(super) lies: SmallVec<[Place; 1]>,
}

/// What choices are made of.
pub(super) struct Scene<'a, 'p> {
    /// Nothing in it is cut, but for what is tried out.
    pub(super) layout: Layout<'p>,
    pub(super) parts: Parts<'a>,
    pub(super) work: &'a Work,
    pub(super) worker: Worker<'a>,
}

impl<'a, 'p> Scene<'a, 'p> {
    /// All ways to cut a bundle, the uncut first.
    pub(super) fn choices(&mut self, moves: &mut Moves<'_>, bundle: &Bundle) -> Vec<Choice> {
        let cuts = if bundle.is_heavy { self.heavy(bundle.ops[0]) } else { self.light(bundle) };
        let mut choices = Vec::with_capacity(cuts.len());
        for ops in cuts {
            let compute_seconds = self.compute_seconds(bundle, &ops);
            let inner_seconds = self.inner_seconds(moves, bundle, &ops);
            if inner_seconds.is_finite() {
                choices.push(Choice { ops, compute_seconds, inner_seconds });
            }
        }
        if is_heavy(&self.layout.program.ops[bundle.ops[0]].op) {
            drop_slow(&mut choices);
        }
        choices
    }

    /// Every axis cuts one of the factors, or none.
    fn heavy(&self, op: OpId) -> Vec<Vec<Cut>> {
        let rule = self.layout.rule(op);
        let mut found = vec![Strategy::whole(rule)];
        for pieces in &self.parts.axes.pieces {
            for index in 0..found.len() {
                for factor in 0..rule.factors.len() {
                    let mut strategy = found[index].clone();
                    let add = |piece| {
                        let is_fine = strategy.may_add(rule, &self.layout.mesh, factor as u16, piece).is_ok();
                        if is_fine {
                            strategy.factors[factor].push(piece);
                        }
                        is_fine
                    };
                    if pieces.iter().copied().all(add) && self.divides(op, &strategy, factor) {
                        found.push(strategy);
                    }
                }
            }
        }
        found.into_iter().map(|strategy| vec![self.cut(op, strategy, None)]).collect()
    }

    /// Whether all parts of a factor are of the same size, also in every trip.
    fn divides(&self, op: OpId, strategy: &Strategy, factor: usize) -> bool {
        let size = self.layout.rule(op).factors[factor].size;
        let parts = self.layout.mesh.product(&strategy.factors[factor]);
        size.is_multiple_of(parts * self.parts.time.factor_trips(op, factor))
    }

    /// Every axis cuts one of the dimensions of the largest value, or none; all else follows.
    fn light(&mut self, bundle: &Bundle) -> Vec<Vec<Cut>> {
        let program = self.layout.program;
        let values = |op: &OpId| {
            let operation = &program.ops[*op];
            operation.operands.iter().chain(&operation.results).copied().collect::<SmallVec<[ValueId; 4]>>()
        };
        let weight = |value: &ValueId| (program.ty(*value).elements(), program.shape(*value).len());
        let candidates = bundle.ops.iter().flat_map(values).filter(|&value| !self.layout.is_free(value));
        let Some(seed) = candidates.max_by_key(|value| (weight(value), std::cmp::Reverse(*value))) else {
            return Vec::new();
        };
        let rank = program.shape(seed).len() as u32;
        let mut places = vec![Place::default()];
        for axis in 0..self.parts.axes.len() {
            for index in 0..places.len() {
                let place = places[index];
                places.extend((1..=rank).map(|spot| place.with(axis, spot)));
            }
        }
        places.retain(|&place| self.parts.time.divides(self.parts.axes, seed, program.ty(seed), place));
        let mut found: Vec<Vec<Cut>> = Vec::new();
        for place in places {
            found.extend(self.follow(bundle, seed, place));
        }
        found
    }

    /// How a bundle is cut where one of its values lies so.
    fn follow(&mut self, bundle: &Bundle, seed: ValueId, place: Place) -> Option<Vec<Cut>> {
        for axis in 0..self.parts.axes.len() {
            let Some(dim) = (place.spot(axis) as usize).checked_sub(1) else { continue };
            for &piece in &self.parts.axes.pieces[axis] {
                if !self.layout.may_cut(seed, dim, piece) {
                    self.layout.clear(&bundle.ops);
                    return None;
                }
                self.layout.cut(seed, dim, piece);
            }
        }
        self.layout.propagate_within(&bundle.ops);
        let cuts = bundle.ops.iter().map(|&op| {
            let lies = |value: &ValueId| self.layout.sharding(*value).clone();
            let results: SmallVec<[Sharding; 1]> = self.layout.program.ops[op].results.iter().map(lies).collect();
            self.cut(op, self.layout.strategy(op).clone(), Some(results))
        });
        let cuts: Vec<Cut> = cuts.collect();
        self.layout.clear(&bundle.ops);
        Some(cuts)
    }

    fn cut(&self, op: OpId, strategy: Strategy, results: Option<SmallVec<[Sharding; 1]>>) -> Cut {
        let (rule, mesh, operation) = (self.layout.rule(op), &self.layout.mesh, &self.layout.program.ops[op]);
        if is_tie(&operation.op) {
            let whole = |values: &[ValueId]| values.iter().map(|_| Place::default()).collect::<Vec<_>>();
            let made: SmallVec<[Place; 1]> = whole(&operation.results).into();
            return Cut { strategy, wanted: whole(&operation.operands).into(), lies: made.clone(), made };
        }
        let wanted = rule.operands.iter().map(|labels| self.parts.axes.place(&strategy.sharding(rule, mesh, labels)));
        let made: SmallVec<[Place; 1]> =
            rule.results.iter().map(|labels| self.parts.axes.place(&strategy.result(rule, mesh, labels))).collect();
        let lies = match results {
            Some(results) => results.iter().map(|sharding| self.parts.axes.place(sharding)).collect(),
            None => made.iter().map(|place| place.finished(self.parts.axes.len())).collect(),
        };
        Cut { wanted: wanted.collect(), strategy, made, lies }
    }

    fn compute_seconds(&self, bundle: &Bundle, cuts: &[Cut]) -> f64 {
        let seconds = |(&op, cut): (&OpId, &Cut)| self.work.seconds(self.worker, &self.parts, op, cut);
        bundle.ops.iter().zip(cuts).map(seconds).sum()
    }

    /// What is moved between the ops of a bundle.
    fn inner_seconds(&self, moves: &mut Moves<'_>, bundle: &Bundle, cuts: &[Cut]) -> f64 {
        let program = self.layout.program;
        let mut lies: FxHashMap<ValueId, (Place, Place)> = FxHashMap::default();
        let mut paid: Vec<(ValueId, Place)> = Vec::new();
        let mut seconds = 0.0;
        for (&op, cut) in bundle.ops.iter().zip(cuts) {
            for (&operand, &wanted) in program.ops[op].operands.iter().zip(&cut.wanted) {
                let Some(&(made, finished)) = lies.get(&operand) else { continue };
                let may_move = |to: Place| self.parts.may_move(operand, made, to);
                if !may_move(finished) || !may_move(wanted) {
                    return f64::INFINITY;
                }
                let times = self.parts.time.trips(op) as f64;
                let ty = self.parts.tile(operand);
                if made != finished && !paid.contains(&(operand, finished)) {
                    paid.push((operand, finished));
                    seconds += times * moves.seconds(&ty, made, finished);
                }
                if finished != wanted && !paid.contains(&(operand, wanted)) {
                    paid.push((operand, wanted));
                    seconds += times * moves.seconds(&ty, finished, wanted);
                }
            }
            for ((&result, &made), &finished) in program.ops[op].results.iter().zip(&cut.made).zip(&cut.lies) {
                lies.insert(result, (made, finished));
            }
        }
        seconds
    }
}

/// Drops the ways in which much is computed that others compute too.
fn drop_slow(choices: &mut Vec<Choice>) {
    let least = choices.iter().map(|choice| choice.compute_seconds).fold(f64::INFINITY, f64::min);
    choices.retain(|choice| choice.compute_seconds <= MOST_SLOW * least + LITTLE_SECONDS);
}

/// Ways that take longer than this many times the fastest are left, unless they take little.
const MOST_SLOW: f64 = 1.7;
const LITTLE_SECONDS: f64 = 200e-6;

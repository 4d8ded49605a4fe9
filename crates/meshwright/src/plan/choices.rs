//! The ways in which a bundle can be cut.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bundle::Bundle;
use super::fixed::Fixed;
use super::moves::{Moves, PARTIAL, Place};
use super::parts::Parts;
use super::told::Rewriting;
use super::work::{Work, Worker};
use crate::program::{Binary, Id, Op, OpId, ValueId, is_heavy};
use crate::shard::{Layout, PieceSet, Sharding, Strategy, is_tie};

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
    /// `None` where computing costs nothing, but must not be done twice.
    pub(super) worker: Option<Worker<'a>>,
    pub(super) fixed: Option<&'a Fixed<'p>>,
    pub(super) rewriting: &'a Rewriting,
    /// For every value whether the program gives it back, as no argument's next value, and nobody reads it.
    pub(super) is_only_given: &'a [bool],
    /// Pieces that do not cut what is cut into microbatches.
    pub(super) unbatched: PieceSet,
}

impl<'a, 'p> Scene<'a, 'p> {
    /// All ways to cut a bundle, the uncut first.
    pub(super) fn choices(&mut self, moves: &mut Moves<'_>, bundle: &Bundle) -> Vec<Choice> {
        let mut cuts = match bundle.ops[..] {
            [op] if bundle.is_heavy => self.heavy(op),
            _ => self.light(bundle),
        };
        if !self.unbatched.is_empty() {
            cuts.retain(|cuts| bundle.ops.iter().zip(cuts).all(|(&op, cut)| !self.cuts_unbatched(op, &cut.strategy)));
        }
        if let Some(fixed) = self.fixed {
            let mut decided = self.decided(bundle, fixed);
            for cuts in cuts.iter_mut().chain([&mut decided]) {
                bundle.ops.iter().zip(cuts).for_each(|(&op, cut)| fixed.store(self.parts.axes, op, cut));
            }
            let allows =
                |cuts: &Vec<Cut>| bundle.ops.iter().zip(cuts).all(|(&op, cut)| fixed.allows(self.parts.axes, op, cut));
            cuts.retain(allows);
            let is_allowed = cuts.is_empty() || allows(&decided);
            if is_allowed
                && !cuts
                    .iter()
                    .any(|cuts| cuts.iter().zip(&decided).all(|(left, right)| left.strategy == right.strategy))
            {
                cuts.insert(0, decided);
            }
        }
        let mut choices = Vec::with_capacity(cuts.len());
        for mut ops in cuts {
            let given_seconds = self.finish_given(moves, bundle, &mut ops);
            let compute_seconds = self.compute_seconds(bundle, &ops);
            let inner_seconds = given_seconds + self.inner_seconds(moves, bundle, &ops);
            if inner_seconds.is_finite() {
                choices.push(Choice { ops, compute_seconds, inner_seconds });
            }
        }
        if is_heavy(&self.layout.program.ops[bundle.ops[0]].op) {
            match self.worker {
                Some(_) => self.drop_slow(&mut choices, bundle.ops[0]),
                None => self.drop_repeated(&mut choices),
            }
        }
        choices
    }

    /// Whether a strategy cuts what is cut into microbatches by pieces that should not.
    fn cuts_unbatched(&self, op: OpId, strategy: &Strategy) -> bool {
        let mut factors = strategy.factors.iter().enumerate();
        factors.any(|(factor, pieces)| {
            self.parts.time.factor_trips(op, factor) > 1 && self.unbatched.intersects(PieceSet::of(pieces))
        })
    }

    /// Brings parts of sums that the program gives back, and nobody reads, where that is cheapest. Gives what it
    /// takes.
    fn finish_given(&self, moves: &mut Moves<'_>, bundle: &Bundle, cuts: &mut [Cut]) -> f64 {
        let (program, axes) = (self.layout.program, self.parts.axes);
        let mut seconds = 0.0;
        for (&op, cut) in bundle.ops.iter().zip(cuts) {
            for (index, &value) in program.ops[op].results.iter().enumerate() {
                let made = cut.made[index];
                if !self.is_only_given[value.index()] || !made.is_partial(axes.len()) {
                    continue;
                }
                let ty = self.parts.tile(value);
                let mut places = vec![made.finished(axes.len())];
                for axis in (0..axes.len()).filter(|&axis| made.spot(axis) == PARTIAL) {
                    for place in places.clone() {
                        places.extend((1..=ty.rank() as u32).map(|spot| place.with(axis, spot)));
                    }
                }
                places.retain(|&place| self.parts.time.divides(axes, value, program.ty(value), place));
                let price = |&place: &Place| (moves.seconds(&ty, made, place), place);
                let cheapest = places.iter().map(price).min_by(|left, right| left.0.total_cmp(&right.0));
                if let Some((own, place)) = cheapest {
                    cut.lies[index] = place;
                    seconds += own * self.parts.time.trips(op) as f64;
                }
            }
        }
        seconds
    }

    /// A bundle as it was decided before.
    fn decided(&self, bundle: &Bundle, fixed: &Fixed<'_>) -> Vec<Cut> {
        let cut = |&op: &OpId| {
            let layout = fixed.layout(op);
            let lies = |value: &ValueId| layout.sharding(*value).finished();
            let results = self.layout.program.ops[op].results.iter().map(lies).collect();
            self.cut(op, layout.strategy(op).clone(), (!bundle.is_heavy).then_some(results))
        };
        bundle.ops.iter().map(cut).collect()
    }

    /// Drops the ways in which devices compute what others compute too, if there are others.
    fn drop_repeated(&self, choices: &mut Vec<Choice>) {
        let mesh = &self.layout.mesh;
        let parts = |choice: &Choice| -> usize {
            choice.ops[0].strategy.factors.iter().map(|pieces| mesh.product(pieces)).product()
        };
        let most = choices.iter().map(parts).max();
        choices.retain(|choice| Some(parts(choice)) == most);
    }

    /// Drops the ways in which much is computed that others compute too. What is cut into microbatches keeps the axes
    /// that cut its batch, so that the fastest way stays for every set of these.
    fn drop_slow(&self, choices: &mut Vec<Choice>, op: OpId) {
        let least = choices.iter().map(|choice| choice.compute_seconds).fold(f64::INFINITY, f64::min);
        let operation = &self.layout.program.ops[op];
        let values = || operation.results.iter().chain(&operation.operands);
        let batch_axes = |choice: &Choice| -> SmallVec<[u32; 4]> {
            let cut = &choice.ops[0];
            let places = values().zip(cut.made.iter().chain(&cut.wanted));
            places.map(|(&value, &place)| self.parts.time.batch_axes(self.parts.axes, value, place)).collect()
        };
        let mut fastest: FxHashMap<SmallVec<[u32; 4]>, f64> = FxHashMap::default();
        for choice in &*choices {
            let seconds = fastest.entry(batch_axes(choice)).or_insert(f64::INFINITY);
            *seconds = seconds.min(choice.compute_seconds);
        }
        choices.retain(|choice| {
            let seconds = choice.compute_seconds;
            seconds <= MOST_SLOW * least + LITTLE_SECONDS || fastest.get(&batch_axes(choice)) == Some(&seconds)
        });
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
        let slices = self.rewriting.slices_of(op, factor);
        size.is_multiple_of(parts * slices * self.parts.time.factor_trips(op, factor))
    }

    /// Every axis cuts one of the dimensions of the largest value, or none; all else follows.
    fn light(&mut self, bundle: &Bundle) -> Vec<Vec<Cut>> {
        let program = self.layout.program;
        let values = |op: &OpId| {
            let operation = &program.ops[*op];
            operation.operands.iter().chain(&operation.results).copied().collect::<SmallVec<[ValueId; 4]>>()
        };
        let may_cut =
            |value: &ValueId| self.parts.axes.pieces.iter().all(|pieces| self.layout.may_ever_cut(*value, pieces[0]));
        let weight = |value: &ValueId| (program.ty(*value).elements(), program.shape(*value).len(), may_cut(value));
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
        let sums = self.sums(bundle);
        for axis in 0..if sums.is_empty() { 0 } else { self.parts.axes.len() } {
            for index in 0..found.len() {
                found.extend(self.carried(&found[index], &sums, axis));
            }
        }
        found
    }

    /// Ops of a bundle that add up results of several products: of parts of sums they make parts of sums. Each with
    /// whether it is the last.
    fn sums(&self, bundle: &Bundle) -> Vec<(usize, bool)> {
        let program = self.layout.program;
        let mut sums: Vec<(usize, bool)> = Vec::new();
        let mut products = 0;
        for (index, &op) in bundle.ops.iter().enumerate() {
            let operation = &program.ops[op];
            if operation.op != Op::Binary(Binary::Add) {
                continue;
            }
            let makers = || operation.operands.iter().filter_map(|&value| program.producer(value));
            let is_summed = |maker: OpId| sums.iter().any(|&(sum, _)| bundle.ops[sum] == maker);
            let of_products = makers().filter(|&maker| is_heavy(&program.ops[maker].op)).count();
            if of_products > 0 || makers().any(is_summed) {
                products += of_products;
                sums.push((index, true));
            }
        }
        if products < 2 {
            return Vec::new();
        }
        for place in 0..sums.len() {
            let result = program.ops[bundle.ops[sums[place].0]].results[0];
            let reads = |op: &OpId| program.ops[*op].operands.contains(&result);
            let is_summed = |index: usize| sums.iter().any(|&(sum, _)| sum == index);
            let mut readers = (0..bundle.ops.len()).filter(|&index| reads(&bundle.ops[index]));
            sums[place].1 = !readers.all(is_summed) || !bundle.ops.iter().any(reads);
        }
        sums
    }

    /// The same where sums are taken of parts of sums over an axis, and finished once.
    fn carried(&self, cuts: &[Cut], sums: &[(usize, bool)], axis: usize) -> Option<Vec<Cut>> {
        let is_free = |cut: &Cut| cut.made[0].spot(axis) == 0 && cut.wanted.iter().all(|place| place.spot(axis) == 0);
        if !sums.iter().all(|&(index, _)| is_free(&cuts[index])) {
            return None;
        }
        let mut cuts = cuts.to_vec();
        for &(index, is_last) in sums {
            let cut = &mut cuts[index];
            cut.wanted.iter_mut().for_each(|place| *place = place.with(axis, PARTIAL));
            cut.made[0] = cut.made[0].with(axis, PARTIAL);
            if !is_last {
                cut.lies[0] = cut.lies[0].with(axis, PARTIAL);
            }
        }
        Some(cuts)
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
        let Some(worker) = self.worker else { return 0.0 };
        let seconds = |(&op, cut): (&OpId, &Cut)| self.work.seconds(worker, &self.parts, op, cut);
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
                // What is stored otherwise than it is made is brought there.
                let is_stored = self.fixed.is_some_and(|fixed| fixed.is_stored(result));
                if is_stored && made != finished && !made.is_partial(self.parts.axes.len()) {
                    let times = self.parts.time.trips(op) as f64;
                    seconds += times * moves.seconds(&self.parts.tile(result), made, finished);
                }
            }
        }
        seconds
    }
}

/// Ways that take longer than this many times the fastest are left, unless they take little.
const MOST_SLOW: f64 = 1.7;
const LITTLE_SECONDS: f64 = 200e-6;

//! Tiles in time as loops.
//!
//! Ops that are cut by a temporal axis run in a loop, one slice a trip. A sum over the axis is ready
//! when its loop ends; what needs it comes after, perhaps in another loop. So ops are put on levels:
//! on each, first what runs once, then a loop. Sums are accumulated, tiled values that leave their
//! loop are stacked.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Reason;
use super::emit::Emitter;
use crate::program::{Binary, DType, Direction, Op, OpId, RegionId, Type, ValueId, Values};
use crate::shard::{Piece, PieceSet, Sharding, is_tie};

/// A branch or loop that cannot be cut in time as the layout says, with the pieces: inside of it a sum
/// over time, or a tile, is needed whole before the loop over time has ended.
pub(super) fn find_unlevel(emitter: &Emitter<'_, '_, '_>) -> Option<(OpId, PieceSet)> {
    let temporal = (0..emitter.mesh.axes.len()).filter(|&axis| emitter.mesh.axes[axis].temporal);
    let controls: Vec<OpId> =
        emitter.old.body().ops.iter().copied().filter(|&op| is_tie(&emitter.old.ops[op].op)).collect();
    for axis in temporal {
        for &op in &controls {
            let mut inside = FxHashSet::default();
            emitter.old.collect_inside(op, &mut inside);
            if emitter.needs_early(axis, op, &inside) {
                return Some((op, PieceSet::of(&emitter.mesh.pieces(axis))));
            }
        }
    }
    None
}

impl Emitter<'_, '_, '_> {
    /// Whether a branch or loop needs something whole that is made inside of it as a tile or a sum over
    /// an axis.
    fn needs_early(&self, axis: usize, op: OpId, inside: &FxHashSet<ValueId>) -> bool {
        let is_early =
            |value: ValueId, wanted: &Sharding| inside.contains(&value) && !self.lies_on_axis_as(axis, value, wanted);
        let reads_early = |&inner: &OpId| {
            self.reads(inner).iter().any(|(value, wanted)| is_early(*value, wanted))
                || is_tie(&self.old.ops[inner].op) && self.needs_early(axis, inner, inside)
        };
        self.old.ops[op].regions.iter().enumerate().any(|(index, &region)| {
            let region = &self.old.regions[region];
            let gives_early = |(result, &value): (usize, &ValueId)| is_early(value, &self.given(op, index, result));
            region.ops.iter().any(reads_early) || region.results.iter().enumerate().any(gives_early)
        })
    }

    /// Whether a value is made with the same cuts along an axis as are wanted. Whole values can be
    /// sliced anywhere.
    fn lies_on_axis_as(&self, axis: usize, value: ValueId, wanted: &Sharding) -> bool {
        if self.layout.is_free(value) {
            return true;
        }
        if let Some(op) = self.old.producer(value) {
            return self.is_same_on(axis, op, value, wanted) || self.made_whole(axis, op, value);
        }
        let made = self.layout.sharding(value);
        !self.is_on_axis(axis, made) || self.are_alike_on(axis, made, wanted)
    }

    fn made_whole(&self, axis: usize, op: OpId, value: ValueId) -> bool {
        let Some(index) = self.old.ops[op].results.iter().position(|&result| result == value) else { return false };
        !self.is_on_axis(axis, &self.layout.produced(op)[index])
    }

    /// Whether an axis has to do with how something lies.
    fn is_on_axis(&self, axis: usize, lies: &Sharding) -> bool {
        lies.dims.iter().flatten().chain(&lies.partial).any(|&piece| self.mesh.axis_of(piece) == axis)
    }

    /// The temporal axis that ops of a region have to loop over, if there is one left.
    pub(super) fn axis_to_enter(&self, ops: &[OpId]) -> Option<usize> {
        let temporal = (0..self.mesh.axes.len()).filter(|&axis| self.mesh.axes[axis].temporal);
        temporal.filter(|axis| !self.entered.contains(axis)).find(|&axis| {
            if self.is_sliced(axis) {
                return ops.iter().any(|&op| self.works_on_tiles(op, axis));
            }
            let tiled: Vec<OpId> = ops.iter().copied().filter(|&op| self.is_tiled(op, axis)).collect();
            // Where all of it is inside of one loop, the axis is entered there.
            tiled.len() > 1 || tiled.first().is_some_and(|&op| self.works_on_tiles(op, axis))
        })
    }

    /// Whether an op, or one inside of it, is cut by an axis.
    fn is_tiled(&self, op: OpId, axis: usize) -> bool {
        let inside = |&region: &RegionId| self.old.regions[region].ops.iter().any(|&op| self.is_tiled(op, axis));
        let operation = &self.old.ops[op];
        self.works_on_tiles(op, axis) || is_tie(&operation.op) && operation.regions.iter().any(inside)
    }

    /// Whether an op itself is cut by an axis.
    pub(super) fn works_on_tiles(&self, op: OpId, axis: usize) -> bool {
        let on_axis = |piece: &Piece| self.mesh.axis_of(*piece) == axis;
        let operation = &self.old.ops[op];
        if is_tie(&operation.op) {
            return operation.results.iter().any(|&value| self.is_on_axis(axis, self.layout.sharding(value)));
        }
        let carries = || self.layout.carried(op).is_some_and(|carried| carried.pieces.iter().any(on_axis));
        self.layout.strategy(op).factors.iter().flatten().any(on_axis) || carries()
    }

    /// Writes ops of a region that an axis cuts.
    pub(super) fn ops_in_time(&mut self, axis: usize, ops: &[OpId]) -> Result<(), String> {
        if self.is_sliced(axis) {
            return self.ops_in_slices(axis, ops);
        }
        let levels = Levels::find(self, axis, ops);
        self.entered.push(axis);
        for level in 0..levels.count {
            let on_level = |inside: bool| -> Vec<OpId> {
                let fits = |&&op: &&OpId| levels.of[&op] == Level { number: level, inside };
                ops.iter().filter(fits).copied().collect()
            };
            self.ops(&on_level(false))?;
            let inside = on_level(true);
            if !inside.is_empty() {
                let leaving = self.leaving(&inside);
                self.time_loop(axis, &inside, &leaving)?;
            }
        }
        self.entered.pop();
        Ok(())
    }

    /// Values that ops in a loop make and others read.
    pub(super) fn leaving(&mut self, inside: &[OpId]) -> Vec<ValueId> {
        if self.readers.is_none() {
            self.readers = Some(self.find_readers());
        }
        let inside_set: FxHashSet<OpId> = inside.iter().copied().collect();
        let readers = self.readers.as_ref();
        let is_read_outside = |value: &ValueId| {
            let readers = readers.and_then(|readers| readers.get(value));
            readers.is_some_and(|ops| ops.iter().any(|op| op.is_none_or(|op| !inside_set.contains(&op))))
        };
        let made = inside.iter().flat_map(|&op| self.old.ops[op].results.iter().copied());
        let is_needed = |value: &ValueId| self.needed.as_ref().is_none_or(|needed| needed.contains(value));
        // Whoever reads it here may stand in another piece, too.
        let is_given = |value: &ValueId| self.given_on.contains(value);
        made.filter(|value| is_read_outside(value) || is_given(value))
            .filter(is_needed)
            .filter(|&value| !self.layout.is_free(value))
            .collect()
    }

    /// For every value, the ops of its region that read it, themselves or by what is inside of them,
    /// and `None` where the region gives it back.
    fn find_readers(&self) -> FxHashMap<ValueId, Vec<Option<OpId>>> {
        let mut readers = FxHashMap::default();
        self.add_readers(self.old.body, &mut readers);
        readers
    }

    fn add_readers(&self, region: RegionId, readers: &mut FxHashMap<ValueId, Vec<Option<OpId>>>) {
        let region = &self.old.regions[region];
        let mut found = Vec::new();
        for &op in &region.ops {
            self.old.outer_reads(op).into_iter().for_each(|value| self.read(value, Sharding::default(), &mut found));
            for (value, _) in found.drain(..) {
                readers.entry(value).or_default().push(Some(op));
            }
            let operation = &self.old.ops[op];
            if is_tie(&operation.op) {
                // What is made inside is not read by what is around it.
                for &inner in &operation.regions {
                    self.add_readers(inner, readers);
                }
            }
        }
        for &result in &region.results {
            self.read(result, Sharding::default(), &mut found);
            for (value, _) in found.drain(..) {
                readers.entry(value).or_default().push(None);
            }
        }
    }

    pub(super) fn time_loop(&mut self, axis: usize, ops: &[OpId], leaving: &[ValueId]) -> Result<(), String> {
        let counter_type = Type::scalar(DType::I32);
        let body = self.open();
        let counter = self.new.add_region_argument(body, counter_type.clone());
        self.set_counter(axis, counter);
        // Where there is no other loop inside, what leaves this one does so as soon as it is made: sums would be there
        // until the end of the trip. Those that are reduced in it are added up at its end, so that nothing waits.
        let runs = self.one_by_one(ops).unwrap_or_else(|| vec![ops.to_vec()]);
        let mut leaves: FxHashMap<OpId, Vec<ValueId>> = FxHashMap::default();
        leaving.iter().for_each(|&value| leaves.entry(self.maker(value)).or_default().push(value));
        let mut reduced = Vec::new();
        let (mut left, mut yields, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        let mut leave = |emitter: &mut Self, value: ValueId| -> Result<(), String> {
            let (carried, result) = emitter.leave(axis, body, value)?;
            left.push(value);
            yields.push(result);
            outside.push(carried);
            Ok(())
        };
        for run in runs {
            self.ops(&run)?;
            for value in run.iter().filter_map(|op| leaves.remove(op)).flatten() {
                if self.reduce_in_loop(axis, value)? {
                    reduced.push(value);
                } else {
                    leave(self, value)?;
                }
            }
        }
        for value in reduced {
            leave(self, value)?;
        }
        let one = self.integer(1)?;
        yields.insert(0, self.binary(Binary::Add, counter, one)?);
        self.new.regions[body].results = yields;
        self.close();
        let condition = self.condition(axis, &outside)?;
        let mut operands = Values::from_slice(&[self.integer(0)?]);
        for Leaving { ty, start, .. } in &outside {
            operands.push(self.splat(ty, *start)?);
        }
        let results = self.apply_all(Op::While, &operands, &[condition, body])?;
        for ((value, carried), &new) in left.into_iter().zip(outside).zip(&results[1..]) {
            self.define(value, new, carried.lies);
            self.finish_after_loop(value)?;
        }
        Ok(())
    }

    /// Reduces what is part of a sum over an axis, if it is reduced in every trip.
    fn reduce_in_loop(&mut self, axis: usize, value: ValueId) -> Result<bool, String> {
        let (_, lies) = self.made_here(value)?;
        let is_sum = lies.partial.iter().any(|&piece| self.mesh.axis_of(piece) == axis);
        let reduced = self.reduced_in_loop(value, &lies, axis);
        let is_reduced = is_sum && reduced != lies;
        if is_reduced {
            self.get(value, &reduced, Reason::Made { by: self.maker(value) })?;
            self.forget(value, &lies);
        }
        Ok(is_reduced)
    }

    /// The region that asks whether there are trips left.
    fn condition(&mut self, axis: usize, carried: &[Leaving]) -> Result<RegionId, String> {
        let region = self.open();
        let counter = self.new.add_region_argument(region, Type::scalar(DType::I32));
        for Leaving { ty, .. } in carried {
            self.new.add_region_argument(region, ty.clone());
        }
        let trips = self.integer(self.mesh.axes[axis].size)?;
        let goes_on = self.compare(Direction::Less, counter, trips)?;
        self.new.regions[region].results = vec![goes_on];
        self.close();
        Ok(region)
    }

    /// Carries a value out of the loop being written: adds it up, or puts its slice into its place.
    /// Gives what is carried and what the trip gives on.
    fn leave(&mut self, axis: usize, body: RegionId, value: ValueId) -> Result<(Leaving, ValueId), String> {
        let (made, lies) = self.made_here(value)?;
        let on_axis = |piece: &Piece| self.mesh.axis_of(*piece) == axis;
        if lies.partial.iter().any(on_axis) {
            let ty = self.new.ty(made).clone();
            let sum = self.new.add_region_argument(body, ty.clone());
            let next = self.binary(lies.reduction.binary(), sum, made)?;
            let start = lies.reduction.neutral(ty.dtype);
            return Ok((Leaving { ty, start, lies: without_axis(&lies, on_axis) }, next));
        }
        let outside = without_axis(&lies, on_axis);
        let ty = outside.local_type(self.mesh, self.old.ty(value));
        let stack = self.new.add_region_argument(body, ty.clone());
        let leaving = Leaving { ty, start: 0, lies: outside };
        let Some(dim) = lies.dims.iter().position(|pieces| pieces.iter().any(on_axis)) else {
            // The same in every trip.
            return Ok((leaving, made));
        };
        let pieces: Vec<Piece> = lies.dims[dim].iter().copied().filter(on_axis).collect();
        let offset = self.offset(&pieces, self.new.shape(made)[dim])?;
        let zero = self.integer(0)?;
        let mut operands = vec![zero; lies.dims.len() + 2];
        (operands[0], operands[1], operands[2 + dim]) = (stack, made, offset);
        Ok((leaving, self.apply(Op::DynamicUpdateSlice, &operands)?))
    }

    /// What a sum is reduced to in every trip, where its reductions are not left for after the loop.
    fn reduced_in_loop(&self, value: ValueId, lies: &Sharding, axis: usize) -> Sharding {
        self.reduced_to(lies, &self.in_entered_loops(self.layout.sharding(value)), axis)
    }

    pub(super) fn reduced_to(&self, lies: &Sharding, wanted: &Sharding, axis: usize) -> Sharding {
        let (cut, eager) = (wanted.cut(), self.layout.eager);
        let becomes_cut =
            |&piece: &Piece| !self.mesh.is_temporal(piece) && cut.contains(piece) && eager.contains(piece);
        if !lies.partial.iter().any(becomes_cut) || !wanted.partial.is_empty() || self.moves_tile(lies, wanted) {
            return lies.clone();
        }
        let partial = lies.partial.iter().copied().filter(|&piece| self.mesh.axis_of(piece) == axis).collect();
        Sharding {
            dims: without_axis(wanted, |piece| self.mesh.axis_of(*piece) == axis).dims,
            partial,
            reduction: lies.reduction,
        }
    }

    /// Finishes a sum that has left its last loop.
    pub(super) fn finish_after_loop(&mut self, value: ValueId) -> Result<(), String> {
        let (_, lies) = self.made_here(value)?;
        let wanted = self.in_entered_loops(self.layout.sharding(value)).finished();
        let is_temporal = |piece: &Piece| self.mesh.is_temporal(*piece);
        if self.moves_tile(&lies, &wanted) || lies.partial.is_empty() || lies.partial.iter().any(is_temporal) {
            return Ok(());
        }
        let by = self.maker(value);
        self.get(value, &wanted, Reason::Made { by })?;
        self.forget(value, &lies);
        Ok(())
    }

    /// Whether a tile in time would have to go to another place, which it can only after its loop.
    pub(super) fn moves_tile(&self, made: &Sharding, lies: &Sharding) -> bool {
        let is_temporal = |piece: &Piece| self.mesh.is_temporal(*piece);
        made.dims.iter().zip(&lies.dims).any(|(made, lies)| made != lies && made.iter().any(is_temporal))
    }

    /// A sharding without tiles of loops that are not being written.
    pub(super) fn in_entered_loops(&self, lies: &Sharding) -> Sharding {
        let is_here =
            |piece: &Piece| !self.mesh.is_temporal(*piece) || self.counter(self.mesh.axis_of(*piece)).is_some();
        let mut here = lies.clone();
        for pieces in here.dims.iter_mut() {
            let keep = pieces.iter().take_while(|piece| is_here(piece)).count();
            pieces.truncate(keep);
        }
        here
    }

    fn maker(&self, value: ValueId) -> OpId {
        self.old.producer(value).unwrap_or(self.op)
    }
}

/// A value on its way out of a loop.
struct Leaving {
    ty: Type,
    /// The bits that every element begins with.
    start: u128,
    /// How it lies once it is out.
    lies: Sharding,
}

pub(super) fn without_axis(lies: &Sharding, on_axis: impl Fn(&Piece) -> bool) -> Sharding {
    let mut outside = lies.clone();
    for pieces in outside.dims.iter_mut().chain([&mut outside.partial]) {
        pieces.retain(|piece| !on_axis(piece));
    }
    if outside.partial.is_empty() {
        outside.reduction = Default::default();
    }
    outside
}

/// When an op runs: before the loop of its level, or in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) number: usize,
    pub(super) inside: bool,
}

/// What an op reads of what others make on levels.
struct Read {
    maker: OpId,
    /// Whether it is needed as it is made, as far as the axis is concerned.
    is_same: bool,
    /// Whether it is made whole.
    is_whole: bool,
}

pub(super) struct Levels {
    pub(super) of: FxHashMap<OpId, Level>,
    count: usize,
}

impl Levels {
    /// Puts ops as early as they can be, then moves those in loops, and what comes after loops, to where
    /// they are needed, so that as little as possible crosses from loop to loop: a loss that is divided by a
    /// count of tokens does not need its sum before the backward pass begins.
    pub(super) fn find(emitter: &Emitter<'_, '_, '_>, axis: usize, ops: &[OpId]) -> Levels {
        let of = FxHashMap::with_capacity_and_hasher(ops.len(), Default::default());
        let mut levels = Levels { of, count: 1 };
        let mut makers: FxHashMap<ValueId, (OpId, usize)> =
            FxHashMap::with_capacity_and_hasher(ops.len(), Default::default());
        let mut all_made: Vec<Sharding> = Vec::with_capacity(ops.len());
        let mut all_reads: Vec<Vec<Read>> = Vec::with_capacity(ops.len());
        for &op in ops {
            let read = |(value, wanted): (ValueId, Sharding)| {
                let (maker, made) = makers.get(&value)?;
                let made = &all_made[*made];
                let is_same = emitter.are_alike_on(axis, made, &wanted);
                Some(Read { maker: *maker, is_same, is_whole: !emitter.is_on_axis(axis, made) })
            };
            let reads: Vec<Read> = emitter.reads(op).into_iter().filter_map(read).collect();
            // What a loop only passes on, such as weights behind a barrier, is not worth a loop of its own.
            let is_passed_on = |read: &Read| levels.of[&read.maker].inside && read.is_whole && read.is_same;
            let inside = emitter.is_tiled(op, axis) || reads.iter().any(is_passed_on);
            let mut number = 0;
            for read in &reads {
                let made = levels.of[&read.maker];
                let is_late = made.inside && !(inside && read.is_same);
                number = number.max(made.number + usize::from(is_late));
            }
            levels.of.insert(op, Level { number, inside });
            levels.count = levels.count.max(number + 1);
            for (&result, made) in emitter.old.ops[op].results.iter().zip(emitter.layout.produced(op)) {
                makers.insert(result, (op, all_made.len()));
                all_made.push(made);
            }
            all_reads.push(reads);
        }
        levels.delay(ops, &all_reads);
        levels
    }

    fn delay(&mut self, ops: &[OpId], all_reads: &[Vec<Read>]) {
        // The latest level of each op that its readers allow.
        let mut latest: FxHashMap<OpId, usize> = FxHashMap::default();
        for (&op, reads) in ops.iter().zip(all_reads).rev() {
            let Some(level) = self.of.get_mut(&op) else { continue };
            match (latest.get(&op), level.inside) {
                (Some(&number), true) => level.number = number,
                (number, false) if level.number > 0 => level.number = number.copied().unwrap_or(self.count - 1),
                _ => {}
            }
            let reader = *level;
            for &Read { maker, is_same, .. } in reads {
                let is_before = !(reader.inside && is_same) && self.of[&maker].inside;
                let number = reader.number.saturating_sub(usize::from(is_before));
                let known = latest.entry(maker).or_insert(number);
                *known = (*known).min(number);
            }
        }
    }
}

impl Emitter<'_, '_, '_> {
    /// What an op reads that is not free, also inside of it and through free values, and how it
    /// needs it.
    pub(super) fn reads(&self, op: OpId) -> Vec<(ValueId, Sharding)> {
        let mut found = Vec::new();
        let operation = &self.old.ops[op];
        for (index, &value) in operation.operands.iter().enumerate() {
            let wanted = match operation.op {
                Op::OptimizationBarrier | Op::While => self.layout.sharding(operation.results[index]).clone(),
                Op::Case | Op::If => Sharding::whole(self.old.shape(value).len()),
                _ => self.wanted(op, index),
            };
            self.read(value, wanted, &mut found);
        }
        for index in 0..operation.regions.len() {
            self.reads_inside(op, index, &mut found);
        }
        found
    }

    /// What a region of an op reads from outside of it.
    fn reads_inside(&self, op: OpId, index: usize, found: &mut Vec<(ValueId, Sharding)>) {
        let operation = &self.old.ops[op];
        let region = &self.old.regions[operation.regions[index]];
        let first = found.len();
        let mut own: FxHashSet<ValueId> = region.arguments.iter().copied().collect();
        for &inner in &region.ops {
            own.extend(&self.old.ops[inner].results);
            if is_tie(&operation.op) {
                found.extend(self.reads(inner));
                continue;
            }
            // A function of scalars reads scalars whole.
            let whole = |&value: &ValueId| (value, Sharding::whole(self.old.shape(value).len()));
            found.extend(self.old.ops[inner].operands.iter().map(whole));
            for nested in 0..self.old.ops[inner].regions.len() {
                self.reads_inside(inner, nested, found);
            }
        }
        for (result, &value) in region.results.iter().enumerate() {
            self.read(value, self.given(op, index, result), found);
        }
        let outer = found.split_off(first).into_iter().filter(|(value, _)| !own.contains(value));
        found.extend(outer.collect::<Vec<_>>());
    }

    pub(super) fn read(&self, value: ValueId, wanted: Sharding, found: &mut Vec<(ValueId, Sharding)>) {
        match self.old.producer(value).filter(|_| self.layout.is_free(value)) {
            // What free values are made of are scalars and constants.
            Some(op) => {
                for &operand in &self.old.ops[op].operands {
                    self.read(operand, Sharding::whole(self.old.shape(operand).len()), found);
                }
            }
            None => found.push((value, wanted)),
        }
    }

    /// Whether a value is needed as it is made, as far as an axis is concerned.
    pub(super) fn is_same_on(&self, axis: usize, maker: OpId, value: ValueId, wanted: &Sharding) -> bool {
        let Some(index) = self.old.ops[maker].results.iter().position(|&result| result == value) else { return false };
        self.are_alike_on(axis, &self.layout.produced(maker)[index], wanted)
    }

    /// Whether two shardings have the same tiles and sums along an axis. Tiles are the same only where
    /// what they are cut from is.
    fn are_alike_on(&self, axis: usize, made: &Sharding, wanted: &Sharding) -> bool {
        let on_axis = |piece: &Piece| self.mesh.axis_of(*piece) == axis;
        let is_tile = |pieces: &[Piece]| pieces.iter().any(on_axis);
        let same_tile = |made: &[Piece], wanted: &[Piece]| made == wanted || !is_tile(made) && !is_tile(wanted);
        let same_sum = is_tile(&made.partial) == is_tile(&wanted.partial)
            && (!is_tile(&made.partial) || made.reduction == wanted.reduction);
        same_sum && made.dims.iter().zip(&wanted.dims).all(|(made, wanted)| same_tile(made, wanted))
    }
}

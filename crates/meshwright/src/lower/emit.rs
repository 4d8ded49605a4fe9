//! The local program under way.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::postpone::postpone;
use super::reshard::{Haste, Move, Step, Ways};
use super::{Reason, Reshard};
use crate::program::{
    Argument, ArgumentClass, Binary, BroadcastInDim, DType, Dims, Direction, Id, Literal, LocationId, Op, OpId, Order,
    Program, RegionId, Type, ValueId, Values,
};
use crate::shard::{Layout, Mesh, Piece, Pieces, Reduction, Sharding};

pub(super) struct Emitter<'l, 'p, 'w> {
    pub(super) layout: &'l Layout<'p>,
    pub(super) old: &'p Program,
    pub(super) mesh: &'l Mesh,
    pub(super) new: Program,
    pub(super) ways: &'l mut Ways<'w>,
    /// Regions being written, the innermost last.
    scopes: Vec<Scope>,
    /// How each old value is there in the new program.
    versions: Vec<SmallVec<[Version; 1]>>,
    /// In which scope an old value was made.
    homes: Vec<u32>,
    /// The old op under way.
    pub(super) op: OpId,
    pub(super) location: LocationId,
    /// For new ops, but for those of the old one under way, whether they were written for others than the forward pass.
    is_late: Vec<bool>,
    channel: i64,
    /// Who exchanges along which pieces.
    pub(super) groups: FxHashMap<Pieces, Arc<[Vec<i64>]>>,
    /// Temporal axes whose loops are being written.
    pub(super) entered: Vec<usize>,
    /// Who reads what, found when the first such loop is written.
    pub(super) readers: Option<FxHashMap<ValueId, Vec<Option<OpId>>>>,
    pub(super) reshards: Vec<Reshard>,
    /// What barriers and loops over time have to let through, where that is not all.
    pub(super) needed: Option<FxHashSet<ValueId>>,
    /// What is read by others than the ops that are written.
    pub(super) given_on: FxHashSet<ValueId>,
}

/// A region being written.
struct Scope {
    region: RegionId,
    /// Old values that got a version here, to be forgotten at the end.
    made: Vec<ValueId>,
    /// Where the device stands along pieces.
    positions: FxHashMap<Pieces, ValueId>,
    /// The loop counter that is the position along a temporal axis.
    counter: Option<(usize, ValueId)>,
}

/// One form in which a value is there.
#[derive(Clone, Debug)]
struct Version {
    sharding: Sharding,
    value: ValueId,
    scope: u32,
    /// Copies made for the forward pass are not kept for the backward pass, nor the other way round.
    phase: Option<bool>,
}

/// A new value, and how it lies.
pub(super) type Source = (ValueId, Sharding);

impl<'l, 'p, 'w> Emitter<'l, 'p, 'w> {
    pub(super) fn new(layout: &'l Layout<'p>, ways: &'l mut Ways<'w>) -> Emitter<'l, 'p, 'w> {
        let old = layout.program;
        let mut new = Program::new(old.name.clone());
        new.locations = old.locations.clone();
        new.partitions = layout.mesh.devices();
        let body = Scope { region: new.body, made: Vec::new(), positions: FxHashMap::default(), counter: None };
        Emitter {
            layout,
            old,
            mesh: &layout.mesh,
            new,
            ways,
            scopes: vec![body],
            versions: vec![SmallVec::new(); old.values.len()],
            homes: vec![0; old.values.len()],
            op: OpId::from_index(0),
            location: Program::UNKNOWN_LOCATION,
            is_late: Vec::new(),
            channel: 0,
            groups: FxHashMap::default(),
            entered: Vec::new(),
            readers: None,
            reshards: Vec::new(),
            needed: None,
            given_on: FxHashSet::default(),
        }
    }

    pub(super) fn arguments(&mut self, stored: &[Sharding]) {
        for ((argument, &value), sharding) in self.old.arguments.iter().zip(&self.old.body().arguments).zip(stored) {
            let ty = sharding.local_type(self.mesh, self.old.ty(value));
            let new = self.new.add_argument(Argument { name: argument.name.clone(), ..argument.clone() }, ty);
            self.define(value, new, sharding.clone());
        }
    }

    pub(super) fn results(&mut self, stored: &[Sharding]) -> Result<(), String> {
        for (index, sharding) in stored.iter().enumerate() {
            let value = self.old.body().results[index];
            let new = self.get(value, sharding, Reason::Stored { result: index })?;
            self.new.add_result(new, self.old.results[index].clone());
        }
        Ok(())
    }

    /// The program, and for each of its ops whether it was written for others than the forward pass.
    pub(super) fn finish(mut self) -> (Program, Vec<bool>) {
        postpone(&mut self.new);
        let (program, origins) = self.new.compact_with_origins();
        self.end();
        let is_late = |origin: Option<OpId>| origin.is_some_and(|op| self.is_late[op.index()]);
        let is_late = origins.into_iter().map(is_late).collect();
        (program, is_late)
    }

    /// From now on new ops are written for this old one.
    pub(super) fn begin(&mut self, op: OpId) {
        self.end();
        (self.op, self.location) = (op, self.old.ops[op].location);
    }

    /// Notes what the new ops are for that were written for the old one under way.
    fn end(&mut self) {
        let written = self.new.ops.len();
        if written > self.is_late.len() {
            self.is_late.resize(written, !self.layout.anatomy.is_forward(self.op));
        }
    }

    /// Says what an old value is from here on.
    pub(super) fn define(&mut self, old: ValueId, new: ValueId, sharding: Sharding) {
        let scope = self.scopes.len() as u32 - 1;
        self.homes[old.index()] = scope;
        self.add_version(old, Version { sharding, value: new, scope, phase: None });
    }

    /// A form of an old value that serves both passes.
    pub(super) fn add_copy(&mut self, old: ValueId, new: ValueId, sharding: Sharding) {
        let scope = self.scopes.len() as u32 - 1;
        self.add_version(old, Version { sharding, value: new, scope, phase: None });
    }

    /// Takes a form of an old value out of use.
    pub(super) fn forget(&mut self, old: ValueId, sharding: &Sharding) {
        let others = |version: &mut Version| version.sharding != *sharding;
        self.versions[old.index()].retain(others);
        // Copies made from it are all there is now.
        for version in &mut self.versions[old.index()] {
            version.phase = None;
        }
    }

    fn add_version(&mut self, old: ValueId, version: Version) {
        self.scopes[version.scope as usize].made.push(old);
        self.versions[old.index()].push(version);
    }

    /// An old value in the form that is wanted, resharded where it must be. Reshards stand in the
    /// region where the value was made, so that loops do not repeat them.
    pub(super) fn get(&mut self, old: ValueId, wanted: &Sharding, reason: Reason) -> Result<ValueId, String> {
        let phase = Some(self.phase(reason));
        let fits = |version: &&Version| version.phase.is_none() || version.phase == phase;
        let versions = &self.versions[old.index()];
        if let Some(version) = versions.iter().filter(fits).find(|version| version.sharding == *wanted) {
            return Ok(version.value);
        }
        if self.layout.is_free(old) {
            return self.materialize(old, wanted, reason);
        }
        let sources: Vec<Version> = versions.iter().filter(fits).cloned().collect();
        let haste = self.haste(old, reason);
        let mut best: Option<(f64, Version, Vec<Move>)> = None;
        for source in sources {
            if let Some((moves, price)) = self.ways.find(self.old.ty(old), &source.sharding, wanted, haste)
                && best.as_ref().is_none_or(|(known, ..)| price < known)
            {
                best = Some((*price, source, moves.clone()));
            }
        }
        let Some((_, source, moves)) = best else {
            let wanted = wanted.describe(self.mesh);
            let there: Vec<String> =
                self.versions[old.index()].iter().map(|version| version.sharding.describe(self.mesh)).collect();
            return Err(format!("there is no way from `{}` to `{wanted}` for {old}", there.join("`, `")));
        };
        let scope = self.homes[old.index()].max(source.scope).max(self.loop_of(wanted, &moves));
        let inner = self.scopes.split_off(scope as usize + 1);
        // What is brought before a loop is there in all of it, for both passes.
        let phase = phase.filter(|_| !inner.iter().any(|scope| scope.counter.is_some()));
        let value = self.walk(old, &source, &moves, wanted);
        self.tell_reshard(old, reason, source.sharding, moves);
        self.scopes.extend(inner);
        let value = value?;
        self.add_version(old, Version { sharding: wanted.clone(), value, scope, phase });
        Ok(value)
    }

    /// The form of a value from which it is gathered where it is wanted, and how; none where more is done to it than
    /// that, or where that is done once for all trips of a loop.
    pub(super) fn gathers(&mut self, old: ValueId, wanted: &Sharding, by: OpId) -> Option<(Source, Vec<Move>)> {
        let phase = Some(self.layout.anatomy.is_forward(by));
        let versions = self.versions[old.index()].iter();
        let fits = |version: &&Version| version.phase.is_none() || version.phase == phase;
        let fitting: Vec<&Version> = versions.filter(fits).collect();
        let [version] = fitting[..] else { return None };
        let version = version.clone();
        if version.sharding == *wanted {
            return None;
        }
        let haste = self.haste(old, Reason::Read { by });
        let (moves, _) = self.ways.find(self.old.ty(old), &version.sharding, wanted, haste).as_ref()?;
        let moves = moves.clone();
        let scope = self.homes[old.index()].max(version.scope).max(self.loop_of(wanted, &moves)) as usize;
        let is_gathered = moves.iter().all(|next| matches!(next.step, Step::AllGather { .. }));
        (is_gathered && scope + 1 == self.scopes.len()).then_some(((version.value, version.sharding), moves))
    }

    /// Notes that a value was resharded in the region being written.
    pub(super) fn tell_reshard(&mut self, value: ValueId, reason: Reason, from: Sharding, moves: Vec<Move>) {
        let counters = self.scopes.iter().filter_map(|scope| scope.counter);
        let times = counters.map(|(axis, _)| self.mesh.axes[axis].size).product();
        self.reshards.push(Reshard { value, reason, from, moves, times });
    }

    /// The scope of the innermost loop in time that a tile is made in, or what is gathered for one
    /// trip only.
    fn loop_of(&self, wanted: &Sharding, moves: &[Move]) -> u32 {
        let used = wanted.used();
        let is_eager = |next: &Move| match &next.step {
            Step::AllGather { pieces, .. } => pieces.iter().any(|&piece| self.layout.eager.contains(piece)),
            _ => false,
        };
        let gathers = moves.iter().any(is_eager);
        let is_tile = |axis: usize| self.mesh.pieces(axis).iter().any(|&piece| used.contains(piece));
        let depth =
            self.scopes.iter().rposition(|scope| scope.counter.is_some_and(|(axis, _)| gathers || is_tile(axis)));
        depth.unwrap_or(0) as u32
    }

    /// A value as it was made in the region being written, and how it lies.
    pub(super) fn made_here(&self, old: ValueId) -> Result<(ValueId, Sharding), String> {
        let version = self.versions[old.index()].iter().find(|version| version.phase.is_none());
        let version = version.ok_or_else(|| format!("{old} was not made"))?;
        Ok((version.value, version.sharding.clone()))
    }

    /// Emits the steps of a reshard.
    fn walk(&mut self, old: ValueId, source: &Version, moves: &[Move], wanted: &Sharding) -> Result<ValueId, String> {
        let mut value = source.value;
        let gathers = moves.iter().any(|next| matches!(next.step, Step::AllGather { .. }));
        let is_repeated = self.versions[old.index()].iter().any(|version| version.sharding == *wanted);
        if gathers && is_repeated {
            // Without the fence an engine would merge this gather with the one before and keep its
            // result all the while.
            value = self.apply(Op::OptimizationBarrier, &[value])?;
        }
        self.follow(value, old, &source.sharding, moves)
    }

    /// Emits the moves of a form of an old value.
    pub(super) fn follow(
        &mut self,
        mut value: ValueId,
        old: ValueId,
        from: &Sharding,
        moves: &[Move],
    ) -> Result<ValueId, String> {
        let mut from = from;
        for Move { step, to } in moves {
            value = self.step(value, self.old.ty(old), from, step, to)?;
            from = to;
        }
        Ok(value)
    }

    /// Whether somebody waits for a value that is resharded: for gradients nobody does before the update, nor for what
    /// the step ends with, and what is brought before a loop is brought all at once.
    fn haste(&self, old: ValueId, reason: Reason) -> Haste {
        let Layout { anatomy, eager, .. } = self.layout;
        let is_weight = || {
            let class = anatomy.origins[old.index()].map(|argument| anatomy.classes[argument]);
            matches!(class, Some(ArgumentClass::Parameter | ArgumentClass::State))
        };
        let in_loop = || self.scopes[self.homes[old.index()] as usize..].iter().any(|scope| scope.counter.is_some());
        let is_combined = match reason {
            Reason::Stored { .. } => true,
            Reason::Made { .. } => anatomy.is_final_gradient(old),
            Reason::Read { .. } => anatomy.is_final_gradient(old) || eager.is_empty() && is_weight() && in_loop(),
        };
        if is_combined { Haste::Combined } else { Haste::Awaited }
    }

    /// Whether a reshard serves the forward pass.
    fn phase(&self, reason: Reason) -> bool {
        match reason {
            Reason::Made { by } | Reason::Read { by } => self.layout.anatomy.is_forward(by),
            Reason::Stored { .. } => false,
        }
    }

    /// Starts writing a new region inside the present one.
    pub(super) fn open(&mut self) -> RegionId {
        let region = self.new.add_region();
        self.scopes.push(Scope { region, made: Vec::new(), positions: FxHashMap::default(), counter: None });
        region
    }

    /// Ends the region opened last; what was made in it is gone.
    pub(super) fn close(&mut self) {
        let depth = self.scopes.len() as u32 - 1;
        let Some(scope) = self.scopes.pop() else { return };
        for value in scope.made {
            self.versions[value.index()].retain(|version| version.scope < depth);
        }
    }

    fn region(&self) -> RegionId {
        self.scopes.last().map_or(self.new.body, |scope| scope.region)
    }

    /// Adds an op to the region being written; gives all its results.
    pub(super) fn apply_all(&mut self, op: Op, operands: &[ValueId], regions: &[RegionId]) -> Result<Values, String> {
        let region = self.region();
        let id = self
            .new
            .add_op(region, op, operands, regions, self.location)
            .map_err(|message| format!("lowering of {} made an op that does not fit: {message}", self.op))?;
        Ok(self.new.ops[id].results.clone())
    }

    /// Adds an op with one result.
    pub(super) fn apply(&mut self, op: Op, operands: &[ValueId]) -> Result<ValueId, String> {
        Ok(self.apply_all(op, operands, &[])?[0])
    }

    pub(super) fn binary(&mut self, binary: Binary, left: ValueId, right: ValueId) -> Result<ValueId, String> {
        self.apply(Op::Binary(binary), &[left, right])
    }

    /// Every element has these bits.
    pub(super) fn splat(&mut self, ty: &Type, bits: u128) -> Result<ValueId, String> {
        let scalar = Literal::splat(Type::scalar(ty.dtype), bits);
        let scalar = self.apply(Op::Constant(Box::new(scalar)), &[])?;
        self.broadcast(scalar, &ty.shape, &[])
    }

    pub(super) fn integer(&mut self, value: usize) -> Result<ValueId, String> {
        let literal = Literal::splat_integer(Type::scalar(DType::I32), value as i64);
        self.apply(Op::Constant(Box::new(literal)), &[])
    }

    pub(super) fn broadcast(&mut self, value: ValueId, shape: &[usize], dims: &[usize]) -> Result<ValueId, String> {
        if self.new.shape(value) == shape {
            return Ok(value);
        }
        let broadcast = BroadcastInDim { shape: shape.into(), dims: Dims::from_slice(dims) };
        self.apply(Op::BroadcastInDim(Box::new(broadcast)), &[value])
    }

    pub(super) fn compare(&mut self, direction: Direction, left: ValueId, right: ValueId) -> Result<ValueId, String> {
        self.apply(Op::Compare { direction, order: Order::Signed }, &[left, right])
    }

    /// A region that joins two scalars.
    pub(super) fn reducer(&mut self, reduction: Reduction, dtype: DType) -> Result<RegionId, String> {
        let region = self.new.add_region();
        let left = self.new.add_region_argument(region, Type::scalar(dtype));
        let right = self.new.add_region_argument(region, Type::scalar(dtype));
        let op = self.new.add_op(region, Op::Binary(reduction.binary()), &[left, right], &[], self.location)?;
        self.new.regions[region].results = vec![self.new.ops[op].results[0]];
        Ok(region)
    }

    pub(super) fn next_channel(&mut self) -> i64 {
        self.channel += 1;
        self.channel
    }

    /// Where the device stands along pieces, the first the most significant: an `i32` scalar.
    pub(super) fn position(&mut self, pieces: &[Piece]) -> Result<ValueId, String> {
        let known = self.scopes.iter().find_map(|scope| scope.positions.get(pieces).copied());
        if let Some(value) = known {
            return Ok(value);
        }
        let mut sum: Option<ValueId> = None;
        let mut rest = pieces;
        while !rest.is_empty() {
            let run = self.run(rest);
            let (now, later) = rest.split_at(run);
            let part = self.run_position(now)?;
            sum = Some(match sum {
                None => part,
                Some(sum) => {
                    let size = self.integer(self.mesh.product(now))?;
                    let scaled = self.binary(Binary::Multiply, sum, size)?;
                    self.binary(Binary::Add, scaled, part)?
                }
            });
            rest = later;
        }
        let value = match sum {
            Some(value) => value,
            None => self.integer(0)?,
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.positions.insert(pieces.into(), value);
        }
        Ok(value)
    }

    /// How many of the first pieces are neighbours, so that one division finds the position.
    fn run(&self, pieces: &[Piece]) -> usize {
        let adjoin = |first: Piece, second: Piece| {
            self.mesh.is_temporal(first) == self.mesh.is_temporal(second)
                && (!self.mesh.is_temporal(first) || self.mesh.axis_of(first) == self.mesh.axis_of(second))
                && self.mesh.stride(first) == self.mesh.stride(second) * self.mesh.size(second)
        };
        1 + pieces.windows(2).take_while(|pair| adjoin(pair[0], pair[1])).count()
    }

    fn run_position(&mut self, pieces: &[Piece]) -> Result<ValueId, String> {
        let (size, last) = (self.mesh.product(pieces), pieces[pieces.len() - 1]);
        let (stride, axis) = (self.mesh.stride(last), self.mesh.axis_of(last));
        let (mut value, total) = if self.mesh.is_temporal(last) {
            let counter = self.counter(axis).ok_or("a tile in time is read outside of its loop")?;
            (counter, self.mesh.axes[axis].size)
        } else {
            let device = self.apply(Op::PartitionId, &[])?;
            (self.apply(Op::Convert { dtype: DType::I32 }, &[device])?, self.mesh.devices())
        };
        if stride > 1 {
            let stride = self.integer(stride)?;
            value = self.binary(Binary::Divide, value, stride)?;
        }
        if stride * size < total {
            let size = self.integer(size)?;
            value = self.binary(Binary::Remainder, value, size)?;
        }
        Ok(value)
    }

    /// The counter of the loop over a temporal axis, inside of it.
    pub(super) fn counter(&self, axis: usize) -> Option<ValueId> {
        self.scopes.iter().find_map(|scope| scope.counter.filter(|(of, _)| *of == axis)).map(|(_, counter)| counter)
    }

    pub(super) fn set_counter(&mut self, axis: usize, counter: ValueId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.counter = Some((axis, counter));
        }
    }
}

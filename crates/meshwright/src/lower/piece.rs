//! A part of a step as a program of its own: some of the ops, what they read given, what others read
//! given on.
//!
//! A piece that runs once for every microbatch is written as if it stood inside the loop over them: it is
//! given tiles and gives parts of sums, and a number says which microbatch it is.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Reason;
use super::emit::Emitter;
use super::reshard::{Haste, Step, Ways};
use super::temporal::{Level, Levels, without_axis};
use crate::program::{Argument, DType, Id, Op, OpId, Program, ResultInfo, Type, ValueId};
use crate::shard::{Layout, Piece, PieceSet, Sharding};

/// What a piece is to be.
#[derive(Clone, Debug)]
pub(crate) struct Request<'r> {
    /// In program order.
    pub(crate) ops: &'r [OpId],
    /// The axis in time whose loop the piece stands in; it runs once for every step of it.
    pub(crate) inside: Option<usize>,
    /// What it may read, and how that lies. Of several forms of a value the first is the one it was made in.
    pub(crate) given: &'r [(ValueId, Sharding)],
    /// Sums over time that are complete now and are finished first.
    pub(crate) finished: &'r [ValueId],
    /// What it gives on, and how that has to lie.
    pub(crate) gives: &'r [(ValueId, Sharding)],
}

/// A piece as a program.
#[derive(Clone, Debug)]
pub(crate) struct EmittedPiece {
    pub(crate) program: Program,
    /// Which of what it was given are its arguments.
    pub(crate) reads: Vec<usize>,
    /// Whether its last argument is the number of the microbatch.
    pub(crate) reads_number: bool,
}

/// Writes the program of a piece.
pub(crate) fn emit_piece(
    layout: &Layout<'_>,
    ways: &mut Ways<'_>,
    request: &Request<'_>,
) -> Result<EmittedPiece, String> {
    let mut emitter = Emitter::new(layout, ways);
    emitter.needed = Some(needed(layout, request));
    emitter.given_on = request.gives.iter().map(|(value, _)| *value).collect();
    emitter.give(request.given);
    if let Some(axis) = request.inside {
        let number = emitter.new.add_argument(Argument::default(), Type::scalar(DType::I32));
        emitter.entered.push(axis);
        emitter.set_counter(axis, number);
    }
    for &value in request.finished {
        emitter.finish_after_loop(value)?;
    }
    emitter.ops(request.ops)?;
    for (value, sharding) in request.gives {
        let reason = Reason::Read { by: layout.program.producer(*value).unwrap_or(OpId::from_index(0)) };
        let new = emitter.get(*value, sharding, reason)?;
        emitter.new.add_result(new, ResultInfo::default());
    }
    let (program, mut reads) = without_unread_arguments(emitter.finish().0);
    let reads_number = request.inside.is_some() && reads.last() == Some(&request.given.len());
    if reads_number {
        reads.pop();
    }
    Ok(EmittedPiece { program, reads, reads_number })
}

impl Emitter<'_, '_, '_> {
    fn give(&mut self, given: &[(ValueId, Sharding)]) {
        let mut known = FxHashSet::default();
        for (value, sharding) in given {
            let ty = sharding.local_type(self.mesh, self.old.ty(*value));
            let new = self.new.add_argument(Argument::default(), ty);
            if known.insert(*value) {
                self.define(*value, new, sharding.clone());
            } else {
                self.add_copy(*value, new, sharding.clone());
            }
        }
    }
}

/// What the ops of a piece read, and what it gives on. Barriers and loops let through no more.
fn needed(layout: &Layout<'_>, request: &Request<'_>) -> FxHashSet<ValueId> {
    let program = layout.program;
    let mut needed = FxHashSet::default();
    request.gives.iter().for_each(|(value, _)| need(layout, *value, &mut needed));
    for &op in request.ops.iter().rev() {
        let operation = &program.ops[op];
        if let Op::OptimizationBarrier = operation.op {
            for (operand, result) in operation.operands.iter().zip(&operation.results) {
                if needed.contains(result) {
                    need(layout, *operand, &mut needed);
                }
            }
        } else {
            program.reads(op).into_iter().for_each(|value| need(layout, value, &mut needed));
        }
    }
    needed
}

/// Adds a value, and where it is free what it is made of.
fn need(layout: &Layout<'_>, value: ValueId, needed: &mut FxHashSet<ValueId>) {
    if needed.insert(value)
        && layout.is_free(value)
        && let Some(op) = layout.program.producer(value)
    {
        layout.program.ops[op].operands.iter().for_each(|&operand| need(layout, operand, needed));
    }
}

/// The program without the arguments that nobody reads, and which those are that somebody does.
fn without_unread_arguments(mut program: Program) -> (Program, Vec<usize>) {
    let mut is_read = vec![false; program.values.len()];
    for (_, operation) in program.ops.iter() {
        operation.operands.iter().for_each(|value| is_read[value.index()] = true);
    }
    for (_, region) in program.regions.iter() {
        region.results.iter().for_each(|value| is_read[value.index()] = true);
    }
    let body = program.body;
    let values = std::mem::take(&mut program.regions[body].arguments);
    let kept: Vec<usize> = (0..values.len()).filter(|&index| is_read[values[index].index()]).collect();
    program.arguments = kept.iter().map(|&index| std::mem::take(&mut program.arguments[index])).collect();
    program.regions[body].arguments = kept.iter().map(|&index| values[index]).collect();
    (program.compact(), kept)
}

/// Answers questions about what pieces read and make, without writing them.
pub(crate) struct View<'l, 'p, 'w> {
    emitter: Emitter<'l, 'p, 'w>,
}

/// When an op runs with respect to the loops over an axis in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// Loops follow each other, and each is one level.
    pub(crate) level: usize,
    /// In the loop of the level rather than before it.
    pub(crate) inside: bool,
}

impl<'l, 'p, 'w> View<'l, 'p, 'w> {
    pub(crate) fn new(layout: &'l Layout<'p>, ways: &'l mut Ways<'w>) -> View<'l, 'p, 'w> {
        View { emitter: Emitter::new(layout, ways) }
    }

    /// What an op reads that is not free, and how it needs it.
    pub(crate) fn reads(&self, op: OpId) -> Vec<(ValueId, Sharding)> {
        self.emitter.reads(op)
    }

    /// What a value is made of where it is free, else the value itself.
    pub(crate) fn sources(&self, value: ValueId, wanted: &Sharding) -> Vec<(ValueId, Sharding)> {
        let mut found = Vec::new();
        self.emitter.read(value, wanted.clone(), &mut found);
        found
    }

    /// When the ops of the body run.
    pub(crate) fn levels(&self, axis: usize) -> FxHashMap<OpId, When> {
        let ops = &self.emitter.old.body().ops;
        let levels = Levels::find(&self.emitter, axis, ops);
        let when = |&op: &OpId| {
            let Level { number, inside } = levels.of[&op];
            (op, When { level: number, inside })
        };
        ops.iter().map(when).collect()
    }

    /// How an op leaves a result to those that come after it. Inside of the loop over an axis, sums over the
    /// axis stay unfinished; loops over other axes in time have ended.
    pub(crate) fn left(&self, value: ValueId, inside: Option<usize>) -> Sharding {
        let Emitter { layout, old, mesh, .. } = &self.emitter;
        let Some(op) = old.producer(value) else { return layout.stored(value) };
        let index = old.ops[op].results.iter().position(|&result| result == value).unwrap_or(0);
        let is_over = |piece: &Piece| mesh.is_temporal(*piece) && inside != Some(mesh.axis_of(*piece));
        let (produced, lies) = (&layout.produced(op)[index], self.lies(value, inside));
        let made = without_axis(produced, is_over);
        let is_temporal = |piece: &Piece| mesh.is_temporal(*piece);
        if made != *produced && !made.partial.iter().any(is_temporal) {
            return lies.finished();
        }
        if self.emitter.is_waiting(&made, &lies) || made.partial == lies.partial { made } else { lies }
    }

    /// How a value lies where only the loop over an axis is under way.
    fn lies(&self, value: ValueId, inside: Option<usize>) -> Sharding {
        let Emitter { layout, mesh, .. } = &self.emitter;
        let is_here = |piece: &Piece| !mesh.is_temporal(*piece) || inside == Some(mesh.axis_of(*piece));
        let mut lies = layout.sharding(value).clone();
        for pieces in &mut lies.dims {
            let keep = pieces.iter().take_while(|piece| is_here(piece)).count();
            pieces.truncate(keep);
        }
        lies
    }

    /// How a sum over an axis is given out of a microbatch's piece, and how it lies once all are added up.
    pub(crate) fn accumulated(&self, value: ValueId, axis: usize) -> (Sharding, Sharding) {
        let left = self.left(value, Some(axis));
        let given = self.emitter.reduced_to(&left, &self.lies(value, Some(axis)), axis);
        let sum = without_axis(&given, |piece| self.emitter.mesh.axis_of(*piece) == axis);
        (given, sum)
    }

    /// How a sum lies once it is finished after its loop.
    pub(crate) fn finished(&self, value: ValueId, sum: &Sharding) -> Sharding {
        let Emitter { layout, mesh, .. } = &self.emitter;
        let is_temporal = |piece: &Piece| mesh.is_temporal(*piece);
        let wanted = without_axis(layout.sharding(value), is_temporal).finished();
        if sum.partial.is_empty() { sum.clone() } else { wanted }
    }

    /// Whether a value that is there all the while is put into another form once, before the loop, rather
    /// than in every trip.
    pub(crate) fn is_kept(&mut self, value: ValueId, from: &Sharding, wanted: &Sharding) -> bool {
        let Emitter { layout, old, mesh, ways, .. } = &mut self.emitter;
        let in_time = wanted.used().pieces().iter().any(|&piece| mesh.is_temporal(piece));
        if in_time || from == wanted {
            return false;
        }
        let Some((moves, _)) = ways.find(old.ty(value), from, wanted, Haste::Awaited) else { return false };
        !moves.iter().any(|next| match &next.step {
            Step::AllGather { pieces, .. } => layout.eager.intersects(PieceSet::of(pieces)),
            _ => false,
        })
    }
}

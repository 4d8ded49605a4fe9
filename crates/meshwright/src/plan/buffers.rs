//! What a step writes to memory, and who reads it there.

use super::bundle::{Bundles, source};
use crate::profile::{MemoryModel, stored};
use crate::program::{Anatomy, Id, OpId, Phase, Program, ValueId};
use crate::shard::Layout;

/// Which values are written to memory, and which ops read them there.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    /// Of every value the ops that read it, in order; none for what is not written.
    readers: Vec<Vec<OpId>>,
    /// The same for results of products that go to memory only if something is to be made of them again: what reads
    /// them is computed with them.
    passing: Vec<Vec<OpId>>,
    besides: Vec<Option<Besides>>,
    /// When ops run, in a loop over microbatches and without one.
    looped: Times,
    once: Times,
}

/// When ops run. Time is told in values that are written.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// Of every op, how many values are written before it, and with it.
    of: Vec<(usize, usize)>,
    /// How many values are written.
    pub(super) steps: usize,
}

/// What is kept with the result of an op besides it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Besides {
    /// As a share of the result.
    pub(super) share: f64,
    pub(super) until: OpId,
}

impl Buffers {
    pub(super) fn new(layout: &Layout<'_>, bundles: &Bundles, model: MemoryModel) -> Buffers {
        let program = layout.program;
        let stored = stored(program, &layout.anatomy, model);
        let mut readers: Vec<Vec<OpId>> = vec![Vec::new(); program.values.len()];
        for (value, list) in program.values.ids().zip(stored.readers) {
            let in_bundles = list.into_iter().filter(|&op| bundles.of(op).is_some());
            readers[source(program, value).index()].extend(in_bundles);
        }
        let mut passing: Vec<Vec<OpId>> = vec![Vec::new(); program.values.len()];
        for &op in bundles.list.iter().flat_map(|bundle| &bundle.ops) {
            for &operand in &program.ops[op].operands {
                let value = source(program, operand);
                let is_product = bundles.maker(program, value).is_some_and(|maker| bundles.list[maker].is_heavy);
                if is_product && readers[value.index()].is_empty() {
                    passing[value.index()].push(op);
                }
            }
        }
        let places = places(program);
        for readers in readers.iter_mut().chain(&mut passing) {
            readers.sort_unstable_by_key(|op| places[op.index()]);
            readers.dedup();
        }
        let mut besides = vec![None; program.ops.len()];
        for kept in stored.besides {
            let bytes = program.ty(program.ops[kept.op].results[0]).bytes().max(1);
            besides[kept.op.index()] = Some(Besides { share: kept.bytes as f64 / bytes as f64, until: kept.until });
        }
        let is_there = |value: &&ValueId| !(readers[value.index()].is_empty() && passing[value.index()].is_empty());
        let written = |op: OpId| program.ops[op].results.iter().filter(is_there).count();
        let ops = &program.body().ops;
        let looped = Times::new(program, ops, written);
        let once = match model {
            MemoryModel::Ordered => Times::new(program, &updated_early(program, &layout.anatomy), written),
            _ => looped.clone(),
        };
        Buffers { readers, passing, besides, looped, once }
    }

    /// When ops run with so many microbatches.
    pub(super) fn times(&self, microbatches: usize) -> &Times {
        if microbatches > 1 { &self.looped } else { &self.once }
    }

    /// The ops that read a value, be it from memory or not.
    pub(super) fn of(&self, value: ValueId) -> &[OpId] {
        let index = value.index();
        if self.readers[index].is_empty() { &self.passing[index] } else { &self.readers[index] }
    }

    /// Whether anybody reads a value from memory.
    pub(super) fn is_written(&self, value: ValueId) -> bool {
        !self.readers[value.index()].is_empty()
    }

    /// Whether a value goes to memory only if something is to be made of it again.
    pub(super) fn is_passing(&self, value: ValueId) -> bool {
        !self.passing[value.index()].is_empty()
    }

    pub(super) fn besides(&self, op: OpId) -> Option<Besides> {
        self.besides[op.index()]
    }
}

impl Times {
    /// Times of ops in an order, each of which writes so many values.
    fn new(program: &Program, ops: &[OpId], written: impl Fn(OpId) -> usize) -> Times {
        let mut times = Times { of: vec![(0, 0); program.ops.len()], steps: 0 };
        for &op in ops {
            let end = times.steps + written(op);
            times.of[op.index()] = (times.steps, end);
            times.steps = end;
        }
        times
    }

    /// When an op runs: how many values were written before.
    pub(super) fn start(&self, op: OpId) -> usize {
        self.of[op.index()].0
    }

    /// When it has run.
    pub(super) fn end(&self, op: OpId) -> usize {
        self.of[op.index()].1
    }
}

/// The ops of the body, updates right behind what they wait for: so accelerators run them, and gradients are there no
/// longer than that.
fn updated_early(program: &Program, anatomy: &Anatomy) -> Vec<OpId> {
    let ops = &program.body().ops;
    let is_update = |op: OpId| anatomy.phase(op) == Phase::Update;
    // Of every op, behind which place it runs; that is not known of what updates make of arguments alone.
    let mut behind: Vec<Option<usize>> = vec![None; program.ops.len()];
    for (place, &op) in ops.iter().enumerate() {
        let makers = program.outer_reads(op).into_iter().filter_map(|value| program.producer(value));
        let latest = makers.filter_map(|maker| behind[maker.index()]).max();
        behind[op.index()] = if is_update(op) { latest } else { Some(place) };
    }
    // Such ops run when somebody needs what they make.
    let mut needed: Vec<Option<usize>> = vec![None; program.ops.len()];
    for &op in ops.iter().rev() {
        behind[op.index()] = behind[op.index()].or(needed[op.index()]);
        let Some(own) = behind[op.index()] else { continue };
        for maker in program.outer_reads(op).into_iter().filter_map(|value| program.producer(value)) {
            let earliest = needed[maker.index()].map_or(own, |known| known.min(own));
            needed[maker.index()] = Some(earliest);
        }
    }
    let mut order = ops.clone();
    order.sort_by_key(|&op| behind[op.index()].unwrap_or(usize::MAX));
    order
}

/// The place of every op in the body.
fn places(program: &Program) -> Vec<usize> {
    let mut places = vec![usize::MAX; program.ops.len()];
    program.body().ops.iter().enumerate().for_each(|(place, op)| places[op.index()] = place);
    places
}

//! What follows from cutting values of a program into slices.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::buffers::Buffers;
use super::recipe::Split;
use crate::program::{Id, OpId, Phase, ValueId, is_heavy};
use crate::shard::{Axis, FactorId, Layout, Mesh, is_tie};

/// A program, and who reads each value of it.
pub(super) struct Slicer<'s> {
    /// The program on no mesh.
    base: &'s Layout<'s>,
    /// The ops of the body that read each value.
    pub(super) readers: Vec<Vec<OpId>>,
}

/// What is around some values is no special part of the step where it is more than this share of its ops.
const MOST_OPS: f64 = 0.2;

impl<'s> Slicer<'s> {
    pub(super) fn new(base: &'s Layout<'s>) -> Slicer<'s> {
        let program = base.program;
        let mut readers = vec![Vec::new(); program.values.len()];
        for &op in &program.body().ops {
            program.outer_reads(op).into_iter().for_each(|value| readers[value.index()].push(op));
        }
        Slicer { base, readers }
    }

    pub(super) fn may_slice(&self, op: OpId) -> bool {
        let operation = &self.base.program.ops[op];
        let is_free = operation.results.iter().any(|&result| self.base.is_free(result));
        !is_tie(&operation.op) && !is_free && self.base.anatomy.phase(op) != Phase::Update
    }

    /// The values that are made before the update and go through memory.
    pub(super) fn written(&self, buffers: &Buffers) -> impl Iterator<Item = ValueId> {
        let program = self.base.program;
        let ops = program.body().ops.iter().filter(|&&op| self.may_slice(op));
        let made = ops.flat_map(|&op| program.ops[op].results.iter().copied());
        made.filter(|&value| buffers.is_written(value))
    }

    /// For every value, into how many slices it is cut where these splits are: one of what others do not read is there at a
    /// time.
    pub(super) fn thin(&self, splits: &[Split]) -> Vec<u8> {
        let mut slices = vec![1; self.base.program.values.len()];
        for split in splits {
            for &(op, factor) in &split.ops {
                let labels = &self.base.rule(op).results;
                for (&value, labels) in self.base.program.ops[op].results.iter().zip(labels) {
                    let is_tile = labels.iter().flatten().any(|&label| label == factor);
                    if is_tile && self.readers[value.index()].iter().all(|&reader| split.has(reader)) {
                        slices[value.index()] = split.slices.try_into().unwrap_or(u8::MAX);
                    }
                }
            }
        }
        slices
    }

    /// Cuts values, which have this shape on a device, and what is around them into about so many slices: along the
    /// dimension with the fewest loops, the smallest slices, and of all else the most ops, of those that are allowed.
    pub(super) fn around(
        &self,
        seeds: &[ValueId],
        shape: &[usize],
        slices: usize,
        is_allowed: impl Fn(&Split) -> bool,
    ) -> Option<Split> {
        let region = self.region(seeds);
        if region.len() as f64 > MOST_OPS * self.base.program.body().ops.len() as f64 {
            return None;
        }
        let along = |dim: usize| self.cut_along(&region, seeds, dim, largest_divisor(shape[dim], slices)?);
        let worth = |split: &Split| (self.crossings(split), Reverse((split.slices, split.ops.len())));
        let least = self.least_elements(seeds);
        let is_good = |split: &Split| self.is_convex(split) && !self.gives_large(split, least) && is_allowed(split);
        (0..shape.len()).filter_map(along).filter(is_good).min_by_key(worth)
    }

    /// Ops connected with values by others about as large, and what little is computed between them.
    fn region(&self, seeds: &[ValueId]) -> Vec<OpId> {
        let program = self.base.program;
        let elements = |value: ValueId| program.ty(value).elements();
        let least = self.least_elements(seeds);
        let mut region: BTreeSet<OpId> = BTreeSet::new();
        let mut seen: BTreeSet<ValueId> = seeds.iter().copied().collect();
        let mut open = seeds.to_vec();
        while let Some(value) = open.pop() {
            let around = program.producer(value).into_iter().chain(self.readers[value.index()].iter().copied());
            for op in around.filter(|&op| self.may_slice(op)) {
                if region.insert(op) {
                    let operation = &program.ops[op];
                    let values = operation.operands.iter().chain(&operation.results).copied();
                    open.extend(values.filter(|&value| elements(value) >= least && seen.insert(value)));
                }
            }
        }
        let (after, before) = (self.reach(&region, true), self.reach(&region, false));
        region.extend(after.intersection(&before));
        region.into_iter().collect()
    }

    /// What has as many elements is about as large as some values.
    fn least_elements(&self, seeds: &[ValueId]) -> usize {
        seeds.iter().map(|&seed| self.base.program.ty(seed).elements()).min().unwrap_or(0) / 2
    }

    /// Whether others read something as large of a split, which they have to have whole.
    fn gives_large(&self, split: &Split, least: usize) -> bool {
        let program = self.base.program;
        let made = split.ops.iter().flat_map(|&(op, _)| &program.ops[op].results);
        let is_inner = |value: &ValueId| {
            let readers = &self.readers[value.index()];
            !readers.is_empty() && readers.iter().all(|&reader| split.has(reader))
        };
        made.filter(|value| program.ty(**value).elements() >= least).any(|value| !is_inner(value))
    }

    /// The ops, none of them a product, to which a region leads, or which lead to it.
    fn reach(&self, region: &BTreeSet<OpId>, is_after: bool) -> BTreeSet<OpId> {
        let program = self.base.program;
        let is_light = |op: OpId| self.may_slice(op) && !is_heavy(&program.ops[op].op);
        let mut reached: BTreeSet<OpId> = BTreeSet::new();
        let mut open: Vec<OpId> = region.iter().copied().collect();
        while let Some(op) = open.pop() {
            let operation = &program.ops[op];
            let next: Vec<OpId> = if is_after {
                operation.results.iter().flat_map(|value| self.readers[value.index()].iter().copied()).collect()
            } else {
                operation.operands.iter().filter_map(|&value| program.producer(value)).collect()
            };
            open.extend(next.into_iter().filter(|&op| is_light(op) && !region.contains(&op) && reached.insert(op)));
        }
        reached
    }

    /// Cuts a dimension of values into slices, and all that follows from it within a region.
    fn cut_along(&self, region: &[OpId], seeds: &[ValueId], dim: usize, slices: usize) -> Option<Split> {
        let mut layout = self.scratch(slices)?;
        let piece = *layout.mesh.pieces(0).first()?;
        for &seed in seeds {
            let dims = &layout.sharding(seed).dims;
            let is_cut = dims.iter().any(|pieces| !pieces.is_empty());
            if !is_cut && dim < dims.len() && layout.may_cut(seed, dim, piece) {
                layout.cut(seed, dim, piece);
                layout.propagate_within(region);
            }
        }
        let sliced = region.iter().filter_map(|&op| Some((op, sliced_factor(&layout, op)?)));
        let ops: Vec<(OpId, FactorId)> = sliced.collect();
        (!ops.is_empty()).then_some(Split { slices, ops })
    }

    /// The program on an axis of slices alone.
    pub(super) fn scratch(&self, slices: usize) -> Option<Layout<'s>> {
        let axis = Axis { name: "slices".to_owned(), size: slices, temporal: true };
        Some(self.base.on(Mesh::new(vec![axis]).ok()?))
    }

    /// Whether no op of a split needs what others make of the split: it would be cut into one loop before them and one
    /// after, and all that goes from one to the other would be whole.
    fn is_convex(&self, split: &Split) -> bool {
        let program = self.base.program;
        let (mut is_made, mut is_after) = (vec![false; program.values.len()], vec![false; program.values.len()]);
        for &op in &program.body().ops {
            let reads = program.outer_reads(op);
            let reads_after = reads.iter().any(|value| is_after[value.index()]);
            let is_inside = split.has(op);
            if is_inside && reads_after {
                return false;
            }
            let leaves = !is_inside && (reads_after || reads.iter().any(|value| is_made[value.index()]));
            for result in &program.ops[op].results {
                is_made[result.index()] = is_inside;
                is_after[result.index()] = leaves;
            }
        }
        true
    }

    /// How many sums over slices are needed whole before another op of the split: each ends a loop.
    fn crossings(&self, split: &Split) -> usize {
        let is_sum = |&&(op, factor): &&(OpId, FactorId)| {
            let results = &self.base.rule(op).results;
            results.iter().any(|labels| !labels.iter().flatten().any(|&label| label == factor))
        };
        let sums = split.ops.iter().filter(is_sum).flat_map(|&(op, _)| &self.base.program.ops[op].results);
        sums.filter(|value| self.readers[value.index()].iter().any(|&reader| split.has(reader))).count()
    }

    /// From an op that reads a weight on to products, or from one that makes a gradient back to them, with what is
    /// between; nothing where no product is found.
    pub(super) fn products(&self, value: ValueId, op: OpId, is_read: bool) -> Vec<OpId> {
        let program = self.base.program;
        let least = program.ty(value).elements() / 2;
        let is_large = |value: &&ValueId| program.ty(**value).elements() >= least;
        let mut region: BTreeSet<OpId> = BTreeSet::new();
        let mut has_product = false;
        let mut open = vec![op];
        while let Some(op) = open.pop() {
            if !self.may_slice(op) || !region.insert(op) {
                continue;
            }
            let operation = &program.ops[op];
            if is_heavy(&operation.op) {
                has_product = true;
            } else if is_read {
                open.extend(operation.results.iter().flat_map(|value| self.readers[value.index()].iter().copied()));
            } else {
                let large = operation.operands.iter().filter(is_large);
                open.extend(large.filter_map(|&value| program.producer(value)));
            }
        }
        if has_product { region.into_iter().collect() } else { Vec::new() }
    }
}

/// The factor of an op that an axis of slices alone cuts.
pub(super) fn sliced_factor(layout: &Layout<'_>, op: OpId) -> Option<FactorId> {
    let factor = layout.strategy(op).factors.iter().position(|pieces| !pieces.is_empty());
    factor.map(|factor| factor as FactorId)
}

/// The largest number of slices that divides a size, halving it as often as it takes.
fn largest_divisor(size: usize, slices: usize) -> Option<usize> {
    let halves = std::iter::successors(Some(slices), |slices| Some(slices / 2));
    halves.take_while(|&slices| slices > 1).find(|&slices| size.is_multiple_of(slices))
}

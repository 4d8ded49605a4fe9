//! Operator splitting: which ops of a plan run in slices, so that less is in memory at its peak.
//!
//! Two things are worth it. A value that is large by itself, such as the logits of a large vocabulary, is made, read and
//! dropped slice by slice, with all that is as large around it. A weight that is gathered, or a gradient before it is
//! reduced, is there one slice at a time. Whether that helps is for the simulation to say.

use std::collections::BTreeMap;

use super::buffers::Buffers;
use super::recipe::{Recipe, Rewritten, Split};
use super::slicer::{Slicer, sliced_factor};
use super::time::Time;
use crate::lower::{LocalProgram, Reason, Reshard, Step};
use crate::program::{ArgumentClass, Id, Op, OpId, ValueId, is_heavy};
use crate::shard::{FactorId, Layout, Sharding};

/// A plan, and what is known of it.
pub(super) struct Thick<'t> {
    /// The program on no mesh.
    pub(super) base: &'t Layout<'t>,
    pub(super) recipe: &'t Recipe,
    /// What it comes to without slices.
    pub(super) local: &'t LocalProgram,
    /// The program that was lowered, where it is another than the one planned.
    pub(super) rewritten: Option<&'t Rewritten>,
    pub(super) time: &'t Time,
    pub(super) buffers: &'t Buffers,
}

/// How to slice one kind of thing.
struct Measure {
    /// What takes less than this share of the memory at the peak stays whole.
    least_share: f64,
    /// Slices are made to take no more than this share, if that does not take more slices than the most.
    slice_share: f64,
    most_slices: usize,
}

/// Products of slices that are too small are slow.
const VALUES: Measure = Measure { least_share: 1.0 / 32.0, slice_share: 1.0 / 32.0, most_slices: MOST_SLICES };
/// Each slice of a weight is moved by itself, and what moving begins with is paid for every one.
const WEIGHTS: Measure = Measure { least_share: 1.0 / 64.0, slice_share: 1.0 / 128.0, most_slices: 8 };
const MOST_SLICES: usize = 16;

/// For every value, into how many slices it is cut where what is largest is, whatever the plan; nothing where nothing
/// is much larger than the rest.
pub(super) fn thin_values(base: &Layout<'_>, buffers: &Buffers) -> Option<Vec<u8>> {
    let program = base.program;
    let slicer = Slicer::new(base);
    let sized: Vec<(u64, ValueId)> =
        slicer.written(buffers).map(|value| (program.ty(value).bytes() as u64, value)).collect();
    let seeds = largest(sized).1;
    let shape = program.shape(*seeds.first()?);
    let split = slicer.around(&seeds, shape, MOST_SLICES, |_| true)?;
    Some(slicer.thin(&[split]))
}

impl Thick<'_> {
    /// What to cut into slices, first what is around the largest values, then the products with weights that are
    /// gathered or reduced.
    pub(super) fn splits(&self, peak_bytes: u64) -> Vec<Split> {
        let slicer = Slicer::new(self.base);
        let values = self.around_values(peak_bytes, &slicer);
        let mut weights = self.around_weights(peak_bytes, &slicer);
        if let (Some(values), Some(weights)) = (&values, &mut weights) {
            weights.ops.retain(|&(op, _)| !values.has(op));
        }
        [values, weights].into_iter().flatten().filter(|split| !split.ops.is_empty()).collect()
    }

    /// What is around the largest values that are made.
    fn around_values(&self, peak_bytes: u64, slicer: &Slicer<'_>) -> Option<Split> {
        let lies = self.lies();
        let made = slicer.written(self.buffers).filter_map(|value| Some((value, *lies.get(&value)?)));
        let (most, seeds) = largest(made.map(|(value, lies)| (self.bytes(value, lies), value)).collect());
        let slices = VALUES.slices(most, peak_bytes)?;
        let &first = seeds.first()?;
        let tile = self.time.tile(first, self.base.program.ty(first));
        let shape = lies[&first].local_type(&self.recipe.mesh, &tile).shape;
        slicer.around(&seeds, &shape, slices, |split| self.divides(split))
    }

    /// Whether what devices have of each op divides into slices. What is cut into microbatches is not cut in time again.
    fn divides(&self, split: &Split) -> bool {
        split.ops.iter().all(|&(op, factor)| {
            let index = self.recipe.ops.binary_search_by_key(&op, |recipe| recipe.op);
            let factors = index.map_or(&[][..], |index| &self.recipe.ops[index].factors);
            let cut = factors.iter().find(|(other, _)| *other == factor);
            let parts = cut.map_or(1, |(_, pieces)| self.recipe.mesh.product(pieces));
            let is_cut_in_time = self.time.factor_trips(op, usize::from(factor)) > 1;
            let size = self.base.rule(op).factors[usize::from(factor)].size;
            !is_cut_in_time && size.is_multiple_of(parts * split.slices)
        })
    }

    /// How each value lies that an op makes.
    fn lies(&self) -> BTreeMap<ValueId, &Sharding> {
        let results = |index: usize| {
            let recipe = &self.recipe.ops[index];
            self.base.program.ops[recipe.op].results.iter().copied().zip(&recipe.results)
        };
        (0..self.recipe.ops.len()).flat_map(results).collect()
    }

    fn bytes(&self, value: ValueId, lies: &Sharding) -> u64 {
        let parts: usize = lies.dims.iter().map(|pieces| self.recipe.mesh.product(pieces)).product();
        (self.time.tile(value, self.base.program.ty(value)).bytes() / parts.max(1)) as u64
    }

    /// Products with weights that are gathered for them, and those that make gradients which are reduced after them.
    fn around_weights(&self, peak_bytes: u64, slicer: &Slicer<'_>) -> Option<Split> {
        let reshards = self.local.reshards.iter();
        let moved: Vec<Moved> = reshards.filter_map(|reshard| self.moved(reshard, slicer)).collect();
        let slices = WEIGHTS.slices(moved.iter().map(|moved| moved.bytes).max()?, peak_bytes)?;
        let mut layout = slicer.scratch(slices)?;
        let piece = *layout.mesh.pieces(0).first()?;
        let mut found: BTreeMap<OpId, FactorId> = BTreeMap::new();
        for moved in moved.iter().filter(|moved| WEIGHTS.slices(moved.bytes, peak_bytes).is_some()) {
            let shape = self.base.program.shape(moved.value);
            let divides = |&&dim: &&usize| shape[dim].is_multiple_of(slices * moved.parts[dim]);
            let dim = moved.dims.iter().filter(divides).max_by_key(|&&dim| shape[dim]);
            let region = slicer.products(moved.value, moved.op, moved.is_read);
            let may_cut = |dim: usize| !region.is_empty() && layout.may_cut(moved.value, dim, piece);
            let Some(&dim) = dim.filter(|&&dim| may_cut(dim)) else { continue };
            layout.cut(moved.value, dim, piece);
            layout.propagate_within(&region);
            for &op in &region {
                if let Some(factor) = sliced_factor(&layout, op) {
                    found.entry(op).or_insert(factor);
                }
            }
            layout.clear(&region);
        }
        (!found.is_empty()).then(|| Split { slices, ops: found.into_iter().collect() })
    }

    /// A reshard as one of a weight or a gradient, if it is one.
    fn moved(&self, reshard: &Reshard, slicer: &Slicer<'_>) -> Option<Moved> {
        let Reshard { value, reason, from, moves, .. } = reshard;
        let mesh = &self.local.mesh;
        let to = &moves.last()?.to;
        let gathers = moves.iter().any(|next| matches!(next.step, Step::AllGather { .. }));
        let reduces = moves.iter().any(|next| matches!(next.step, Step::AllReduce { .. } | Step::ReduceScatter { .. }));
        // What is thick is what comes of a gather, and what goes into a reduction.
        let (by, is_read, thick, thin) = match *reason {
            Reason::Read { by } if gathers => (by, true, to, from),
            Reason::Made { by } if reduces => (by, false, from, to),
            _ => return None,
        };
        let (program, op) = match self.rewritten {
            Some(rewritten) => (&rewritten.program, rewritten.origins[by.index()]?),
            None => (self.base.program, by),
        };
        let operation = &self.base.program.ops[op];
        let value = if is_read {
            let operand = program.ops[by].operands.iter().position(|operand| operand == value)?;
            operation.operands[operand]
        } else {
            let result = program.ops[by].results.iter().position(|result| result == value)?;
            operation.results[result]
        };
        let is_wanted = if is_read { self.is_weight(value) } else { !self.time.is_tiled(value) };
        if !is_wanted || !slicer.may_slice(op) {
            return None;
        }
        let bytes = thick.local_type(mesh, self.base.program.ty(value)).bytes() as u64;
        let dims = (0..thin.dims.len()).filter(|&dim| thin.dims[dim] == thick.dims[dim]).collect();
        let parts = thick.dims.iter().map(|pieces| mesh.product(pieces)).collect();
        Some(Moved { value, op, is_read, bytes, dims, parts })
    }

    /// Whether a value is a parameter, or one in another form.
    fn is_weight(&self, mut value: ValueId) -> bool {
        let program = self.base.program;
        while let Some(op) = program.producer(value) {
            let operation = &program.ops[op];
            if is_heavy(&operation.op) || operation.operands.len() != 1 && operation.op != Op::OptimizationBarrier {
                return false;
            }
            let place = operation.results.iter().position(|&result| result == value).unwrap_or(0);
            let Some(&operand) = operation.operands.get(place) else { return false };
            value = operand;
        }
        let argument = program.body().arguments.iter().position(|&argument| argument == value);
        argument.is_some_and(|argument| self.base.anatomy.classes[argument] == ArgumentClass::Parameter)
    }
}

impl Measure {
    /// Into how many slices to cut what takes so many bytes, if it is worth it.
    fn slices(&self, bytes: u64, peak_bytes: u64) -> Option<usize> {
        let share = bytes as f64 / peak_bytes.max(1) as f64;
        let slices = ((share / self.slice_share).ceil() as usize).next_power_of_two();
        (share >= self.least_share).then_some(slices.clamp(2, self.most_slices))
    }
}

/// The bytes of the largest value, and all that are about as large.
fn largest(sized: Vec<(u64, ValueId)>) -> (u64, Vec<ValueId>) {
    let most = sized.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    let is_large = |(bytes, _): &(u64, ValueId)| bytes * 4 >= most * 3;
    (most, sized.into_iter().filter(is_large).map(|(_, value)| value).collect())
}

/// A weight that is gathered for an op, or a gradient that is reduced after one.
struct Moved {
    value: ValueId,
    op: OpId,
    is_read: bool,
    /// What the op has of it.
    bytes: u64,
    /// The dimensions that stay as they are when it is moved, and into how many parts devices cut each.
    dims: Vec<usize>,
    parts: Vec<usize>,
}

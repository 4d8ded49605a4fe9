//! Finding the expanded form of attention.

use super::mask::{self, Mask};
use super::{binary_operands, splat};
use crate::program::{Binary, DType, Dims, DotGeneral, Id, Op, OpId, Program, Shape, Unary, ValueId};

/// An attention: what it reads, and how its operands and its result are laid out.
pub(super) struct Match {
    pub(super) query: ValueId,
    pub(super) key: ValueId,
    pub(super) value: ValueId,
    pub(super) scale: f64,
    pub(super) mask: Mask,
    pub(super) bias: Option<ValueId>,
    /// batch, heads, groups, queries, keys, width, depth.
    pub(super) sizes: [usize; 7],
    /// The dimensions of each operand in the order of the op.
    pub(super) query_order: Dims,
    pub(super) key_order: Dims,
    pub(super) value_order: Dims,
    /// The dimensions of the scores in the order batch, heads, queries, keys.
    pub(super) score_order: Dims,
    /// The shape of the result with its batch and head dimensions taken apart again, and then the
    /// order in which the original has them.
    pub(super) result_parts: Shape,
    pub(super) result_order: Dims,
    pub(super) dtype: DType,
}

/// The attention whose last matrix product is `op`.
pub(super) fn find(program: &Program, uses: &[u32], op: OpId) -> Option<Match> {
    let operation = program.ops.get(op)?;
    let Op::DotGeneral(last) = &operation.op else { return None };
    let (left, right) = (operation.operands[0], operation.operands[1]);
    let from = |probabilities, value, on_left| {
        let mut inside = Inside { program, uses, ops: Vec::new() };
        let scores = softmax_input(&mut inside, probabilities)?;
        let scores = read_scores(&mut inside, scores)?;
        inside.is_closed(op).then_some(())?;
        arrange(program, &scores, last, value, on_left)
    };
    from(left, right, true).or_else(|| from(right, left, false))
}

/// The ops of the pattern, which nothing outside of it may read.
struct Inside<'p> {
    program: &'p Program,
    uses: &'p [u32],
    ops: Vec<OpId>,
}

impl<'p> Inside<'p> {
    /// The op that makes a value; it becomes part of the pattern.
    fn take(&mut self, value: ValueId) -> Option<&'p crate::program::Operation> {
        let op = self.program.producer(value)?;
        if !self.ops.contains(&op) {
            self.ops.push(op);
        }
        Some(&self.program.ops[op])
    }

    /// Whether every result inside is read only inside and by the last op.
    fn is_closed(&self, last: OpId) -> bool {
        let mut reads = rustc_hash::FxHashMap::default();
        for &op in self.ops.iter().chain([&last]) {
            for &operand in &self.program.ops[op].operands {
                *reads.entry(operand).or_insert(0) += 1;
            }
        }
        let results = self.ops.iter().flat_map(|&op| &self.program.ops[op].results);
        results.clone().all(|result| reads.get(result).copied().unwrap_or(0) == self.uses[result.index()])
    }
}

/// `exp(x - max x) / sum exp(x - max x)`, computed in f32 or wider: gives `x`.
fn softmax_input(inside: &mut Inside<'_>, mut probabilities: ValueId) -> Option<ValueId> {
    let program = inside.program;
    while let Op::Convert { .. } = inside.take(probabilities)?.op {
        probabilities = inside.take(probabilities)?.operands[0];
    }
    if !matches!(program.dtype(probabilities), DType::F32 | DType::F64) {
        return None;
    }
    let [exponential, sum] = binary_operands(program, probabilities, Binary::Divide)?;
    let rank = program.shape(probabilities).len();
    let keys = rank.checked_sub(1)?;
    let total = reduced_along(inside, sum, keys)?;
    if total.kind != Binary::Add || !total.is_of(program, exponential) {
        return None;
    }
    let operation = inside.take(exponential)?;
    if operation.op != Op::Unary(Unary::Exponential) {
        return None;
    }
    let difference = operation.operands[0];
    inside.take(difference)?;
    let [scores, maximum] = binary_operands(program, difference, Binary::Subtract)?;
    let largest = reduced_along(inside, maximum, keys)?;
    (largest.kind == Binary::Maximum && largest.is_of(program, scores)).then_some(scores)
}

/// What was reduced along one dimension and then broadcast back along it.
struct Reduced {
    input: ValueId,
    kind: Binary,
    /// For each dimension of the broadcast, the dimension of the input it is; none where the size
    /// is 1, which may be any.
    order: Vec<Option<usize>>,
}

impl Reduced {
    /// Whether the input is that value, or what the value is a transpose of.
    fn is_of(&self, program: &Program, value: ValueId) -> bool {
        let fits = |order: &mut dyn Iterator<Item = usize>| {
            self.order.iter().zip(order).all(|(found, expected)| found.is_none_or(|found| found == expected))
        };
        if self.input == value {
            return fits(&mut (0..self.order.len()));
        }
        let producer = program.producer(value).map(|op| &program.ops[op]);
        producer.is_some_and(|operation| match &operation.op {
            Op::Transpose { permutation } if operation.operands[0] == self.input => {
                fits(&mut permutation.iter().copied())
            }
            _ => false,
        })
    }
}

/// The reduction that was broadcast back along `dim`.
fn reduced_along(inside: &mut Inside<'_>, value: ValueId, dim: usize) -> Option<Reduced> {
    let program = inside.program;
    let rank = program.shape(value).len();
    // For each dimension of the value at hand, the dimension of the broadcast it becomes.
    let mut places: Vec<Option<usize>> = (0..rank).map(Some).collect();
    let mut value = value;
    loop {
        let operation = inside.take(value)?;
        match &operation.op {
            Op::BroadcastInDim(broadcast) => {
                let operand = program.shape(operation.operands[0]);
                let grows = |position: usize| operand[position] != broadcast.shape[broadcast.dims[position]];
                places = (0..operand.len())
                    .map(|position| if grows(position) { None } else { places[broadcast.dims[position]] })
                    .collect();
                value = operation.operands[0];
            }
            Op::Reshape { shape } => {
                places = places_before_reshape(program.shape(operation.operands[0]), shape, &places)?;
                value = operation.operands[0];
            }
            // JAX bounds the maximum from below by minus infinity.
            Op::Binary(Binary::Maximum) => {
                let bounded = operation.operands.iter().position(|&side| splat(program, side).is_some())?;
                if splat(program, operation.operands[bounded])? != f64::NEG_INFINITY {
                    return None;
                }
                value = operation.operands[1 - bounded];
            }
            Op::Transpose { permutation } => {
                let mut before = vec![None; permutation.len()];
                permutation.iter().zip(&places).for_each(|(&from, &place)| before[from] = place);
                places = before;
                value = operation.operands[0];
            }
            Op::Reduce { dims } => {
                let (&[input, initial], &[along]) = (operation.operands.as_slice(), dims.as_slice()) else {
                    return None;
                };
                let kind = program.applied_binary(operation.regions[0])?;
                let neutral = if kind == Binary::Add { 0.0 } else { f64::NEG_INFINITY };
                if splat(program, initial) != Some(neutral) || places.len() + 1 != rank {
                    return None;
                }
                let mut order = vec![None; rank];
                let kept = (0..rank).filter(|&kept| kept != along);
                for (kept, place) in kept.zip(places) {
                    order[place.unwrap_or(dim)] = place.map(|_| kept);
                }
                order[dim] = Some(along);
                return Some(Reduced { input, kind, order });
            }
            _ => return None,
        }
    }
}

/// The places of an operand's dimensions, given those of its reshape, where the reshape only adds
/// or drops dimensions of size 1.
fn places_before_reshape(operand: &[usize], result: &[usize], places: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
    let mut large = result.iter().zip(places).filter(|(size, _)| **size != 1);
    let before = operand
        .iter()
        .map(|&size| match size {
            1 => Some(None),
            _ => large.next().filter(|(other, _)| **other == size).map(|(_, place)| *place),
        })
        .collect::<Option<Vec<_>>>()?;
    large.next().is_none().then_some(before)
}

/// `mask(scale * query * key)`: its parts.
struct Scores<'p> {
    dot: &'p DotGeneral,
    query: ValueId,
    key: ValueId,
    scale: f64,
    mask: Mask,
    bias: Option<ValueId>,
    /// For each dimension of the scores, the dimension of the product it is.
    order: Dims,
    shape: &'p [usize],
}

fn read_scores<'p>(inside: &mut Inside<'p>, scores: ValueId) -> Option<Scores<'p>> {
    let program = inside.program;
    let shape = program.shape(scores);
    let mut order: Dims = (0..shape.len()).collect();
    let mut value = scores;
    let mut scale = None;
    let mut mask = Mask::None;
    let mut bias = None;
    loop {
        let operation = inside.take(value)?;
        let operands = operation.operands.as_slice();
        let is_masked = !matches!(mask, Mask::None);
        let is_in_order = order.iter().enumerate().all(|(index, &dim)| index == dim);
        match &operation.op {
            Op::DotGeneral(dot) => {
                let scale = scale.unwrap_or(1.0);
                return Some(Scores { dot, query: operands[0], key: operands[1], scale, mask, bias, order, shape });
            }
            Op::Convert { .. } => value = operands[0],
            Op::Transpose { permutation } => {
                order = order.iter().map(|&dim| permutation[dim]).collect();
                value = operands[0];
            }
            Op::Binary(Binary::Multiply) if scale.is_none() => {
                let constant = operands.iter().position(|&side| splat(program, side).is_some())?;
                scale = Some(splat(program, operands[constant])?);
                value = operands[1 - constant];
            }
            Op::Binary(Binary::Divide) if scale.is_none() => {
                scale = Some(1.0 / splat(program, operands[1])?);
                value = operands[0];
            }
            // What is added after scaling is a bias; what is added before would be scaled too.
            Op::Binary(Binary::Add) if scale.is_none() && bias.is_none() && is_in_order => {
                let product = operands.iter().position(|&side| leads_to_product(program, side))?;
                bias = Some(operands[1 - product]);
                value = operands[product];
            }
            Op::Select if scale.is_none() && bias.is_none() && !is_masked && is_in_order => {
                mask = mask::read_select(program, operands)?;
                value = operands[1];
            }
            _ => return None,
        }
    }
}

/// Whether a value is a scaled product, and no bias.
fn leads_to_product(program: &Program, mut value: ValueId) -> bool {
    loop {
        let Some(op) = program.producer(value) else { return false };
        let operation = &program.ops[op];
        match &operation.op {
            Op::DotGeneral(_) => return true,
            Op::Convert { .. } | Op::Transpose { .. } => value = operation.operands[0],
            Op::Binary(Binary::Multiply | Binary::Divide) => {
                let Some(side) = operation.operands.iter().find(|&&side| splat(program, side).is_none()) else {
                    return false;
                };
                value = *side;
            }
            _ => return false,
        }
    }
}

/// Puts the dimensions of all operands in order, or finds that they do not fit.
fn arrange(program: &Program, scores: &Scores<'_>, last: &DotGeneral, value: ValueId, on_left: bool) -> Option<Match> {
    let first = scores.dot;
    let query_shape = program.shape(scores.query);
    let key_shape = program.shape(scores.key);
    let batches = first.lhs_batch.len();
    let query_free = free_dims(query_shape.len(), &first.lhs_batch, &first.lhs_contract);
    let key_free = free_dims(key_shape.len(), &first.rhs_batch, &first.rhs_contract);
    let (&[width], &[key_width], &[keys]) =
        (first.lhs_contract.as_slice(), first.rhs_contract.as_slice(), key_free.as_slice())
    else {
        return None;
    };
    let rank = scores.shape.len();
    // The product's dimensions: batches, then the free ones of the query, then the keys.
    if *scores.order.last()? != batches + query_free.len() {
        return None;
    }
    let (batch_dims, contract_dims) =
        if on_left { (&last.lhs_batch, &last.lhs_contract) } else { (&last.rhs_batch, &last.rhs_contract) };
    let (value_batch, value_contract) =
        if on_left { (&last.rhs_batch, &last.rhs_contract) } else { (&last.lhs_batch, &last.lhs_contract) };
    if contract_dims.as_slice() != [rank - 1] || batch_dims.len() != batches {
        return None;
    }
    // Which batch of the first product each batch of the last one is.
    let batch_order: Dims = batch_dims.iter().map(|&dim| scores.order[dim]).collect();
    if batch_order.iter().any(|&dim| dim >= batches) {
        return None;
    }
    let value_shape = program.shape(value);
    let value_free = free_dims(value_shape.len(), value_batch, value_contract);
    let &[depth] = value_free.as_slice() else { return None };
    let value_batches: Dims = (0..batches)
        .map(|batch| batch_order.iter().position(|&of| of == batch).map(|position| value_batch[position]))
        .collect::<Option<_>>()?;

    // The queries are the last free dimension of the query as the scores have them; a dimension
    // before them is the heads that share a key.
    let free_in_scores: Dims =
        scores.order.iter().filter(|&&dim| (batches..batches + query_free.len()).contains(&dim)).copied().collect();
    let (shared, queries) = match free_in_scores[..] {
        [queries] => (None, queries - batches),
        [shared, queries] => (Some(shared - batches), queries - batches),
        _ => return None,
    };
    let size = |shape: &[usize], dims: &[usize]| -> usize { dims.iter().map(|&dim| shape[dim]).product() };
    let outer = batches.saturating_sub(1);
    let groups = size(query_shape, &first.lhs_batch[outer..]);
    let share = shared.map_or(1, |shared| query_shape[query_free[shared]]);
    let sizes = [
        size(query_shape, &first.lhs_batch[..outer]),
        groups * share,
        groups,
        query_shape[query_free[queries]],
        key_shape[keys],
        query_shape[width],
        value_shape[depth],
    ];
    let same_dtype = program.dtype(scores.query) == program.dtype(scores.key)
        && program.dtype(scores.query) == program.dtype(value)
        && program.dtype(value).is_float();
    let mask = scores.mask.fitted(program, rank, &scores.order, batches + queries, sizes[3], sizes[4]);
    if !same_dtype || value_shape[value_contract[0]] != sizes[4] {
        return None;
    }
    let shared_dim = shared.map(|shared| query_free[shared]);
    let position_in_scores = |dim: usize| scores.order.iter().position(|&of| of == dim);
    let score_order: Dims = (0..batches)
        .chain(shared.map(|shared| batches + shared))
        .chain([batches + queries, batches + query_free.len()])
        .map(position_in_scores)
        .collect::<Option<_>>()?;
    // The result as the op gives it, taken apart: batches, shared heads, queries, depth.
    let result_parts: Shape = (first.lhs_batch.iter().map(|&dim| query_shape[dim]))
        .chain(shared_dim.map(|dim| query_shape[dim]))
        .chain([sizes[3], sizes[6]])
        .collect();
    let probabilities_free = (0..rank).filter(|dim| !batch_dims.contains(dim) && !contract_dims.contains(dim));
    let free_parts = probabilities_free.map(|dim| score_order.iter().position(|&of| of == dim));
    let free_parts: Dims = free_parts.collect::<Option<_>>()?;
    let depth_part = result_parts.len() - 1;
    let result_order: Dims = match on_left {
        true => batch_order.iter().copied().chain(free_parts).chain([depth_part]).collect(),
        false => batch_order.iter().copied().chain([depth_part]).chain(free_parts).collect(),
    };
    Some(Match {
        query: scores.query,
        key: scores.key,
        value,
        scale: scores.scale,
        mask: mask?,
        bias: scores.bias,
        sizes,
        query_order: first.lhs_batch.iter().copied().chain(shared_dim).chain([query_free[queries], width]).collect(),
        key_order: first.rhs_batch.iter().copied().chain([keys, key_width]).collect(),
        value_order: value_batches.into_iter().chain([value_contract[0], depth]).collect(),
        score_order,
        result_parts,
        result_order,
        dtype: last.dtype,
    })
}

fn free_dims(rank: usize, batch: &[usize], contract: &[usize]) -> Dims {
    (0..rank).filter(|dim| !batch.contains(dim) && !contract.contains(dim)).collect()
}

//! The gradient of every op: one row per op, in the order of the alphabet.

use super::{Gradients, control, convolution, elementwise, index, window};
use crate::program::{
    Attention, AttentionGrad, BatchNorm, BroadcastInDim, Builder, Dims, Direction, DotGeneral, Op, Operation, Pad,
    Shape, Slice, ValueId,
};

/// Turns the gradients of an op's results into gradients of its operands. At least one of `known` is
/// there. The error says that the op has no gradient.
pub(super) fn apply(
    builder: &mut Builder,
    operation: &Operation,
    known: &[Option<ValueId>],
    gradients: &mut Gradients,
) -> Result<(), String> {
    let operands = operation.operands.clone();
    // The gradient of the only result; ops with several look at `known`.
    let gradient = known.iter().flatten().next().copied();
    let Some(gradient) = gradient else { return Ok(()) };
    let mut rule = Rule { builder, operation, gradient, known, gradients };
    match &operation.op {
        Op::Attention(attention) => rule.attention(attention),
        Op::BatchNormTraining(norm) => rule.batch_norm_training(*norm),
        Op::Binary(binary) => elementwise::binary(&mut rule, *binary),
        Op::BroadcastInDim(broadcast) => rule.broadcast_in_dim(broadcast),
        Op::Case => return control::case(&mut rule),
        Op::Clamp => rule.clamp(),
        Op::Concatenate { dim } => rule.concatenate(*dim),
        Op::Convert { .. } => rule.convert(),
        Op::Convolution(op) => convolution::convolution(&mut rule, op),
        Op::DotGeneral(dot) => rule.dot_general(dot),
        Op::DynamicSlice { .. } => index::dynamic_slice(&mut rule),
        Op::DynamicUpdateSlice => index::dynamic_update_slice(&mut rule),
        Op::Gather(gather) => index::gather(&mut rule, gather),
        Op::If => return control::if_else(&mut rule),
        Op::OptimizationBarrier => rule.optimization_barrier(),
        Op::Pad(pad) => rule.pad(pad),
        Op::Reduce { dims } => return window::reduce(&mut rule, dims),
        Op::ReducePrecision { .. } => rule.give(0, gradient),
        Op::ReduceWindow(op) => return window::reduce_window(&mut rule, op),
        Op::Reshape { .. } => {
            let shape = rule.builder.shape(operands[0]);
            let reshaped = rule.builder.reshape(gradient, &shape);
            rule.give(0, reshaped);
        }
        Op::Reverse { dims } => {
            let reversed = rule.builder.op(Op::Reverse { dims: dims.clone() }, &[gradient], &[])[0];
            rule.give(0, reversed);
        }
        Op::Scatter(scatter) => return index::scatter(&mut rule, scatter),
        Op::Select => rule.select(),
        Op::Slice(slice) => rule.slice(slice),
        Op::Sort { dim, .. } => return index::sort(&mut rule, *dim),
        Op::TopK { .. } => index::top_k(&mut rule),
        Op::Transpose { permutation } => {
            let mut inverse = permutation.clone();
            permutation.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
            let transposed = rule.builder.transpose(gradient, &inverse);
            rule.give(0, transposed);
        }
        Op::Unary(unary) => return elementwise::unary(&mut rule, *unary),
        Op::While => return control::while_loop(&mut rule),
        // No small change of an operand changes the result.
        Op::AfterAll
        | Op::BitcastConvert { .. }
        | Op::Check(_)
        | Op::Compare { .. }
        | Op::Constant(_)
        | Op::Iota { .. }
        | Op::PartitionId
        | Op::ReplicaId
        | Op::RngBitGenerator { .. } => {}
        Op::AllGather(_)
        | Op::AllReduce(_)
        | Op::AllToAll(_)
        | Op::AttentionGrad(_)
        | Op::BatchNormGrad(_)
        | Op::BatchNormInference(_)
        | Op::Cholesky { .. }
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute(_)
        | Op::Complex
        | Op::CustomCall(_)
        | Op::Fft { .. }
        | Op::Infeed(_)
        | Op::Map
        | Op::Opaque(_)
        | Op::Outfeed(_)
        | Op::Recv(_)
        | Op::ReduceScatter(_)
        | Op::Rng { .. }
        | Op::SelectAndScatter(_)
        | Op::Send(_)
        | Op::TriangularSolve(_) => return Err(rule.refusal("")),
    }
    Ok(())
}

/// One op under differentiation.
pub(super) struct Rule<'r> {
    pub(super) builder: &'r mut Builder,
    pub(super) operation: &'r Operation,
    /// The gradient of the first result that has one.
    pub(super) gradient: ValueId,
    /// The gradients of all results.
    pub(super) known: &'r [Option<ValueId>],
    pub(super) gradients: &'r mut Gradients,
}

impl Rule<'_> {
    pub(super) fn operand(&self, index: usize) -> ValueId {
        self.operation.operands[index]
    }

    pub(super) fn result(&self, index: usize) -> ValueId {
        self.operation.results[index]
    }

    /// Whether the gradient of an operand is of use.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.gradients.active.contains(&self.operand(index))
    }

    pub(super) fn give(&mut self, index: usize, gradient: ValueId) {
        let operand = self.operand(index);
        self.gradients.add(self.builder, operand, gradient);
    }

    /// The error that this op has no gradient.
    pub(super) fn refusal(&self, why: &str) -> String {
        let scope = &self.builder.program.locations[self.operation.location].scope;
        let place = if scope.is_empty() { String::new() } else { format!(" (in `{scope}`)") };
        format!("`{}` has no gradient{why}{place}", self.operation.op.name())
    }

    fn attention(&mut self, attention: &Attention) {
        let operands = self.operation.operands.clone();
        // The backward pass needs what the softmax divided by, which a forward pass alone does not
        // give: where it is missing, the attention is computed again with it.
        let (output, statistics) = if attention.statistics {
            (self.result(0), self.result(1))
        } else {
            let again = Attention { statistics: true, ..attention.clone() };
            let results = self.builder.attention(&operands, again);
            (results[0], results[1])
        };
        let bias_gradient = attention.bias && self.wants(3);
        let op =
            AttentionGrad { scale: attention.scale, causal: attention.causal, bias: attention.bias, bias_gradient };
        let mut inputs = operands.to_vec();
        inputs.extend([output, statistics, self.gradient]);
        let results = self.builder.op(Op::AttentionGrad(Box::new(op)), &inputs, &[]);
        results.iter().enumerate().for_each(|(index, &result)| self.give(index, result));
    }

    /// Statistics are not differentiated through: they go into running averages.
    fn batch_norm_training(&mut self, norm: BatchNorm) {
        let Some(gradient) = self.known[0] else { return };
        let operands = [self.operand(0), self.operand(1), self.result(1), self.result(2), gradient];
        let results = self.builder.op(Op::BatchNormGrad(norm), &operands, &[]);
        results.iter().enumerate().for_each(|(index, &result)| self.give(index, result));
    }

    fn broadcast_in_dim(&mut self, broadcast: &BroadcastInDim) {
        let shape = self.builder.shape(self.operand(0));
        let kept = |dim: &usize| {
            let position = broadcast.dims.iter().position(|to| to == dim);
            position.is_some_and(|position| shape[position] == broadcast.shape[*dim])
        };
        let summed: Dims = (0..broadcast.shape.len()).filter(|dim| !kept(dim)).collect();
        let sum = self.builder.sum(self.gradient, &summed);
        // The kept dimensions come out in the order of the result; the operand may have another.
        let mut order: Vec<usize> = (0..shape.len()).filter(|&dim| kept(&broadcast.dims[dim])).collect();
        order.sort_by_key(|&dim| broadcast.dims[dim]);
        let large: Dims = (0..shape.len()).filter(|&dim| kept(&broadcast.dims[dim])).collect();
        let permutation: Dims = large.iter().filter_map(|dim| order.iter().position(|other| other == dim)).collect();
        let sum = self.builder.transpose(sum, &permutation);
        let sum = self.builder.reshape(sum, &shape);
        self.give(0, sum);
    }

    /// Nothing passes where the operand is cut off.
    fn clamp(&mut self) {
        let [low, value, high] = [self.operand(0), self.operand(1), self.operand(2)];
        let shape = self.builder.shape(value);
        let low = self.builder.broadcast(low, &shape, &[]);
        let high = self.builder.broadcast(high, &shape, &[]);
        let above = self.builder.compare(Direction::Greater, value, low);
        let below = self.builder.compare(Direction::Less, value, high);
        let inside = self.builder.binary(crate::program::Binary::And, above, below);
        let zero = self.builder.full_like(self.gradient, 0.0);
        let passed = self.builder.select(inside, self.gradient, zero);
        self.give(1, passed);
    }

    fn concatenate(&mut self, dim: usize) {
        let mut start = 0;
        for index in 0..self.operation.operands.len() {
            let limit = start + self.builder.shape(self.operand(index))[dim];
            if self.wants(index) {
                let piece = self.builder.slice_dim(self.gradient, dim, start, limit);
                self.give(index, piece);
            }
            start = limit;
        }
    }

    fn convert(&mut self) {
        let dtype = self.builder.dtype(self.operand(0));
        if dtype.is_float() {
            let converted = self.builder.convert(self.gradient, dtype);
            self.give(0, converted);
        }
    }

    /// Each side's gradient is the product of the other side with the result's, brought into place.
    fn dot_general(&mut self, dot: &DotGeneral) {
        let (left, right) = (self.operand(0), self.operand(1));
        let left_rank = self.builder.shape(left).len();
        let right_rank = self.builder.shape(right).len();
        let free = |rank: usize, batch: &[usize], contract: &[usize]| -> Dims {
            (0..rank).filter(|dim| !batch.contains(dim) && !contract.contains(dim)).collect()
        };
        let left_free = free(left_rank, &dot.lhs_batch, &dot.lhs_contract);
        let right_free = free(right_rank, &dot.rhs_batch, &dot.rhs_contract);
        let batches = dot.lhs_batch.len();
        let result_batch: Dims = (0..batches).collect();
        let result_left: Dims = (batches..batches + left_free.len()).collect();
        let result_right: Dims = (batches + left_free.len()..batches + left_free.len() + right_free.len()).collect();
        if self.wants(0) {
            let dtype = self.builder.dtype(left);
            let right = self.builder.convert(right, self.builder.dtype(self.gradient));
            // batch, left free, right contracted (in the order of the right operand's dimensions).
            let product = self.builder.dot(
                self.gradient,
                right,
                [&result_batch, &dot.rhs_batch],
                [&result_right, &right_free],
                dtype,
            );
            let contracted = paired_in_order(&dot.rhs_contract, &dot.lhs_contract);
            let places: Dims = dot.lhs_batch.iter().chain(&left_free).chain(&contracted).copied().collect();
            let placed = self.placed(product, &places);
            self.give(0, placed);
        }
        if self.wants(1) {
            let dtype = self.builder.dtype(right);
            let left = self.builder.convert(left, self.builder.dtype(self.gradient));
            let product = self.builder.dot(
                self.gradient,
                left,
                [&result_batch, &dot.lhs_batch],
                [&result_left, &left_free],
                dtype,
            );
            let contracted = paired_in_order(&dot.lhs_contract, &dot.rhs_contract);
            let places: Dims = dot.rhs_batch.iter().chain(&right_free).chain(&contracted).copied().collect();
            let placed = self.placed(product, &places);
            self.give(1, placed);
        }
    }

    /// The value with its dimension `i` moved to place `places[i]`.
    pub(super) fn placed(&mut self, value: ValueId, places: &[usize]) -> ValueId {
        let mut permutation: Dims = places.iter().map(|_| 0).collect();
        places.iter().enumerate().for_each(|(from, &to)| permutation[to] = from);
        self.builder.transpose(value, &permutation)
    }

    fn optimization_barrier(&mut self) {
        let present: Vec<(usize, ValueId)> =
            self.known.iter().enumerate().filter_map(|(index, known)| Some((index, (*known)?))).collect();
        for (index, gradient) in present {
            self.give(index, gradient);
        }
    }

    fn pad(&mut self, pad: &Pad) {
        let shape = self.builder.shape(self.operand(0));
        let ones: Vec<i64> = shape.iter().map(|_| 0).collect();
        let negated = |padding: &[i64]| padding.iter().map(|amount| -amount).collect::<Vec<i64>>();
        let zero = self.builder.scalar(self.builder.dtype(self.gradient), 0.0);
        if self.wants(0) {
            // Cuts the edges off (or fills back what a negative padding cut), then drops what stands
            // between elements.
            let inner = self.builder.pad(self.gradient, zero, &negated(&pad.low), &negated(&pad.high), &ones);
            let strides: Shape = pad.interior.iter().map(|&between| between as usize + 1).collect();
            let starts: Shape = shape.iter().map(|_| 0).collect();
            let limits = self.builder.shape(inner);
            let taken = self.builder.slice(inner, &starts, &limits, &strides);
            self.give(0, taken);
        }
        if self.wants(1) {
            // The padding gets what is not an element.
            let dims: Dims = (0..shape.len()).collect();
            let all = self.builder.sum(self.gradient, &dims);
            let element = self.builder.full_like(self.operand(0), 1.0);
            let mask = self.builder.pad(element, zero, &pad.low, &pad.high, &pad.interior);
            let elements = self.builder.times(self.gradient, mask);
            let elements = self.builder.sum(elements, &dims);
            let rest = self.builder.minus(all, elements);
            self.give(1, rest);
        }
    }

    fn select(&mut self) {
        let predicate = self.operand(0);
        let zero = self.builder.full_like(self.gradient, 0.0);
        if self.wants(1) {
            let passed = self.builder.select(predicate, self.gradient, zero);
            self.give(1, passed);
        }
        if self.wants(2) {
            let passed = self.builder.select(predicate, zero, self.gradient);
            self.give(2, passed);
        }
    }

    fn slice(&mut self, slice: &Slice) {
        let shape = self.builder.shape(self.operand(0));
        let result = self.builder.shape(self.gradient);
        let zero = self.builder.scalar(self.builder.dtype(self.gradient), 0.0);
        let low: Vec<i64> = slice.start.iter().map(|&start| start as i64).collect();
        let interior: Vec<i64> = slice.strides.iter().map(|&stride| stride as i64 - 1).collect();
        let high: Vec<i64> = (0..shape.len())
            .map(|dim| {
                let covered = (result[dim] as i64 - 1).max(0) * slice.strides[dim] as i64 + i64::from(result[dim] > 0);
                shape[dim] as i64 - low[dim] - covered
            })
            .collect();
        let padded = self.builder.pad(self.gradient, zero, &low, &high, &interior);
        self.give(0, padded);
    }
}

/// The partners of `dims` in the order in which `dims` grow: a product leaves the contracted
/// dimensions of an operand in the order of that operand.
fn paired_in_order(dims: &[usize], partners: &[usize]) -> Dims {
    let mut pairs: Vec<(usize, usize)> = dims.iter().copied().zip(partners.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(_, partner)| partner).collect()
}

//! Attention and its gradient in matrix products and a softmax.
//!
//! Query heads that share a group of keys are laid one after the other along the queries, so that
//! keys and values are never repeated in memory. A query that may see no key at all gets zeros, where
//! a softmax taken literally would divide zero by zero.

use smallvec::smallvec;

use super::WrittenOut;
use crate::program::{
    Attention, AttentionGrad, Binary, Builder, DType, Dims, Direction, Literal, Op, Order, Shape, Type, Unary, ValueId,
    Values,
};

pub(super) fn written_out(op: &Op) -> Option<WrittenOut<'_>> {
    match op {
        Op::Attention(op) => Some(Box::new(|builder, operands| attention(builder, op, operands))),
        Op::AttentionGrad(op) => Some(Box::new(|builder, operands| attention_grad(builder, op, operands))),
        // All others are no attention.
        _ => None,
    }
}

/// Results: output and, if asked for, statistics.
fn attention(builder: &mut Builder, op: &Attention, operands: &[ValueId]) -> Values {
    let scores = Scores::of(builder, operands, op.scale, op.causal, op.bias);
    let masked = scores.masked(builder);
    let softmax = scores.softmax(builder, masked);
    let weights = scores.narrow_and_folded(builder, softmax.weights);
    let mut results: Values = smallvec![scores.sum_over_keys(builder, weights, scores.value)];
    if op.statistics {
        results.push(softmax.statistics(builder));
    }
    results
}

/// Results: gradients of query, key, value and, if asked for, bias.
fn attention_grad(builder: &mut Builder, op: &AttentionGrad, operands: &[ValueId]) -> Values {
    let &[.., output, statistics, output_gradient] = operands else { unreachable!("the verifier counts operands") };
    let scores = Scores::of(builder, operands, op.scale, op.causal, op.bias);
    let masked = scores.masked(builder);
    let weights = scores.weights(builder, masked, statistics);
    let value_gradient = scores.value_gradient(builder, weights, output_gradient);
    let score_gradients = scores.score_gradients(builder, weights, output, output_gradient);
    let [query_gradient, key_gradient] = scores.query_and_key_gradients(builder, score_gradients);
    let mut results: Values = smallvec![query_gradient, key_gradient, value_gradient];
    if let Some(bias) = scores.bias.filter(|_| op.bias_gradient) {
        results.push(scores.bias_gradient(builder, score_gradients, bias));
    }
    results
}

/// What the scores of an attention are made of.
struct Scores {
    query: ValueId,
    key: ValueId,
    value: ValueId,
    bias: Option<ValueId>,
    scale: f64,
    causal: bool,
    /// Of all scores; f32 or wider, as the softmax is.
    ty: Type,
    groups: usize,
}

struct Softmax {
    weights: ValueId,
    /// Of each row of scores: the largest, and the sum of the exponentials of what is left after
    /// subtracting it.
    largest: ValueId,
    sum: ValueId,
}

impl Softmax {
    /// The logarithm of a sum of no exponentials is minus infinity, as it should be.
    fn statistics(&self, builder: &mut Builder) -> ValueId {
        let logarithm = builder.unary(Unary::Log, self.sum);
        builder.plus(self.largest, logarithm)
    }
}

impl Scores {
    fn of(builder: &Builder, operands: &[ValueId], scale: f64, causal: bool, has_bias: bool) -> Scores {
        let &[query, key, value, ref others @ ..] = operands else { unreachable!("the verifier counts operands") };
        let (query_type, key_type) = (builder.ty(query), builder.ty(key));
        let (&[batch, heads, queries, _], &[_, groups, keys, _]) = (&query_type.shape[..], &key_type.shape[..]) else {
            unreachable!("the verifier counts dimensions")
        };
        let bias = others.first().copied().filter(|_| has_bias);
        let wide = if query_type.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let ty = Type::new(wide, &[batch, heads, queries, keys]);
        Scores { query, key, value, bias, scale, causal, ty, groups }
    }

    /// The scaled, biased and masked scores.
    fn masked(&self, builder: &mut Builder) -> ValueId {
        let products = self.head_products(builder, self.query, self.key);
        let scale = splat(builder, &self.ty, self.scale);
        let mut masked = builder.times(products, scale);
        if let Some(bias) = self.bias {
            masked = self.biased(builder, masked, bias);
        }
        if self.causal {
            masked = self.without_future(builder, masked);
        }
        masked
    }

    /// `products[b, h, q, k] = left[b, h, q, :] . right[b, h / (heads / groups), k, :]`.
    fn head_products(&self, builder: &mut Builder, left: ValueId, right: ValueId) -> ValueId {
        let left = self.folded(builder, left);
        let products = product_by_groups(builder, left, right, [3, 3], self.ty.dtype);
        builder.reshape(products, &self.ty.shape)
    }

    /// A bias of booleans says which keys are seen.
    fn biased(&self, builder: &mut Builder, scores: ValueId, bias: ValueId) -> ValueId {
        if builder.dtype(bias) == DType::Bool {
            let seen = builder.broadcast_last(bias, &self.ty.shape);
            return self.kept_where(builder, seen, scores);
        }
        let wide = builder.convert(bias, self.ty.dtype);
        let bias = builder.broadcast_last(wide, &self.ty.shape);
        builder.plus(scores, bias)
    }

    /// Masks out the keys after `q + keys - queries` for query `q`.
    fn without_future(&self, builder: &mut Builder, scores: ValueId) -> ValueId {
        let (queries, keys) = (self.ty.shape[2], self.ty.shape[3]);
        let index_type = Type::new(DType::I32, &[queries, keys]);
        let row = builder.iota(&index_type, 0);
        let column = builder.iota(&index_type, 1);
        let ahead = builder.literal(Literal::splat_integer(index_type, keys as i64 - queries as i64));
        let last = builder.plus(row, ahead);
        let at_most = Op::Compare { direction: Direction::LessOrEqual, order: Order::Signed };
        let seen = builder.op(at_most, &[column, last], &[])[0];
        let seen = builder.broadcast_last(seen, &self.ty.shape);
        self.kept_where(builder, seen, scores)
    }

    fn kept_where(&self, builder: &mut Builder, seen: ValueId, scores: ValueId) -> ValueId {
        let hidden = splat(builder, &self.ty, f64::NEG_INFINITY);
        builder.select(seen, scores, hidden)
    }

    /// Softmax along the keys.
    fn softmax(&self, builder: &mut Builder, scores: ValueId) -> Softmax {
        // A largest score of at least the least finite number keeps rows without any key to see
        // away from the difference of two infinities.
        let largest = reduce(builder, Binary::Maximum, scores, self.lowest(), &[3]);
        let everywhere = self.repeated_along_keys(builder, largest);
        let shifted = builder.minus(scores, everywhere);
        let powers = builder.unary(Unary::Exponential, shifted);
        let sum = reduce(builder, Binary::Add, powers, 0.0, &[3]);
        // The largest score adds exactly one, so this changes the sum of rows without keys only.
        let one = splat(builder, &self.row_type(), 1.0);
        let divisor = builder.binary(Binary::Maximum, sum, one);
        let divisor = self.repeated_along_keys(builder, divisor);
        Softmax { weights: builder.over(powers, divisor), largest, sum }
    }

    /// The softmax again, from the statistics of its rows.
    fn weights(&self, builder: &mut Builder, scores: ValueId, statistics: ValueId) -> ValueId {
        // As in the softmax, no difference of two infinities.
        let lowest = splat(builder, &self.row_type(), self.lowest());
        let bounded = builder.binary(Binary::Maximum, statistics, lowest);
        let everywhere = self.repeated_along_keys(builder, bounded);
        let shifted = builder.minus(scores, everywhere);
        builder.unary(Unary::Exponential, shifted)
    }

    fn value_gradient(&self, builder: &mut Builder, weights: ValueId, output_gradient: ValueId) -> ValueId {
        let weights = self.narrow_and_folded(builder, weights);
        let output_gradient = self.folded(builder, output_gradient);
        sum_over_queries(builder, weights, output_gradient)
    }

    /// `weights * (output_gradient * value^T - sum(output * output_gradient))`.
    fn score_gradients(
        &self,
        builder: &mut Builder,
        weights: ValueId,
        output: ValueId,
        output_gradient: ValueId,
    ) -> ValueId {
        let weight_gradients = self.head_products(builder, output_gradient, self.value);
        let wide_output = builder.convert(output, self.ty.dtype);
        let wide_gradient = builder.convert(output_gradient, self.ty.dtype);
        let along_output = builder.times(wide_output, wide_gradient);
        let along_output = reduce(builder, Binary::Add, along_output, 0.0, &[3]);
        let along_output = self.repeated_along_keys(builder, along_output);
        let difference = builder.minus(weight_gradients, along_output);
        builder.times(weights, difference)
    }

    fn query_and_key_gradients(&self, builder: &mut Builder, score_gradients: ValueId) -> [ValueId; 2] {
        let scale = splat(builder, &self.ty, self.scale);
        let scaled = builder.times(score_gradients, scale);
        let scaled = self.narrow_and_folded(builder, scaled);
        let query_gradient = self.sum_over_keys(builder, scaled, self.key);
        let query = self.folded(builder, self.query);
        [query_gradient, sum_over_queries(builder, scaled, query)]
    }

    /// The score gradients summed along the dimensions that the bias does not have.
    fn bias_gradient(&self, builder: &mut Builder, score_gradients: ValueId, bias: ValueId) -> ValueId {
        let bias_type = builder.ty(bias);
        let summed: Dims = (0..4).filter(|&dim| bias_type.shape[dim] != self.ty.shape[dim]).collect();
        let sum = match &summed[..] {
            [] => score_gradients,
            dims => reduce(builder, Binary::Add, score_gradients, 0.0, dims),
        };
        let narrow = builder.convert(sum, bias_type.dtype);
        builder.reshape(narrow, &bias_type.shape)
    }

    /// A tensor of scores in the element type of the values, the heads of a group one after the
    /// other.
    fn narrow_and_folded(&self, builder: &mut Builder, scores: ValueId) -> ValueId {
        let narrow = builder.convert(scores, builder.dtype(self.value));
        self.folded(builder, narrow)
    }

    /// The heads of a group laid one after the other along the next dimension.
    fn folded(&self, builder: &mut Builder, value: ValueId) -> ValueId {
        let shape = builder.shape(value);
        let per_group = shape[1] / self.groups;
        builder.reshape(value, &[shape[0], self.groups, per_group * shape[2], shape[3]])
    }

    /// `result[b, h, q, :] = sum over k of scores[b, h, q, k] * rows[b, h / (heads / groups), k, :]`
    /// of folded scores.
    fn sum_over_keys(&self, builder: &mut Builder, scores: ValueId, rows: ValueId) -> ValueId {
        let product = product_by_groups(builder, scores, rows, [3, 2], builder.dtype(rows));
        let mut shape = Shape::from_slice(&self.ty.shape[..3]);
        shape.push(builder.shape(rows)[3]);
        builder.reshape(product, &shape)
    }

    /// One number per row, repeated for all of its scores.
    fn repeated_along_keys(&self, builder: &mut Builder, rows: ValueId) -> ValueId {
        builder.broadcast_along(rows, &self.ty.shape, 3)
    }

    fn row_type(&self) -> Type {
        self.ty.with_shape(&self.ty.shape[..3])
    }

    /// The least finite number.
    fn lowest(&self) -> f64 {
        if self.ty.dtype == DType::F64 { f64::MIN } else { f64::from(f32::MIN) }
    }
}

/// `result[b, g, k, :] = sum over q of scores[b, g, q, k] * rows[b, g, q, :]`, both folded.
fn sum_over_queries(builder: &mut Builder, scores: ValueId, rows: ValueId) -> ValueId {
    product_by_groups(builder, scores, rows, [2, 2], builder.dtype(rows))
}

/// A product of matrices, one for each group of each batch entry.
fn product_by_groups(
    builder: &mut Builder,
    left: ValueId,
    right: ValueId,
    contract: [usize; 2],
    dtype: DType,
) -> ValueId {
    builder.dot(left, right, [&[0, 1], &[0, 1]], [&contract[..1], &contract[1..]], dtype)
}

/// A constant of its own for each use, so that what an attention becomes does not depend on whether
/// its scale happens to be one of the other numbers.
fn scalar(builder: &mut Builder, dtype: DType, number: f64) -> ValueId {
    builder.literal(Literal::splat_number(Type::scalar(dtype), number))
}

fn splat(builder: &mut Builder, ty: &Type, number: f64) -> ValueId {
    let scalar = scalar(builder, ty.dtype, number);
    builder.broadcast(scalar, &ty.shape, &[])
}

fn reduce(builder: &mut Builder, binary: Binary, value: ValueId, initial: f64, dims: &[usize]) -> ValueId {
    let dtype = builder.dtype(value);
    let initial = scalar(builder, dtype, initial);
    let reducer = builder.reducer(binary, dtype);
    builder.op(Op::Reduce { dims: Dims::from_slice(dims) }, &[value, initial], &[reducer])[0]
}

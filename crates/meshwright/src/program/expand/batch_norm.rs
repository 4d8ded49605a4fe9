//! Batch normalization of training steps, and its gradient, in sums over a batch.

use smallvec::SmallVec;

use super::WrittenOut;
use crate::program::{BatchNorm, Builder, DType, Dims, Op, Shape, Unary, ValueId};

pub(super) fn written_out(op: &Op) -> Option<WrittenOut<'_>> {
    match op {
        Op::BatchNormGrad(norm) => Some(computed_widely(*norm, grad)),
        Op::BatchNormTraining(norm) => Some(computed_widely(*norm, training)),
        // All others can be cut as they are, or not at all.
        _ => None,
    }
}

/// Adds the results of a normalization, made of its operands.
type Build = fn(&mut Builder, BatchNorm, &[ValueId]) -> [ValueId; 3];

/// Sums of numbers narrower than f32 would lose what they add up.
fn computed_widely(norm: BatchNorm, build: Build) -> WrittenOut<'static> {
    Box::new(move |builder, operands| {
        let dtype = builder.dtype(operands[0]);
        let wide: SmallVec<[ValueId; 5]> =
            operands.iter().map(|&operand| builder.convert(operand, widened(builder.dtype(operand)))).collect();
        build(builder, norm, &wide).into_iter().map(|result| builder.convert(result, dtype)).collect()
    })
}

fn widened(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Operands: input, scale, offset. Results: output, mean, variance.
fn training(builder: &mut Builder, norm: BatchNorm, operands: &[ValueId]) -> [ValueId; 3] {
    let &[input, scale, offset] = operands else { unreachable!("the verifier counts operands") };
    let features = Features::of(builder, norm, input);
    let mean = features.mean(builder, input);
    let centered = features.centered(builder, input, mean);
    let square = builder.times(centered, centered);
    let variance = features.mean(builder, square);
    let factor = inverse_deviation(builder, norm, variance);
    let factor = builder.times(factor, scale);
    let (factor, offset) = (features.spread(builder, factor), features.spread(builder, offset));
    let scaled = builder.times(centered, factor);
    [builder.plus(scaled, offset), mean, variance]
}

/// Operands: input, scale, mean, variance, gradient of the output. Results: gradients of input, scale
/// and offset.
fn grad(builder: &mut Builder, norm: BatchNorm, operands: &[ValueId]) -> [ValueId; 3] {
    let &[input, scale, mean, variance, gradient] = operands else { unreachable!("the verifier counts operands") };
    let features = Features::of(builder, norm, input);
    let centered = features.centered(builder, input, mean);
    let offset_gradient = builder.sum(gradient, &features.others);
    let product = builder.times(gradient, centered);
    let product = builder.sum(product, &features.others);
    let inverse = inverse_deviation(builder, norm, variance);
    let scale_gradient = builder.times(product, inverse);
    // What the mean and the variance pass on is taken off every element.
    let through_mean = features.share(builder, offset_gradient);
    let through_variance = builder.times(scale_gradient, inverse);
    let through_variance = features.share(builder, through_variance);
    let through_mean = features.spread(builder, through_mean);
    let through_variance = features.spread(builder, through_variance);
    let through_variance = builder.times(centered, through_variance);
    let rest = builder.minus(gradient, through_mean);
    let rest = builder.minus(rest, through_variance);
    let factor = builder.times(scale, inverse);
    let factor = features.spread(builder, factor);
    [builder.times(rest, factor), scale_gradient, offset_gradient]
}

fn inverse_deviation(builder: &mut Builder, norm: BatchNorm, variance: ValueId) -> ValueId {
    let shifted = builder.plus_number(variance, f64::from(norm.epsilon));
    builder.unary(Unary::Rsqrt, shifted)
}

/// How features lie in the tensor that is normalized.
struct Features {
    dim: usize,
    others: Dims,
    shape: Shape,
    /// Elements of each feature.
    count: f64,
}

impl Features {
    fn of(builder: &Builder, norm: BatchNorm, input: ValueId) -> Features {
        let (dim, shape) = (norm.feature_dim, builder.shape(input));
        let others: Dims = (0..shape.len()).filter(|&other| other != dim).collect();
        let count = others.iter().map(|&other| shape[other]).product::<usize>() as f64;
        Features { dim, others, shape, count }
    }

    fn mean(&self, builder: &mut Builder, value: ValueId) -> ValueId {
        let sum = builder.sum(value, &self.others);
        self.share(builder, sum)
    }

    /// An element's share of a sum. A quotient, because the count has no exact inverse.
    fn share(&self, builder: &mut Builder, sum: ValueId) -> ValueId {
        let count = builder.full_like(sum, self.count);
        builder.over(sum, count)
    }

    /// One number per feature, repeated for all of its elements.
    fn spread(&self, builder: &mut Builder, value: ValueId) -> ValueId {
        builder.broadcast(value, &self.shape, &[self.dim])
    }

    fn centered(&self, builder: &mut Builder, input: ValueId, mean: ValueId) -> ValueId {
        let mean = self.spread(builder, mean);
        builder.minus(input, mean)
    }
}

//! Softmax and norms, forward and backward.

use smallvec::smallvec;

use super::call::{Call, Made};
use super::reduce::{average, over};
use crate::program::{Binary, Direction, Type, Unary, ValueId, Values};

/// A value in the type that its norm is computed in.
fn wide(call: &mut Call<'_>, value: ValueId) -> ValueId {
    let dtype = call.wide(call.builder.dtype(value));
    call.builder.convert(value, dtype)
}

/// Something without some dimensions, spread over them.
fn spread(call: &mut Call<'_>, value: ValueId, shape: &[usize], dims: &[usize]) -> ValueId {
    let kept: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
    call.builder.broadcast(value, shape, &kept)
}

fn softmax_dim(call: &Call<'_>, place: usize, value: ValueId) -> Result<Vec<usize>, String> {
    let rank = call.rank(value);
    Ok(if rank == 0 { Vec::new() } else { vec![call.dim(place, rank)?] })
}

/// What is below the largest along a dimension, the powers of that, and their sum.
fn powers(call: &mut Call<'_>, value: ValueId, dims: &[usize]) -> [ValueId; 3] {
    let shape = call.shape(value);
    let most = over(call, Binary::Maximum, value, dims);
    let most = spread(call, most, &shape, dims);
    let below = call.builder.minus(value, most);
    let powers = call.builder.unary(Unary::Exponential, below);
    let sum = over(call, Binary::Add, powers, dims);
    let sum = spread(call, sum, &shape, dims);
    [below, powers, sum]
}

pub(super) fn softmax(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let dims = softmax_dim(call, 1, value)?;
    let value = wide(call, value);
    let [_, powers, sum] = powers(call, value, &dims);
    let made = call.builder.over(powers, sum);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// A softmax that is zero where everything is masked.
pub(super) fn safe_softmax(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let given = call.tensor(0)?;
    let dims = softmax_dim(call, 1, given)?;
    let value = wide(call, given);
    let [_, powers, sum] = powers(call, value, &dims);
    let made = call.builder.over(powers, sum);
    let lowest = call.builder.full_like(value, f64::NEG_INFINITY);
    let is_masked = call.builder.compare(Direction::Equal, value, lowest);
    let is_masked = over(call, Binary::And, is_masked, &dims);
    let is_masked = spread(call, is_masked, &ty.shape, &dims);
    let zero = call.builder.full_like(made, 0.0);
    let made = call.builder.select(is_masked, zero, made);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

pub(super) fn log_softmax(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let dims = softmax_dim(call, 1, value)?;
    let value = wide(call, value);
    let [below, _, sum] = powers(call, value, &dims);
    let logarithm = call.builder.unary(Unary::Log, sum);
    let made = call.builder.minus(below, logarithm);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// `(gradient, output, dim, input type)`: `output * (gradient - sum(gradient * output))`.
pub(super) fn softmax_backward(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (gradient, output) = (call.tensor(0)?, call.tensor(1)?);
    let dims = softmax_dim(call, 2, output)?;
    let (gradient, output) = (wide(call, gradient), wide(call, output));
    let product = call.builder.times(gradient, output);
    let sum = over(call, Binary::Add, product, &dims);
    let sum = spread(call, sum, &ty.shape, &dims);
    let part = call.builder.times(output, sum);
    let made = call.builder.minus(product, part);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// `(gradient, output, dim, input type)`: `gradient - exp(output) * sum(gradient)`.
pub(super) fn log_softmax_backward(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (gradient, output) = (call.tensor(0)?, call.tensor(1)?);
    let dims = softmax_dim(call, 2, output)?;
    let (gradient, output) = (wide(call, gradient), wide(call, output));
    let sum = over(call, Binary::Add, gradient, &dims);
    let sum = spread(call, sum, &ty.shape, &dims);
    let share = call.builder.unary(Unary::Exponential, output);
    let part = call.builder.times(share, sum);
    let made = call.builder.minus(gradient, part);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// `(input, normalized shape, weight, bias, epsilon)` to the output, the mean and the inverse deviation.
pub(super) fn layer_norm(call: &mut Call<'_>) -> Made {
    let (ty, statistics) = (call.result(0)?, call.result(1)?);
    let value = call.tensor(0)?;
    let dims = inner_dims(call, value)?;
    let value = wide(call, value);
    let epsilon = call.float(4)?;
    let mean = average(call, value, &dims);
    let middle = spread(call, mean, &ty.shape, &dims);
    let off = call.builder.minus(value, middle);
    let square = call.builder.times(off, off);
    let variance = average(call, square, &dims);
    let variance = call.builder.plus_number(variance, epsilon);
    let inverse = call.builder.unary(Unary::Rsqrt, variance);
    let factor = spread(call, inverse, &ty.shape, &dims);
    let mut made = call.builder.times(off, factor);
    let wide_ty = ty.with_dtype(call.builder.dtype(made));
    if call.has(2) {
        let weight = call.like(2, &wide_ty)?;
        made = call.builder.times(made, weight);
    }
    if call.has(3) {
        let bias = call.like(3, &wide_ty)?;
        made = call.builder.plus(made, bias);
    }
    let made = call.builder.convert(made, ty.dtype);
    let mut results: Values = smallvec![made];
    for value in [mean, inverse] {
        let value = call.builder.convert(value, statistics.dtype);
        results.push(call.builder.reshape(value, &statistics.shape));
    }
    Ok(results)
}

/// The last dimensions, as many as the normalized shape in the second place has.
fn inner_dims(call: &Call<'_>, value: ValueId) -> Result<Vec<usize>, String> {
    let rank = call.rank(value);
    let count = call.ints(1)?.len();
    Ok((rank.saturating_sub(count)..rank).collect())
}

/// `(gradient, input, normalized shape, mean, inverse deviation, weight, bias, wanted)`.
pub(super) fn layer_norm_backward(call: &mut Call<'_>) -> Made {
    let (given, input) = (call.tensor(0)?, call.tensor(1)?);
    let input_ty = call.builder.ty(input);
    let rank = input_ty.rank();
    let inner: Vec<usize> = (rank - call.ints(2)?.len().min(rank)..rank).collect();
    let outer: Vec<usize> = (0..rank).filter(|dim| !inner.contains(dim)).collect();
    let (gradient, value) = (wide(call, given), wide(call, input));
    let wide_ty = input_ty.with_dtype(call.builder.dtype(value));
    let (mean, inverse) = (call.like(3, &wide_ty)?, call.like(4, &wide_ty)?);
    let off = call.builder.minus(value, mean);
    let normal = call.builder.times(off, inverse);
    let wanted = call.flags(7);
    let wants = |index: usize| wanted.get(index).copied().unwrap_or(false);
    let mut made: Values = smallvec![given; 3];
    if wants(0) {
        let mut scaled = gradient;
        if call.has(5) {
            let weight = call.like(5, &wide_ty)?;
            scaled = call.builder.times(gradient, weight);
        }
        let first = average(call, scaled, &inner);
        let first = spread(call, first, &wide_ty.shape, &inner);
        let along = call.builder.times(scaled, normal);
        let second = average(call, along, &inner);
        let second = spread(call, second, &wide_ty.shape, &inner);
        let second = call.builder.times(normal, second);
        let rest = call.builder.minus(scaled, first);
        let rest = call.builder.minus(rest, second);
        let result = call.builder.times(rest, inverse);
        made[0] = call.builder.convert(result, input_ty.dtype);
    }
    if wants(1) {
        let along = call.builder.times(gradient, normal);
        made[1] = summed(call, along, &outer, 1)?;
    }
    if wants(2) {
        made[2] = summed(call, gradient, &outer, 2)?;
    }
    Ok(made)
}

/// A sum in the type and shape of a result.
fn summed(call: &mut Call<'_>, value: ValueId, dims: &[usize], result: usize) -> Result<ValueId, String> {
    let ty: Type = call.result(result)?;
    let sum = over(call, Binary::Add, value, dims);
    let sum = call.builder.convert(sum, ty.dtype);
    Ok(call.builder.reshape(sum, &ty.shape))
}

/// `(input, weight, bias, running mean, running variance, training, momentum, epsilon)` to the output, the mean and the
/// inverse deviation, and in training the new running mean and variance.
pub(super) fn batch_norm(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let value = wide(call, value);
    let wide_ty = ty.with_dtype(call.builder.dtype(value));
    let dims: Vec<usize> = (0..ty.rank()).filter(|&dim| dim != 1).collect();
    let (is_training, momentum, epsilon) = (call.flag(5), call.float_or(6, 0.1)?, call.float(7)?);
    let of_features = Type::new(wide_ty.dtype, &ty.shape[1..2]);
    let (mean, variance) = if is_training {
        let mean = average(call, value, &dims);
        let middle = spread(call, mean, &ty.shape, &dims);
        let off = call.builder.minus(value, middle);
        let square = call.builder.times(off, off);
        (mean, average(call, square, &dims))
    } else {
        (call.like(3, &of_features)?, call.like(4, &of_features)?)
    };
    let shifted = call.builder.plus_number(variance, epsilon);
    let inverse = call.builder.unary(Unary::Rsqrt, shifted);
    let (middle, factor) = (spread(call, mean, &ty.shape, &dims), spread(call, inverse, &ty.shape, &dims));
    let off = call.builder.minus(value, middle);
    let mut made = call.builder.times(off, factor);
    for (place, binary) in [(1, Binary::Multiply), (2, Binary::Add)] {
        if call.has(place) {
            let features = call.like(place, &of_features)?;
            let features = spread(call, features, &ty.shape, &dims);
            made = call.builder.binary(binary, made, features);
        }
    }
    let mut results: Values = smallvec![call.builder.convert(made, ty.dtype)];
    for (index, value) in [(1, mean), (2, inverse)] {
        let kept = call.result(index)?;
        // Without training there is nothing to keep.
        let is_kept = kept.shape == of_features.shape;
        results.push(if is_kept { call.builder.convert(value, kept.dtype) } else { call.builder.full(&kept, 0.0) });
    }
    if is_training && call.has(3) {
        let count: usize = dims.iter().map(|&dim| ty.shape[dim]).product();
        let unbiased = call.builder.times_number(variance, count as f64 / (count.max(2) - 1) as f64);
        for (place, value) in [(3, mean), (4, unbiased)] {
            let kept = call.tensor(place)?;
            let dtype = call.builder.dtype(kept);
            let value = call.builder.convert(value, dtype);
            let (old, new) =
                (call.builder.times_number(kept, 1.0 - momentum), call.builder.times_number(value, momentum));
            results.push(call.builder.plus(old, new));
        }
    }
    Ok(results)
}

/// `(input, weight, bias, batch, features, places, groups, epsilon)` to the output and, for each group of each element
/// of the batch, the mean and the inverse deviation.
pub(super) fn group_norm(call: &mut Call<'_>) -> Made {
    let (ty, statistics) = (call.result(0)?, call.result(1)?);
    let value = call.tensor(0)?;
    let (batch, groups, epsilon) = (ty.shape[0], call.int(6)?.max(1) as usize, call.float(7)?);
    let value = wide(call, value);
    let count = ty.elements() / (batch * groups).max(1);
    let grouped = [batch, groups, count];
    let value = call.builder.reshape(value, &grouped);
    let mean = average(call, value, &[2]);
    let middle = spread(call, mean, &grouped, &[2]);
    let off = call.builder.minus(value, middle);
    let square = call.builder.times(off, off);
    let variance = average(call, square, &[2]);
    let variance = call.builder.plus_number(variance, epsilon);
    let inverse = call.builder.unary(Unary::Rsqrt, variance);
    let factor = spread(call, inverse, &grouped, &[2]);
    let made = call.builder.times(off, factor);
    let mut made = call.builder.reshape(made, &ty.shape);
    let of_features = Type::new(call.builder.dtype(made), &ty.shape[1..2]);
    for (place, binary) in [(1, Binary::Multiply), (2, Binary::Add)] {
        if call.has(place) {
            let features = call.like(place, &of_features)?;
            let features = call.builder.broadcast(features, &ty.shape, &[1]);
            made = call.builder.binary(binary, made, features);
        }
    }
    let mut results: Values = smallvec![call.builder.convert(made, ty.dtype)];
    for value in [mean, inverse] {
        results.push(call.builder.convert(value, statistics.dtype));
    }
    Ok(results)
}

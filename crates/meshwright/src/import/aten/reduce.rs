//! Ops that make one element of many.

use smallvec::{SmallVec, smallvec};

use super::call::{Call, Made};
use super::elementwise::truth_of;
use super::merged::rows;
use super::text::Operand;
use crate::program::{Binary, DType, Dims, Direction, Op, Shape, Type, Unary, ValueId, Window};

/// The number that changes nothing.
pub(super) fn neutral(binary: Binary, dtype: DType) -> f64 {
    let is_float = dtype.is_float();
    match binary {
        Binary::Maximum if is_float => f64::NEG_INFINITY,
        Binary::Minimum if is_float => f64::INFINITY,
        Binary::Maximum if dtype.is_signed() => -(2f64.powi(dtype.bits() as i32 - 1)),
        Binary::Minimum if dtype.is_signed() => 2f64.powi(dtype.bits() as i32 - 1) - 1.0,
        Binary::Minimum if dtype == DType::Bool => 1.0,
        Binary::Minimum => 2f64.powi(dtype.bits() as i32) - 1.0,
        Binary::Multiply | Binary::And => 1.0,
        _ => 0.0,
    }
}

/// Over some dimensions in the type of the first result, wide inside, in the shape of the result.
fn reduced(call: &mut Call<'_>, binary: Binary, value: ValueId, dims: &[usize]) -> Result<ValueId, String> {
    let ty = call.result(0)?;
    let wide = call.wide(ty.dtype);
    let value = call.builder.convert(value, wide);
    let made = over(call, binary, value, dims);
    let made = call.builder.convert(made, ty.dtype);
    Ok(call.builder.reshape(made, &ty.shape))
}

pub(super) fn over(call: &mut Call<'_>, binary: Binary, value: ValueId, dims: &[usize]) -> ValueId {
    if dims.is_empty() {
        return value;
    }
    let initial = neutral(binary, call.builder.dtype(value));
    call.builder.reduce(binary, value, initial, dims)
}

/// Over the dimensions in the second place, or over all.
fn by_dims(call: &mut Call<'_>, binary: Binary) -> Made {
    let value = call.tensor(0)?;
    let dims = call.dims_or_all(1, call.rank(value))?;
    let made = match rows(call, value).filter(|_| dims[..] == [0]) {
        Some(outer) => reduced(call, binary, outer.value, &(0..outer.sizes.len()).collect::<Dims>())?,
        None => reduced(call, binary, value, &dims)?,
    };
    call.one(made)
}

pub(super) fn sum(call: &mut Call<'_>) -> Made {
    by_dims(call, Binary::Add)
}

/// Over all dimensions; what stands in the second place is a type.
pub(super) fn sum_all(call: &mut Call<'_>) -> Made {
    all(call, Binary::Add)
}

pub(super) fn prod_all(call: &mut Call<'_>) -> Made {
    all(call, Binary::Multiply)
}

pub(super) fn max_all(call: &mut Call<'_>) -> Made {
    all(call, Binary::Maximum)
}

pub(super) fn min_all(call: &mut Call<'_>) -> Made {
    all(call, Binary::Minimum)
}

fn all(call: &mut Call<'_>, binary: Binary) -> Made {
    let value = call.tensor(0)?;
    let dims: Dims = (0..call.rank(value)).collect();
    let made = reduced(call, binary, value, &dims)?;
    call.one(made)
}

pub(super) fn amax(call: &mut Call<'_>) -> Made {
    by_dims(call, Binary::Maximum)
}

pub(super) fn amin(call: &mut Call<'_>) -> Made {
    by_dims(call, Binary::Minimum)
}

pub(super) fn prod(call: &mut Call<'_>) -> Made {
    by_dims(call, Binary::Multiply)
}

pub(super) fn mean(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let dims = call.dims_or_all(1, call.rank(value))?;
    averaged(call, value, &dims)
}

pub(super) fn mean_all(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let dims: Dims = (0..call.rank(value)).collect();
    averaged(call, value, &dims)
}

fn averaged(call: &mut Call<'_>, value: ValueId, dims: &[usize]) -> Made {
    let ty = call.result(0)?;
    let wide = call.wide(ty.dtype);
    let value = call.builder.convert(value, wide);
    let made = average(call, value, dims);
    let made = call.builder.convert(made, ty.dtype);
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

/// A sum over a count, as PyTorch computes a mean.
pub(super) fn average(call: &mut Call<'_>, value: ValueId, dims: &[usize]) -> ValueId {
    let shape = call.shape(value);
    let count: usize = dims.iter().map(|&dim| shape[dim]).product();
    let sum = over(call, Binary::Add, value, dims);
    let count = call.builder.full_like(sum, count as f64);
    call.builder.over(sum, count)
}

pub(super) fn any(call: &mut Call<'_>) -> Made {
    truths(call, Binary::Or)
}

pub(super) fn all_true(call: &mut Call<'_>) -> Made {
    truths(call, Binary::And)
}

fn truths(call: &mut Call<'_>, binary: Binary) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let dims = call.dims_or_all(1, call.rank(value))?;
    let value = truth_of(call, value);
    let made = over(call, binary, value, &dims);
    let made = call.builder.convert(made, ty.dtype);
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

/// The largest along a dimension, and where the first of them is.
pub(super) fn max_dim(call: &mut Call<'_>) -> Made {
    extreme(call, Binary::Maximum)
}

pub(super) fn min_dim(call: &mut Call<'_>) -> Made {
    extreme(call, Binary::Minimum)
}

fn extreme(call: &mut Call<'_>, binary: Binary) -> Made {
    let (ty, value) = (call.result(0)?, call.tensor(0)?);
    if call.rank(value) == 0 {
        let position = call.builder.scalar(DType::I64, 0.0);
        return Ok(smallvec![value, position]);
    }
    let dim = call.dim(1, call.rank(value))?;
    let (found, position) = extreme_of(call, value, dim, binary);
    let found = call.builder.reshape(found, &ty.shape);
    let position = call.builder.reshape(position, &ty.shape);
    Ok(smallvec![found, position])
}

fn extreme_of(call: &mut Call<'_>, value: ValueId, dim: usize, binary: Binary) -> (ValueId, ValueId) {
    let shape = call.shape(value);
    let found = over(call, binary, value, &[dim]);
    let spread = call.builder.broadcast_along(found, &shape, dim);
    let is_found = call.builder.compare(Direction::Equal, value, spread);
    let whole = Type::new(DType::I64, &shape);
    let positions = call.builder.iota(&whole, dim);
    let behind = call.builder.full(&whole, shape[dim].saturating_sub(1) as f64);
    let positions = call.builder.select(is_found, positions, behind);
    (found, over(call, Binary::Minimum, positions, &[dim]))
}

pub(super) fn argmax(call: &mut Call<'_>) -> Made {
    argument(call, Binary::Maximum)
}

pub(super) fn argmin(call: &mut Call<'_>) -> Made {
    argument(call, Binary::Minimum)
}

fn argument(call: &mut Call<'_>, binary: Binary) -> Made {
    let (ty, mut value) = (call.result(0)?, call.tensor(0)?);
    let dim = if call.has(1) {
        call.dim(1, call.rank(value))?
    } else {
        let count = call.shape(value).iter().product();
        value = call.builder.reshape(value, &[count]);
        0
    };
    if call.rank(value) == 0 {
        let zero = call.builder.full(&ty, 0.0);
        return call.one(zero);
    }
    let (_, position) = extreme_of(call, value, dim, binary);
    let made = call.builder.reshape(position, &ty.shape);
    call.one(made)
}

/// The variance over dimensions, of counts less a correction.
fn variance(call: &mut Call<'_>, dims: &[usize], correction: f64) -> Result<(ValueId, ValueId), String> {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let value = call.builder.convert(value, call.wide(ty.dtype));
    let shape = call.shape(value);
    let mean = average(call, value, dims);
    let kept: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
    let spread = call.builder.broadcast(mean, &shape, &kept);
    let off = call.builder.minus(value, spread);
    let square = call.builder.times(off, off);
    let sum = over(call, Binary::Add, square, dims);
    let count: usize = dims.iter().map(|&dim| shape[dim]).product();
    let count = call.builder.full_like(sum, (count as f64 - correction).max(0.0));
    Ok((call.builder.over(sum, count), mean))
}

fn correction(call: &Call<'_>, place: usize) -> Result<f64, String> {
    match call.operand(place) {
        Operand::None => Ok(1.0),
        _ => call.float(place),
    }
}

pub(super) fn var(call: &mut Call<'_>) -> Made {
    let (made, _) = moments(call, false)?;
    call.one(made)
}

pub(super) fn std(call: &mut Call<'_>) -> Made {
    let (made, _) = moments(call, true)?;
    call.one(made)
}

pub(super) fn var_mean(call: &mut Call<'_>) -> Made {
    let (variance, mean) = moments(call, false)?;
    Ok(smallvec![variance, mean])
}

pub(super) fn std_mean(call: &mut Call<'_>) -> Made {
    let (deviation, mean) = moments(call, true)?;
    Ok(smallvec![deviation, mean])
}

fn moments(call: &mut Call<'_>, root: bool) -> Result<(ValueId, ValueId), String> {
    let ty = call.result(0)?;
    let rank = call.rank(call.tensor(0)?);
    let dims = call.dims_or_all(1, rank)?;
    let correction = correction(call, 2)?;
    let (mut variance, mean) = variance(call, &dims, correction)?;
    if root {
        variance = call.builder.unary(Unary::Sqrt, variance);
    }
    let mut back = |value| {
        let value = call.builder.convert(value, ty.dtype);
        call.builder.reshape(value, &ty.shape)
    };
    Ok((back(variance), back(mean)))
}

/// Sums of all elements up to each.
pub(super) fn cumsum(call: &mut Call<'_>) -> Made {
    cumulative(call, Binary::Add)
}

pub(super) fn cumprod(call: &mut Call<'_>) -> Made {
    cumulative(call, Binary::Multiply)
}

fn cumulative(call: &mut Call<'_>, binary: Binary) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let value = call.builder.convert(value, call.wide(ty.dtype));
    let rank = ty.rank();
    if rank == 0 {
        let made = call.builder.convert(value, ty.dtype);
        return call.one(made);
    }
    let dim = call.dim(1, rank)?;
    let made = running(call, binary, value, dim);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// What a reduction comes to over all elements up to each, along a dimension.
pub(super) fn running(call: &mut Call<'_>, binary: Binary, value: ValueId, dim: usize) -> ValueId {
    let shape = call.shape(value);
    if shape.contains(&0) {
        return value;
    }
    let ones: Shape = shape.iter().map(|_| 1).collect();
    let mut sizes = ones.clone();
    sizes[dim] = shape[dim];
    let mut padding: SmallVec<[(i64, i64); 4]> = SmallVec::from_elem((0, 0), shape.len());
    padding[dim] = (shape[dim] as i64 - 1, 0);
    let window = Window { sizes, strides: ones.clone(), base_dilation: ones.clone(), window_dilation: ones, padding };
    let dtype = call.builder.dtype(value);
    let initial = call.builder.scalar(dtype, neutral(binary, dtype));
    let region = call.builder.reducer(binary, dtype);
    call.builder.op(Op::ReduceWindow(Box::new(window)), &[value, initial], &[region])[0]
}

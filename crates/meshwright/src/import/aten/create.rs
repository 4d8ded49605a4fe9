//! Ops that make tensors of numbers or of chance.

use smallvec::smallvec;

use super::call::{Call, Made};
use super::elementwise::truth_of;
use crate::program::{DType, Direction, Distribution, Op, Type, Unary, ValueId};

pub(super) fn zeros(call: &mut Call<'_>) -> Made {
    filled(call, 0.0)
}

pub(super) fn ones(call: &mut Call<'_>) -> Made {
    filled(call, 1.0)
}

fn filled(call: &mut Call<'_>, number: f64) -> Made {
    let ty = call.result(0)?;
    let made = call.builder.full(&ty, number);
    call.one(made)
}

/// The number in the second place, everywhere: `full`, `full_like`, `fill`.
pub(super) fn full(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = call.like(1, &ty)?;
    call.one(made)
}

/// The number in the third place, everywhere.
pub(super) fn new_full(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = call.like(2, &ty)?;
    call.one(made)
}

pub(super) fn scalar_tensor(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = call.like(0, &ty)?;
    call.one(made)
}

/// `start + step * position`.
fn steps(call: &mut Call<'_>, start: usize, step: Option<usize>) -> Made {
    let ty = call.result(0)?;
    let wide = ty.with_dtype(if ty.dtype.is_float() { DType::F64 } else { ty.dtype });
    let mut made = call.builder.iota(&wide, 0);
    if let Some(step) = step.filter(|&step| call.has(step)) {
        let step = call.like(step, &wide)?;
        made = call.builder.times(made, step);
    }
    if start != usize::MAX {
        let start = call.like(start, &wide)?;
        made = call.builder.plus(made, start);
    }
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

pub(super) fn arange(call: &mut Call<'_>) -> Made {
    steps(call, usize::MAX, None)
}

pub(super) fn arange_start(call: &mut Call<'_>) -> Made {
    steps(call, 0, None)
}

pub(super) fn arange_start_step(call: &mut Call<'_>) -> Made {
    steps(call, 0, Some(2))
}

/// `prims.iota(length, start, step)`.
pub(super) fn iota(call: &mut Call<'_>) -> Made {
    steps(call, 1, Some(2))
}

pub(super) fn eye(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let whole = ty.with_dtype(DType::I64);
    let (rows, columns) = (call.builder.iota(&whole, 0), call.builder.iota(&whole, 1));
    let made = call.builder.compare(Direction::Equal, rows, columns);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// The lower triangle, or the upper one.
pub(super) fn tril(call: &mut Call<'_>) -> Made {
    triangle(call, Direction::LessOrEqual)
}

pub(super) fn triu(call: &mut Call<'_>) -> Made {
    triangle(call, Direction::GreaterOrEqual)
}

fn triangle(call: &mut Call<'_>, direction: Direction) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let diagonal = call.int(1)?;
    let rank = ty.rank();
    if rank < 2 {
        return Err("a triangle has two dimensions".to_owned());
    }
    let whole = Type::new(DType::I64, &ty.shape[rank - 2..]);
    let (rows, columns) = (call.builder.iota(&whole, 0), call.builder.iota(&whole, 1));
    let limit = call.builder.plus_number(rows, diagonal as f64);
    let kept = call.builder.compare(direction, columns, limit);
    let kept = call.broadcast(kept, &ty.shape)?;
    let zero = call.builder.full(&ty, 0.0);
    let made = call.builder.select(kept, value, zero);
    call.one(made)
}

// Chance. What engines draw differs, so only the distribution is the same.

fn drawn(call: &mut Call<'_>, distribution: Distribution, ty: &Type, low: f64, high: f64) -> ValueId {
    let wide = if ty.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let (low, high) = (call.builder.scalar(wide, low), call.builder.scalar(wide, high));
    let whole = Type::new(DType::I64, &[ty.rank()]);
    let bytes: Vec<u8> = ty.shape.iter().flat_map(|&size| (size as i64).to_le_bytes()).collect();
    let shape = call.builder.literal(crate::program::Literal::packed(whole, bytes));
    let op = Op::Rng { distribution, shape: ty.shape.clone() };
    let made = call.builder.op(op, &[low, high, shape], &[])[0];
    call.builder.convert(made, ty.dtype)
}

pub(super) fn rand(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = drawn(call, Distribution::Uniform, &ty, 0.0, 1.0);
    call.one(made)
}

pub(super) fn randn(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = drawn(call, Distribution::Normal, &ty, 0.0, 1.0);
    call.one(made)
}

/// Numbers between those in the second and the third place.
pub(super) fn uniform(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (low, high) = (call.float_or(1, 0.0)?, call.float_or(2, 1.0)?);
    let made = drawn(call, Distribution::Uniform, &ty, low, high);
    call.one(made)
}

pub(super) fn normal(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (mean, deviation) = (call.float_or(1, 0.0)?, call.float_or(2, 1.0)?);
    let made = drawn(call, Distribution::Normal, &ty, mean, deviation);
    call.one(made)
}

/// Whole numbers from the first to before the second.
pub(super) fn randint(call: &mut Call<'_>) -> Made {
    whole_numbers(call, None, 0)
}

pub(super) fn randint_low(call: &mut Call<'_>) -> Made {
    whole_numbers(call, Some(0), 1)
}

pub(super) fn randint_like(call: &mut Call<'_>) -> Made {
    whole_numbers(call, None, 1)
}

fn whole_numbers(call: &mut Call<'_>, low: Option<usize>, high: usize) -> Made {
    let ty = call.result(0)?;
    let low = low.map_or(Ok(0.0), |place| call.float(place))?;
    let high = call.float(high)?;
    let made = drawn(call, Distribution::Uniform, &ty.with_dtype(DType::F64), low, high);
    let made = call.builder.unary(Unary::Floor, made);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// Ones with the probability in the second place, a number or a tensor.
pub(super) fn bernoulli_p(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let wide = ty.with_dtype(DType::F32);
    let probability = call.like(1, &wide)?;
    chosen(call, &ty, probability)
}

/// Ones with the probabilities of a tensor.
pub(super) fn bernoulli(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let probability = call.like(0, &ty.with_dtype(DType::F32))?;
    chosen(call, &ty, probability)
}

fn chosen(call: &mut Call<'_>, ty: &Type, probability: ValueId) -> Made {
    let drawn = drawn(call, Distribution::Uniform, &ty.with_dtype(DType::F32), 0.0, 1.0);
    let made = call.builder.compare(Direction::Less, drawn, probability);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// A value with a share of its elements gone and the others scaled, and which stayed.
pub(super) fn native_dropout(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let ty = call.builder.ty(value);
    let share = call.float(1)?;
    let is_training = !call.has(2) || call.flag(2);
    let mask = ty.with_dtype(DType::Bool);
    if !is_training || share == 0.0 {
        let mask = call.builder.full(&mask, 1.0);
        return Ok(smallvec![value, mask]);
    }
    let drawn = drawn(call, Distribution::Uniform, &ty.with_dtype(DType::F32), 0.0, 1.0);
    let limit = call.builder.full_like(drawn, share);
    let mask = call.builder.compare(Direction::GreaterOrEqual, drawn, limit);
    let scaled = call.builder.times_number(value, if share < 1.0 { 1.0 / (1.0 - share) } else { 0.0 });
    let zero = call.builder.full(&ty, 0.0);
    let made = call.builder.select(mask, scaled, zero);
    Ok(smallvec![made, mask])
}

pub(super) fn native_dropout_backward(call: &mut Call<'_>) -> Made {
    let (gradient, mask) = (call.tensor(0)?, call.tensor(1)?);
    let scale = call.float(2)?;
    let mask = truth_of(call, mask);
    let scaled = call.builder.times_number(gradient, scale);
    let zero = call.builder.full_like(gradient, 0.0);
    let made = call.builder.select(mask, scaled, zero);
    call.one(made)
}

/// A permutation of the numbers from zero: the order of numbers that were drawn.
pub(super) fn randperm(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let keys = drawn(call, Distribution::Uniform, &ty.with_dtype(DType::F32), 0.0, 1.0);
    let positions = call.builder.iota(&ty, 0);
    let made = super::index::sorted(call, &[keys, positions], 0, false);
    call.one(made[1])
}

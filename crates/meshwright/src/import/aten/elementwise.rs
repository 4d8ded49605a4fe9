//! Ops that make every element of the elements in the same place.

use super::call::{Call, Made};
use super::text::Operand;
use crate::program::{Binary, DType, DTypeKind, Direction, Type, Unary, ValueId};

pub(super) fn unary(call: &mut Call<'_>, unary: Unary) -> Made {
    let ty = call.result(0)?;
    let value = call.like(0, &ty)?;
    let made = call.builder.unary(unary, value);
    call.one(made)
}

pub(super) fn binary(call: &mut Call<'_>, binary: Binary) -> Made {
    let ty = call.result(0)?;
    let (left, right) = (call.like(0, &ty)?, call.like(1, &ty)?);
    let made = call.builder.binary(binary, left, right);
    call.one(made)
}

pub(super) fn compare(call: &mut Call<'_>, direction: Direction) -> Made {
    let ty = call.result(0)?.with_dtype(call.promoted(&[0, 1]));
    let (left, right) = (call.like(0, &ty)?, call.like(1, &ty)?);
    let made = call.builder.compare(direction, left, right);
    call.one(made)
}

/// `self + alpha * other`, rounded once.
pub(super) fn add(call: &mut Call<'_>) -> Made {
    scaled_sum(call, Binary::Add)
}

pub(super) fn subtract(call: &mut Call<'_>) -> Made {
    scaled_sum(call, Binary::Subtract)
}

/// `other - alpha * self`.
pub(super) fn reverse_subtract(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (left, right) = (call.like(0, &ty)?, call.like(1, &ty)?);
    let left = scaled(call, 2, left)?;
    let made = call.builder.minus(right, left);
    call.one(made)
}

fn scaled_sum(call: &mut Call<'_>, binary: Binary) -> Made {
    let ty = call.result(0)?;
    let is_plain = is_one(call.operand(2));
    let wide = ty.with_dtype(if is_plain { ty.dtype } else { call.wide(ty.dtype) });
    let (left, right) = (call.like(0, &wide)?, call.like(1, &wide)?);
    let right = if is_plain { right } else { scaled(call, 2, right)? };
    let made = call.builder.binary(binary, left, right);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// A value times the number in some place.
pub(super) fn scaled(call: &mut Call<'_>, place: usize, value: ValueId) -> Result<ValueId, String> {
    if is_one(call.operand(place)) {
        return Ok(value);
    }
    let ty = call.builder.ty(value);
    let number = call.like(place, &ty)?;
    Ok(call.builder.times(value, number))
}

/// Whether a factor changes nothing.
pub(super) fn is_one(factor: &Operand) -> bool {
    matches!(factor, Operand::None | Operand::Int(1)) || *factor == Operand::Float(1.0)
}

/// `self + value * first * second`, or with a quotient.
pub(super) fn addcmul(call: &mut Call<'_>) -> Made {
    added_combination(call, Binary::Multiply)
}

pub(super) fn addcdiv(call: &mut Call<'_>) -> Made {
    added_combination(call, Binary::Divide)
}

fn added_combination(call: &mut Call<'_>, binary: Binary) -> Made {
    let ty = call.result(0)?;
    let wide = ty.with_dtype(call.wide(ty.dtype));
    let [sum, left, right] = [call.like(0, &wide)?, call.like(1, &wide)?, call.like(2, &wide)?];
    let left = scaled(call, 3, left)?;
    let part = call.builder.binary(binary, left, right);
    let made = call.builder.plus(sum, part);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// `start + weight * (end - start)`.
pub(super) fn lerp(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let wide = ty.with_dtype(call.wide(ty.dtype));
    let [start, end, weight] = [call.like(0, &wide)?, call.like(1, &wide)?, call.like(2, &wide)?];
    let way = call.builder.minus(end, start);
    let part = call.builder.times(weight, way);
    let made = call.builder.plus(start, part);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// A quotient with its rounding: `floor` or `trunc`, or none.
pub(super) fn divide_mode(call: &mut Call<'_>) -> Made {
    let mode = call.text(2).to_owned();
    divided(call, &mode)
}

pub(super) fn floor_divide(call: &mut Call<'_>) -> Made {
    divided(call, "floor")
}

fn divided(call: &mut Call<'_>, mode: &str) -> Made {
    let ty = call.result(0)?;
    let (left, right) = (call.like(0, &ty)?, call.like(1, &ty)?);
    let quotient = call.builder.over(left, right);
    let made = match (mode, ty.dtype.is_float()) {
        ("floor", true) => call.builder.unary(Unary::Floor, quotient),
        ("trunc", true) => truncated(call, quotient),
        // Division of whole numbers rounds towards zero: one less where it does not fit and signs differ.
        ("floor", false) => {
            let rest = call.builder.binary(Binary::Remainder, left, right);
            let zero = call.builder.full_like(left, 0.0);
            let (is_rest, is_negative_rest) = (
                call.builder.compare(Direction::NotEqual, rest, zero),
                call.builder.compare(Direction::Less, rest, zero),
            );
            let is_negative = call.builder.compare(Direction::Less, right, zero);
            let differs = call.builder.compare(Direction::NotEqual, is_negative_rest, is_negative);
            let is_less = call.builder.binary(Binary::And, is_rest, differs);
            let less = call.builder.plus_number(quotient, -1.0);
            call.builder.select(is_less, less, quotient)
        }
        _ => quotient,
    };
    call.one(made)
}

fn truncated(call: &mut Call<'_>, value: ValueId) -> ValueId {
    let size = call.builder.unary(Unary::Abs, value);
    let size = call.builder.unary(Unary::Floor, size);
    let sign = call.builder.unary(Unary::Sign, value);
    call.builder.times(sign, size)
}

pub(super) fn trunc(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let made = if call.builder.dtype(value).is_float() { truncated(call, value) } else { value };
    call.one(made)
}

/// `self - other * floor(self / other)`, of the sign of the divisor.
pub(super) fn remainder(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (left, right) = (call.like(0, &ty)?, call.like(1, &ty)?);
    let rest = call.builder.binary(Binary::Remainder, left, right);
    let zero = call.builder.full_like(rest, 0.0);
    let is_rest = call.builder.compare(Direction::NotEqual, rest, zero);
    let is_negative_rest = call.builder.compare(Direction::Less, rest, zero);
    let is_negative = call.builder.compare(Direction::Less, right, zero);
    let differs = call.builder.compare(Direction::NotEqual, is_negative_rest, is_negative);
    let differs = call.builder.binary(Binary::And, is_rest, differs);
    let moved = call.builder.plus(rest, right);
    let made = call.builder.select(differs, moved, rest);
    call.one(made)
}

/// A power. Those that people write are products, which is how PyTorch computes them.
pub(super) fn power(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let exponent = match call.operand(1) {
        Operand::Int(number) => Some(*number as f64),
        Operand::Float(number) => Some(*number),
        _ => None,
    };
    let base = call.like(0, &ty)?;
    let is_float = ty.dtype.is_float();
    let made = match exponent {
        Some(2.0) => call.builder.times(base, base),
        Some(3.0) => {
            let square = call.builder.times(base, base);
            call.builder.times(square, base)
        }
        Some(1.0) => base,
        Some(0.0) => call.builder.full(&ty, 1.0),
        Some(0.5) if is_float => call.builder.unary(Unary::Sqrt, base),
        Some(-0.5) if is_float => call.builder.unary(Unary::Rsqrt, base),
        Some(-1.0) if is_float => reciprocal_of(call, base),
        _ => {
            let exponent = call.like(1, &ty)?;
            call.builder.binary(Binary::Power, base, exponent)
        }
    };
    call.one(made)
}

fn reciprocal_of(call: &mut Call<'_>, value: ValueId) -> ValueId {
    let one = call.builder.full_like(value, 1.0);
    call.builder.over(one, value)
}

pub(super) fn reciprocal(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.like(0, &ty)?;
    let made = reciprocal_of(call, value);
    call.one(made)
}

pub(super) fn clamp(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let mut value = call.like(0, &ty)?;
    for (place, binary) in [(1, Binary::Maximum), (2, Binary::Minimum)] {
        if call.has(place) {
            let bound = call.like(place, &ty)?;
            value = call.builder.binary(binary, value, bound);
        }
    }
    call.one(value)
}

pub(super) fn relu(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let zero = call.builder.full_like(value, 0.0);
    let made = call.builder.binary(Binary::Maximum, value, zero);
    call.one(made)
}

/// The gradient where a value is above a threshold, else zero.
pub(super) fn threshold_backward(call: &mut Call<'_>) -> Made {
    let (gradient, value) = (call.tensor(0)?, call.tensor(1)?);
    let ty = call.builder.ty(value);
    let threshold = call.like(2, &ty)?;
    let is_above = call.builder.compare(Direction::Greater, value, threshold);
    let zero = call.builder.full_like(gradient, 0.0);
    let made = call.builder.select(is_above, gradient, zero);
    call.one(made)
}

/// The part of a formula in the wide type, and the result back in its own.
fn widened(call: &mut Call<'_>, make: impl FnOnce(&mut Call<'_>, &[ValueId]) -> ValueId, places: &[usize]) -> Made {
    let ty = call.result(0)?;
    let wide = ty.with_dtype(call.wide(ty.dtype));
    let values = places.iter().map(|&place| call.like(place, &wide)).collect::<Result<Vec<_>, _>>()?;
    let made = make(call, &values);
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

pub(super) fn gelu(call: &mut Call<'_>) -> Made {
    let is_tanh = call.text(1) == "tanh";
    widened(call, |call, values| gelu_of(call, values[0], is_tanh), &[0])
}

fn gelu_of(call: &mut Call<'_>, value: ValueId, is_tanh: bool) -> ValueId {
    let builder = &mut *call.builder;
    let share = if is_tanh {
        let square = builder.times(value, value);
        let cube = builder.times(square, value);
        let cube = builder.times_number(cube, 0.044715);
        let inner = builder.plus(value, cube);
        let inner = builder.times_number(inner, (2.0 / std::f64::consts::PI).sqrt());
        builder.unary(Unary::Tanh, inner)
    } else {
        let inner = builder.times_number(value, std::f64::consts::FRAC_1_SQRT_2);
        builder.unary(Unary::Erf, inner)
    };
    let share = builder.plus_number(share, 1.0);
    let half = builder.times_number(value, 0.5);
    builder.times(half, share)
}

pub(super) fn gelu_backward(call: &mut Call<'_>) -> Made {
    let is_tanh = call.text(2) == "tanh";
    gradient_of(call, |call, value| gelu_of(call, value, is_tanh))
}

pub(super) fn silu(call: &mut Call<'_>) -> Made {
    widened(call, |call, values| silu_of(call, values[0]), &[0])
}

fn silu_of(call: &mut Call<'_>, value: ValueId) -> ValueId {
    let gate = call.builder.unary(Unary::Logistic, value);
    call.builder.times(value, gate)
}

pub(super) fn silu_backward(call: &mut Call<'_>) -> Made {
    gradient_of(call, silu_of)
}

/// The gradient of a function of one value, from the gradient and the value.
fn gradient_of(call: &mut Call<'_>, function: impl FnOnce(&mut Call<'_>, ValueId) -> ValueId) -> Made {
    let ty = call.result(0)?;
    let wide = ty.with_dtype(call.wide(ty.dtype));
    let (gradient, value) = (call.like(0, &wide)?, call.like(1, &wide)?);
    let made = call.pullback(&[value], gradient, |call| Ok(function(call, value)))?[0];
    let made = call.builder.convert(made, ty.dtype);
    call.one(made)
}

/// The gradient from the result: `gradient * (1 - result^2)`.
pub(super) fn tanh_backward(call: &mut Call<'_>) -> Made {
    let make = |call: &mut Call<'_>, values: &[ValueId]| {
        let square = call.builder.times(values[1], values[1]);
        let one = call.builder.full_like(square, 1.0);
        let slope = call.builder.minus(one, square);
        call.builder.times(values[0], slope)
    };
    widened(call, make, &[0, 1])
}

/// The gradient from the result: `gradient * result * (1 - result)`.
pub(super) fn sigmoid_backward(call: &mut Call<'_>) -> Made {
    let make = |call: &mut Call<'_>, values: &[ValueId]| {
        let one = call.builder.full_like(values[1], 1.0);
        let rest = call.builder.minus(one, values[1]);
        let slope = call.builder.times(rest, values[1]);
        call.builder.times(values[0], slope)
    };
    widened(call, make, &[0, 1])
}

/// `max(x, 0) * scale + min(alpha * (exp(x * input_scale) - 1), 0) * scale`.
pub(super) fn elu(call: &mut Call<'_>) -> Made {
    let [alpha, scale, input_scale] = [call.float_or(1, 1.0)?, call.float_or(2, 1.0)?, call.float_or(3, 1.0)?];
    let make = |call: &mut Call<'_>, values: &[ValueId]| {
        let builder = &mut *call.builder;
        let zero = builder.full_like(values[0], 0.0);
        let is_above = builder.compare(Direction::Greater, values[0], zero);
        let inner = builder.times_number(values[0], input_scale);
        let below = builder.unary(Unary::ExponentialMinusOne, inner);
        let below = builder.times_number(below, alpha);
        let made = builder.select(is_above, values[0], below);
        builder.times_number(made, scale)
    };
    widened(call, make, &[0])
}

pub(super) fn leaky_relu(call: &mut Call<'_>) -> Made {
    let slope = call.float_or(1, 0.01)?;
    let make = |call: &mut Call<'_>, values: &[ValueId]| {
        let zero = call.builder.full_like(values[0], 0.0);
        let is_above = call.builder.compare(Direction::Greater, values[0], zero);
        let below = call.builder.times_number(values[0], slope);
        call.builder.select(is_above, values[0], below)
    };
    widened(call, make, &[0])
}

/// A logarithm of another base.
pub(super) fn log2(call: &mut Call<'_>) -> Made {
    logarithm(call, std::f64::consts::LOG2_E)
}

pub(super) fn log10(call: &mut Call<'_>) -> Made {
    logarithm(call, std::f64::consts::LOG10_E)
}

fn logarithm(call: &mut Call<'_>, factor: f64) -> Made {
    let make = |call: &mut Call<'_>, values: &[ValueId]| {
        let natural = call.builder.unary(Unary::Log, values[0]);
        call.builder.times_number(natural, factor)
    };
    widened(call, make, &[0])
}

pub(super) fn exp2(call: &mut Call<'_>) -> Made {
    let make = |call: &mut Call<'_>, values: &[ValueId]| {
        let inner = call.builder.times_number(values[0], std::f64::consts::LN_2);
        call.builder.unary(Unary::Exponential, inner)
    };
    widened(call, make, &[0])
}

/// Both as truth values, then an operation on these.
pub(super) fn logical(call: &mut Call<'_>, binary: Binary) -> Made {
    let ty = call.result(0)?;
    let (left, right) = (truth(call, 0, &ty)?, truth(call, 1, &ty)?);
    let made = call.builder.binary(binary, left, right);
    call.one(made)
}

pub(super) fn logical_and(call: &mut Call<'_>) -> Made {
    logical(call, Binary::And)
}

pub(super) fn logical_or(call: &mut Call<'_>) -> Made {
    logical(call, Binary::Or)
}

pub(super) fn logical_xor(call: &mut Call<'_>) -> Made {
    logical(call, Binary::Xor)
}

pub(super) fn logical_not(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = truth(call, 0, &ty)?;
    let made = call.builder.unary(Unary::Not, value);
    call.one(made)
}

/// Whether elements are not zero.
pub(super) fn truth(call: &mut Call<'_>, place: usize, ty: &Type) -> Result<ValueId, String> {
    let value = call.tensor(place)?;
    let value = truth_of(call, value);
    call.broadcast(value, &ty.shape)
}

pub(super) fn truth_of(call: &mut Call<'_>, value: ValueId) -> ValueId {
    if call.builder.dtype(value) == DType::Bool {
        return value;
    }
    let zero = call.builder.full_like(value, 0.0);
    call.builder.compare(Direction::NotEqual, value, zero)
}

pub(super) fn is_nan(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let made = call.builder.compare(Direction::NotEqual, value, value);
    call.one(made)
}

pub(super) fn is_inf(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    if !call.builder.dtype(value).is_float() {
        let ty = call.result(0)?;
        let made = call.builder.full(&ty, 0.0);
        return call.one(made);
    }
    let size = call.builder.unary(Unary::Abs, value);
    let infinity = call.builder.full_like(value, f64::INFINITY);
    let made = call.builder.compare(Direction::Equal, size, infinity);
    call.one(made)
}

/// One of two values by a condition.
pub(super) fn select(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let condition = truth(call, 0, &ty)?;
    let (on_true, on_false) = (call.like(1, &ty)?, call.like(2, &ty)?);
    let made = call.builder.select(condition, on_true, on_false);
    call.one(made)
}

/// A value but where a mask is set.
pub(super) fn masked_fill(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (value, mask, filling) = (call.like(0, &ty)?, truth(call, 1, &ty)?, call.like(2, &ty)?);
    let made = call.builder.select(mask, filling, value);
    call.one(made)
}

/// The same numbers in another type.
pub(super) fn to_copy(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let made = if ty.dtype == DType::Bool {
        truth_of(call, value)
    } else if call.builder.dtype(value).is_complex() && !ty.dtype.is_complex() {
        let real = call.builder.unary(Unary::Real, value);
        call.builder.convert(real, ty.dtype)
    } else {
        call.builder.convert(value, ty.dtype)
    };
    call.one(made)
}

/// Numbers of another tensor in the shape and type of this one.
pub(super) fn copy(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = call.like(1, &ty)?;
    call.one(made)
}

pub(super) fn sign(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let made = if call.builder.dtype(value).kind() == DTypeKind::Bool {
        value
    } else {
        call.builder.unary(Unary::Sign, value)
    };
    call.one(made)
}

pub(super) fn round(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let is_float = call.builder.dtype(value).is_float();
    let made = if is_float { call.builder.unary(Unary::RoundNearestEven, value) } else { value };
    call.one(made)
}

/// Rounding of whole numbers changes nothing.
pub(super) fn floor(call: &mut Call<'_>) -> Made {
    rounded(call, Unary::Floor)
}

pub(super) fn ceil(call: &mut Call<'_>) -> Made {
    rounded(call, Unary::Ceil)
}

fn rounded(call: &mut Call<'_>, unary: Unary) -> Made {
    let value = call.tensor(0)?;
    let made = if call.builder.dtype(value).is_float() { call.builder.unary(unary, value) } else { value };
    call.one(made)
}

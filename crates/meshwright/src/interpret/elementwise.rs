//! Ops that treat every element alike.
//!
//! The kernels work on slices, so that whole tensors and the lanes of a region's scalars share
//! them, and choose the operation once, outside the loop.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::program::{Binary, DType, DTypeKind, Direction, Order, Type, Unary};

use super::special;
use super::tensor::{
    Data, Tensor, decode_float, encode_float, into_tensor, mask, round, round_one, rounding, unsupported, wrap,
    wrap_one,
};

pub(super) fn unary(op: Unary, operand: Arc<Tensor>, result: &Type, wide: bool) -> Result<Tensor, String> {
    let dtype = operand.ty.dtype;
    if let (Unary::IsFinite | Unary::IsInf | Unary::IsNegInf | Unary::IsPosInf, Data::Float(values)) =
        (op, &operand.data)
    {
        let mut flags = vec![0; values.len()];
        classify(op, values, &mut flags);
        return Ok(Tensor::integer(result.clone(), flags));
    }
    let mut tensor = into_tensor(operand);
    match &mut tensor.data {
        Data::Float(values) => unary_float(op, dtype, wide, values)?,
        Data::Integer(values) => unary_integer(op, dtype, values)?,
        Data::Raw(_) => return Err(unsupported(dtype)),
    }
    tensor.ty = result.clone();
    Ok(tensor)
}

pub(super) fn binary(op: Binary, left: Arc<Tensor>, right: &Tensor, wide: bool) -> Result<Tensor, String> {
    let dtype = left.ty.dtype;
    let mut tensor = into_tensor(left);
    match (&mut tensor.data, &right.data) {
        (Data::Float(left), Data::Float(right)) => binary_float(op, dtype, wide, left, right)?,
        (Data::Integer(left), Data::Integer(right)) => binary_integer(op, dtype, left, right)?,
        _ => return Err(unsupported(dtype)),
    }
    Ok(tensor)
}

pub(super) fn compare(
    direction: Direction,
    order: Order,
    left: &Tensor,
    right: &Tensor,
    result: &Type,
) -> Result<Tensor, String> {
    let mut flags = vec![0; left.ty.elements()];
    compare_data(direction, order, left.ty.dtype, &left.data, &right.data, &mut flags)?;
    Ok(Tensor::integer(result.clone(), flags))
}

pub(super) fn convert(operand: Arc<Tensor>, dtype: DType, wide: bool) -> Result<Tensor, String> {
    let ty = operand.ty.with_dtype(dtype);
    if operand.ty.dtype == dtype {
        return Ok(into_tensor(operand));
    }
    let mut result = Tensor::zeros(&ty);
    convert_data(operand.ty.dtype, dtype, wide, &operand.data, &mut result.data)?;
    Ok(result)
}

pub(super) fn select(
    predicate: &Tensor,
    on_true: &Tensor,
    on_false: Arc<Tensor>,
    result: &Type,
) -> Result<Tensor, String> {
    let flags = predicate.integers()?;
    if predicate.ty.rank() == 0 && result.rank() > 0 {
        return Ok(if flags.first() == Some(&1) { on_true.clone() } else { into_tensor(on_false) });
    }
    let mut tensor = into_tensor(on_false);
    select_data(flags, &on_true.data, &mut tensor.data, result.dtype.stored_bytes());
    Ok(tensor)
}

/// `min(max(operand, low), high)`, where the bounds may be scalars.
pub(super) fn clamp(low: &Tensor, operand: Arc<Tensor>, high: &Tensor) -> Result<Tensor, String> {
    let dtype = operand.ty.dtype;
    let count = operand.ty.elements();
    let mut tensor = into_tensor(operand);
    match (&mut tensor.data, &low.data, &high.data) {
        (Data::Float(values), Data::Float(low), Data::Float(high)) => {
            binary_float(Binary::Maximum, dtype, true, values, &stretch(low, count))?;
            binary_float(Binary::Minimum, dtype, true, values, &stretch(high, count))?;
        }
        (Data::Integer(values), Data::Integer(low), Data::Integer(high)) => {
            binary_integer(Binary::Maximum, dtype, values, &stretch(low, count))?;
            binary_integer(Binary::Minimum, dtype, values, &stretch(high, count))?;
        }
        _ => return Err(unsupported(dtype)),
    }
    Ok(tensor)
}

pub(super) fn reduce_precision(operand: Arc<Tensor>, exponent_bits: u32, mantissa_bits: u32) -> Result<Tensor, String> {
    let mut tensor = into_tensor(operand);
    let dtype = tensor.ty.dtype;
    match &mut tensor.data {
        Data::Float(values) => reduce_precision_float(dtype, exponent_bits, mantissa_bits, values),
        Data::Integer(_) | Data::Raw(_) => return Err(unsupported(dtype)),
    }
    Ok(tensor)
}

/// The same bits read as another type. Where the widths differ, the last dimension of the wider
/// type's partner holds the pieces, lowest first.
pub(super) fn bitcast_convert(operand: &Tensor, result: &Type) -> Result<Tensor, String> {
    let (from, to) = (operand.ty.dtype, result.dtype);
    if from.bits() >= 8 && to.bits() >= 8 {
        let bytes = operand.to_bytes();
        return Tensor::from_bytes(result.clone(), &bytes)
            .ok_or_else(|| format!("`{}` cannot be read as `{result}`", operand.ty));
    }
    // Types narrower than a byte take a byte each when stored, so the bits are laid out by hand.
    let source = operand.to_bytes();
    let (from_bits, to_bits) = (from.bits(), to.bits());
    let mut target = vec![0u8; result.elements() * to.stored_bytes()];
    for bit in 0..operand.ty.elements() * from_bits {
        let (element, offset) = (bit / from_bits, bit % from_bits);
        if source[element * from.stored_bytes() + offset / 8] >> (offset % 8) & 1 == 1 {
            let (element, offset) = (bit / to_bits, bit % to_bits);
            if let Some(byte) = target.get_mut(element * to.stored_bytes() + offset / 8) {
                *byte |= 1 << (offset % 8);
            }
        }
    }
    Tensor::from_bytes(result.clone(), &target).ok_or_else(|| format!("`{}` cannot be read as `{result}`", operand.ty))
}

pub(super) fn unary_float(op: Unary, dtype: DType, wide: bool, values: &mut [f64]) -> Result<(), String> {
    match op {
        Unary::Abs => map(values, f64::abs),
        Unary::Acos => map(values, libm::acos),
        // The library's function gives a number for some arguments below its domain.
        Unary::Acosh => map(values, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }),
        Unary::Asin => map(values, libm::asin),
        Unary::Asinh => map(values, libm::asinh),
        Unary::Atan => map(values, libm::atan),
        Unary::Atanh => map(values, libm::atanh),
        Unary::BesselI1e => map(values, special::bessel_i1e),
        Unary::Cbrt => map(values, libm::cbrt),
        Unary::Ceil => map(values, f64::ceil),
        Unary::Conj | Unary::Real => {}
        Unary::Cosh => map(values, |x| special::cosh(x, rounding(widened(dtype), wide))),
        Unary::Cosine => map(values, libm::cos),
        Unary::Digamma => map(values, special::digamma),
        Unary::Erf => map(values, libm::erf),
        Unary::ErfInv => map(values, special::erf_inv),
        Unary::Erfc => map(values, libm::erfc),
        Unary::Exponential => map(values, libm::exp),
        Unary::ExponentialMinusOne => map(values, libm::expm1),
        Unary::Floor => map(values, f64::floor),
        Unary::Imag => map(values, |_| 0.0),
        Unary::Lgamma => map(values, special::lgamma),
        Unary::Log => map(values, libm::log),
        Unary::LogPlusOne => map(values, libm::log1p),
        Unary::Logistic => map(values, |x| 1.0 / (1.0 + libm::exp(-x))),
        Unary::Negate => map(values, |x| -x),
        Unary::RoundNearestAfz => map(values, f64::round),
        Unary::RoundNearestEven => map(values, f64::round_ties_even),
        Unary::Rsqrt => map(values, |x| 1.0 / x.sqrt()),
        Unary::Sign => map(values, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        Unary::Sine => map(values, libm::sin),
        Unary::Sinh => map(values, |x| special::sinh(x, rounding(widened(dtype), wide))),
        Unary::Sqrt => map(values, f64::sqrt),
        Unary::Square => map(values, |x| x * x),
        Unary::Tan => map(values, libm::tan),
        Unary::Tanh => map(values, libm::tanh),
        Unary::CountLeadingZeros
        | Unary::IsFinite
        | Unary::IsInf
        | Unary::IsNegInf
        | Unary::IsPosInf
        | Unary::Not
        | Unary::PopulationCount => return Err(format!("`{}` has no meaning for `{dtype}`", op.name())),
    }
    round(dtype, wide, values);
    Ok(())
}

/// The type that `chlo` expands a function in: nothing narrower than `f32`.
fn widened(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

pub(super) fn unary_integer(op: Unary, dtype: DType, values: &mut [i64]) -> Result<(), String> {
    let bits = if dtype == DType::Bool { 1 } else { dtype.bits() as u32 };
    let mask = mask(dtype);
    match op {
        Unary::Abs if dtype.is_signed() => map(values, i64::wrapping_abs),
        Unary::Abs | Unary::Conj | Unary::Real => {}
        Unary::CountLeadingZeros => {
            map(values, |x| i64::from((x as u64 & mask).leading_zeros().saturating_sub(64 - bits)));
        }
        Unary::Negate => map(values, i64::wrapping_neg),
        Unary::Not if dtype == DType::Bool => map(values, |x| 1 - x),
        Unary::Not => map(values, |x| !x),
        Unary::PopulationCount => map(values, |x| i64::from((x as u64 & mask).count_ones())),
        Unary::Sign if dtype.is_signed() => map(values, i64::signum),
        Unary::Sign => map(values, |x| i64::from(x != 0)),
        Unary::Square => map(values, |x| x.wrapping_mul(x)),
        _ => return Err(format!("`{}` has no meaning for `{dtype}`", op.name())),
    }
    wrap(dtype, values);
    Ok(())
}

/// Combines into `left`.
pub(super) fn binary_float(
    op: Binary,
    dtype: DType,
    wide: bool,
    left: &mut [f64],
    right: &[f64],
) -> Result<(), String> {
    match op {
        Binary::Add => zip(left, right, |a, b| a + b),
        Binary::Atan2 => zip(left, right, f64::atan2),
        Binary::Divide => zip(left, right, |a, b| a / b),
        Binary::Maximum => zip(left, right, maximum),
        Binary::Minimum => zip(left, right, minimum),
        Binary::Multiply => zip(left, right, |a, b| a * b),
        Binary::NextAfter => zip(left, right, |a, b| special::next_after(dtype, a, b)),
        Binary::Polygamma => zip(left, right, special::polygamma),
        Binary::Power => zip(left, right, libm::pow),
        Binary::Remainder => zip(left, right, |a, b| a % b),
        Binary::Subtract => zip(left, right, |a, b| a - b),
        Binary::Zeta => zip(left, right, special::zeta),
        Binary::And
        | Binary::Or
        | Binary::ShiftLeft
        | Binary::ShiftRightArithmetic
        | Binary::ShiftRightLogical
        | Binary::Xor => return Err(format!("`{}` has no meaning for `{dtype}`", op.name())),
    }
    round(dtype, wide, left);
    Ok(())
}

/// Combines into `left`.
pub(super) fn binary_integer(op: Binary, dtype: DType, left: &mut [i64], right: &[i64]) -> Result<(), String> {
    let unsigned = !dtype.is_signed();
    let boolean = dtype == DType::Bool;
    let bits = if boolean { 1 } else { dtype.bits() as i64 };
    let mask = mask(dtype);
    // A shift by the width or more shifts everything out; a negative amount is a huge unsigned one.
    let outside = |amount: i64| amount < 0 || amount >= bits;
    match op {
        Binary::Add if boolean => zip(left, right, |a, b| a | b),
        Binary::Add => zip(left, right, i64::wrapping_add),
        Binary::And => zip(left, right, |a, b| a & b),
        Binary::Divide if unsigned => {
            zip(left, right, |a, b| (a as u64).checked_div(b as u64).unwrap_or(u64::MAX) as i64);
        }
        Binary::Divide => zip(left, right, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
        Binary::Maximum if unsigned => zip(left, right, |a, b| (a as u64).max(b as u64) as i64),
        Binary::Maximum => zip(left, right, i64::max),
        Binary::Minimum if unsigned => zip(left, right, |a, b| (a as u64).min(b as u64) as i64),
        Binary::Minimum => zip(left, right, i64::min),
        Binary::Multiply => zip(left, right, i64::wrapping_mul),
        Binary::Or => zip(left, right, |a, b| a | b),
        Binary::Power => zip(left, right, |a, b| integer_power(dtype, a, b)),
        Binary::Remainder if unsigned => {
            zip(left, right, |a, b| (a as u64).checked_rem(b as u64).unwrap_or(a as u64) as i64);
        }
        Binary::Remainder => zip(left, right, |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
        Binary::ShiftLeft => zip(left, right, |a, b| if outside(b) { 0 } else { a << b }),
        Binary::ShiftRightArithmetic => zip(left, right, |a, b| {
            // The sign is the highest bit of the width, for unsigned types too.
            let signed = (a as u64) << (64 - bits);
            (signed as i64 >> (64 - bits)) >> if outside(b) { 63 } else { b }
        }),
        Binary::ShiftRightLogical => {
            zip(left, right, |a, b| if outside(b) { 0 } else { ((a as u64 & mask) >> b) as i64 });
        }
        Binary::Subtract => zip(left, right, i64::wrapping_sub),
        Binary::Xor => zip(left, right, |a, b| a ^ b),
        Binary::Atan2 | Binary::NextAfter | Binary::Polygamma | Binary::Zeta => {
            return Err(format!("`{}` has no meaning for `{dtype}`", op.name()));
        }
    }
    if boolean && !matches!(op, Binary::Add | Binary::And | Binary::Or | Binary::Xor) {
        left.iter_mut().for_each(|value| *value &= 1);
    }
    wrap(dtype, left);
    Ok(())
}

pub(super) fn classify(op: Unary, values: &[f64], flags: &mut [i64]) {
    let test: fn(f64) -> bool = match op {
        Unary::IsInf => f64::is_infinite,
        Unary::IsNegInf => |x| x == f64::NEG_INFINITY,
        Unary::IsPosInf => |x| x == f64::INFINITY,
        _ => f64::is_finite,
    };
    for (flag, &value) in flags.iter_mut().zip(values) {
        *flag = i64::from(test(value));
    }
}

pub(super) fn compare_data(
    direction: Direction,
    order: Order,
    dtype: DType,
    left: &Data,
    right: &Data,
    flags: &mut [i64],
) -> Result<(), String> {
    match (left, right) {
        (Data::Float(left), Data::Float(right)) if order == Order::TotalOrder => {
            compare_by(direction, left, right, flags, |a, b| Some(a.total_cmp(&b)));
        }
        (Data::Float(left), Data::Float(right)) => match direction {
            Direction::Equal => flag(left, right, flags, |a, b| a == b),
            Direction::GreaterOrEqual => flag(left, right, flags, |a, b| a >= b),
            Direction::Greater => flag(left, right, flags, |a, b| a > b),
            Direction::LessOrEqual => flag(left, right, flags, |a, b| a <= b),
            Direction::Less => flag(left, right, flags, |a, b| a < b),
            Direction::NotEqual => flag(left, right, flags, |a, b| a != b),
        },
        (Data::Integer(left), Data::Integer(right)) if dtype.is_signed() => {
            compare_by(direction, left, right, flags, |a, b| Some(a.cmp(&b)));
        }
        (Data::Integer(left), Data::Integer(right)) => {
            compare_by(direction, left, right, flags, |a, b| Some((a as u64).cmp(&(b as u64))));
        }
        _ => return Err(unsupported(dtype)),
    }
    Ok(())
}

pub(super) fn convert_data(from: DType, to: DType, wide: bool, source: &Data, target: &mut Data) -> Result<(), String> {
    match (source, target) {
        (Data::Float(source), Data::Float(target)) => {
            target.copy_from_slice(source);
            round(to, wide, target);
        }
        (Data::Float(source), Data::Integer(target)) => {
            let convert = |value: f64| match to {
                DType::Bool => i64::from(value != 0.0),
                DType::U64 => (value as u64) as i64,
                _ => {
                    // `as` truncates, saturates, and takes NaN to zero; so must narrower types.
                    let (low, high) = limits(to);
                    (value as i64).clamp(low, high)
                }
            };
            target.iter_mut().zip(source).for_each(|(target, &value)| *target = convert(value));
        }
        (Data::Integer(source), Data::Float(target)) => {
            for (target, &value) in target.iter_mut().zip(source) {
                // Wide integers are rounded straight to `f32`; through `f64` they could round twice.
                *target = match (to, from) {
                    (DType::F64, DType::U64) => value as u64 as f64,
                    (DType::F64, _) => value as f64,
                    (_, DType::U64) if wide => value as u64 as f64,
                    _ if wide => value as f64,
                    (DType::F32, DType::U64) => f64::from(value as u64 as f32),
                    (DType::F32, _) => f64::from(value as f32),
                    (_, DType::U64) => round_one(to, false, sticky(u128::from(value as u64), false)),
                    _ => round_one(to, false, sticky(u128::from(value.unsigned_abs()), value < 0)),
                };
            }
        }
        (Data::Integer(source), Data::Integer(target)) => {
            target.copy_from_slice(source);
            wrap(to, target);
        }
        (Data::Raw(_), _) => return Err(unsupported(from)),
        (_, Data::Raw(_)) => return Err(unsupported(to)),
    }
    Ok(())
}

/// Takes `on_true` where the flag is set and keeps the target elsewhere.
pub(super) fn select_data(flags: &[i64], on_true: &Data, target: &mut Data, width: usize) {
    match (on_true, target) {
        (Data::Float(on_true), Data::Float(target)) => choose(flags, on_true, target),
        (Data::Integer(on_true), Data::Integer(target)) => choose(flags, on_true, target),
        (Data::Raw(on_true), Data::Raw(target)) => {
            for (index, &flag) in flags.iter().enumerate() {
                if flag != 0 {
                    target[index * width..][..width].copy_from_slice(&on_true[index * width..][..width]);
                }
            }
        }
        _ => {}
    }
}

/// Rounds to fewer mantissa bits; what leaves the exponent's range becomes infinite or zero.
pub(super) fn reduce_precision_float(dtype: DType, exponent_bits: u32, mantissa_bits: u32, values: &mut [f64]) {
    let (own_exponent, own_mantissa) = float_layout(dtype);
    for value in values {
        if value.is_nan() {
            continue;
        }
        let mut bits = encode_float(dtype, *value);
        let sign = bits & 1 << (own_exponent + own_mantissa);
        if mantissa_bits < own_mantissa {
            let shift = own_mantissa - mantissa_bits;
            bits += (1u64 << (shift - 1)) - 1 + (bits >> shift & 1);
            bits &= !((1u64 << shift) - 1);
        }
        if exponent_bits < own_exponent {
            let exponent = bits >> own_mantissa & ((1 << own_exponent) - 1);
            let bias = (1u64 << (own_exponent - 1)) - 1;
            let reduced = (1u64 << (exponent_bits.max(1) - 1)) - 1;
            if exponent > bias + reduced {
                bits = sign | ((1u64 << own_exponent) - 1) << own_mantissa;
            } else if exponent <= bias - reduced {
                bits = sign;
            }
        }
        *value = decode_float(dtype, bits);
    }
}

/// Bits of exponent and of mantissa.
pub(super) fn float_layout(dtype: DType) -> (u32, u32) {
    match dtype {
        DType::BF16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F32 => (8, 23),
        _ => (11, 52),
    }
}

/// NaN if either is; `-0` is less than `+0`.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() {
        a
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else {
        b
    }
}

/// NaN if either is; `-0` is less than `+0`.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() {
        a
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        b
    }
}

/// A negative exponent leaves nothing of a base beyond one.
fn integer_power(dtype: DType, base: i64, exponent: i64) -> i64 {
    let mut exponent = exponent as u64;
    if dtype.is_signed() && (exponent as i64) < 0 {
        match base {
            1 => return 1,
            -1 => exponent = (exponent as i64).unsigned_abs(),
            _ => return 0,
        }
    }
    let (mut base, mut result) = (base, 1i64);
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    wrap_one(dtype, result)
}

/// The integer as an `f64` whose last bit is set where bits were lost, so that rounding it once
/// more to a narrower type sees them.
fn sticky(magnitude: u128, negative: bool) -> f64 {
    let shift = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let lost = magnitude & ((1u128 << shift) - 1) != 0;
    let kept = ((magnitude >> shift) | u128::from(lost)) << shift;
    let value = kept as f64;
    if negative { -value } else { value }
}

fn limits(dtype: DType) -> (i64, i64) {
    let bits = dtype.bits() as u32;
    match dtype.kind() {
        DTypeKind::Signed => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        _ => (0, mask(dtype) as i64),
    }
}

fn map<T: Copy>(values: &mut [T], function: impl Fn(T) -> T) {
    for value in values {
        *value = function(*value);
    }
}

fn zip<T: Copy>(left: &mut [T], right: &[T], function: impl Fn(T, T) -> T) {
    for (left, &right) in left.iter_mut().zip(right) {
        *left = function(*left, right);
    }
}

fn flag<T: Copy>(left: &[T], right: &[T], flags: &mut [i64], test: impl Fn(T, T) -> bool) {
    for ((flag, &left), &right) in flags.iter_mut().zip(left).zip(right) {
        *flag = i64::from(test(left, right));
    }
}

fn compare_by<T: Copy>(
    direction: Direction,
    left: &[T],
    right: &[T],
    flags: &mut [i64],
    order: impl Fn(T, T) -> Option<Ordering>,
) {
    match direction {
        Direction::Equal => flag(left, right, flags, |a, b| order(a, b) == Some(Ordering::Equal)),
        Direction::GreaterOrEqual => flag(left, right, flags, |a, b| order(a, b).is_some_and(Ordering::is_ge)),
        Direction::Greater => flag(left, right, flags, |a, b| order(a, b) == Some(Ordering::Greater)),
        Direction::LessOrEqual => flag(left, right, flags, |a, b| order(a, b).is_some_and(Ordering::is_le)),
        Direction::Less => flag(left, right, flags, |a, b| order(a, b) == Some(Ordering::Less)),
        Direction::NotEqual => flag(left, right, flags, |a, b| order(a, b) != Some(Ordering::Equal)),
    }
}

fn choose<T: Copy>(flags: &[i64], on_true: &[T], target: &mut [T]) {
    for ((target, &value), &flag) in target.iter_mut().zip(on_true).zip(flags) {
        if flag != 0 {
            *target = value;
        }
    }
}

/// A scalar repeated, or the values as they are.
fn stretch<T: Copy>(values: &[T], count: usize) -> Vec<T> {
    if values.len() == 1 { vec![values[0]; count] } else { values.to_vec() }
}

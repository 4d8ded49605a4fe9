//! The checks that self-checking programs make.

use crate::program::{Check, DType, Type};

use super::elementwise::float_layout;
use super::tensor::{Data, Tensor, encode_float};

/// The error names the first element that does not hold.
pub(super) fn check(check: Check, actual: &Tensor, expected: &Tensor) -> Result<(), String> {
    if actual.ty != expected.ty {
        return Err(format!("`{}` is compared with `{}`", actual.ty, expected.ty));
    }
    let ty = &actual.ty;
    match (&actual.data, &expected.data) {
        (Data::Float(actual), Data::Float(expected)) => {
            let mut failures = actual.iter().zip(expected).enumerate().filter_map(|(index, (&actual, &expected))| {
                check_float(check, ty.dtype, actual, expected).map(|problem| (index, problem))
            });
            report(ty, failures.next(), failures.count())
        }
        (Data::Integer(actual), Data::Integer(expected)) => {
            let mut failures = actual.iter().zip(expected).enumerate().filter_map(|(index, (&actual, &expected))| {
                check_integer(check, ty.dtype, actual, expected).map(|problem| (index, problem))
            });
            report(ty, failures.next(), failures.count())
        }
        (Data::Raw(actual), Data::Raw(expected)) => {
            let width = ty.dtype.stored_bytes().max(1);
            let pairs = actual.chunks_exact(width).zip(expected.chunks_exact(width));
            let mut failures = pairs
                .enumerate()
                .filter(|(_, (actual, expected))| actual != expected)
                .map(|(index, (actual, expected))| (index, format!("bytes {actual:02x?} are not {expected:02x?}")));
            report(ty, failures.next(), failures.count())
        }
        _ => Err(format!("`{ty}` is held in two ways")),
    }
}

fn check_float(check: Check, dtype: DType, actual: f64, expected: f64) -> Option<String> {
    // The checks ask whether two results agree, so a NaN agrees with a NaN.
    let same = actual == expected || actual.is_nan() && expected.is_nan();
    match check {
        Check::Equal => {
            (!same).then(|| format!("{actual} is not {expected} ({} ulps apart)", ulps(dtype, actual, expected)))
        }
        Check::AlmostEqual { tolerance } => {
            let distance = (actual - expected).abs();
            // A distance that is no number is too large as well.
            (!same && (distance > tolerance || distance.is_nan()))
                .then(|| format!("{actual} is {distance} from {expected}, more than {tolerance}"))
        }
        Check::Close { min_ulps, max_ulps } => {
            let distance = if same { 0 } else { ulps(dtype, actual, expected) };
            (distance < min_ulps || distance > max_ulps).then(|| format!("{actual} is {distance} ulps from {expected}"))
        }
    }
}

fn check_integer(check: Check, dtype: DType, actual: i64, expected: i64) -> Option<String> {
    let wide = |value: i64| if dtype.is_unsigned() { i128::from(value as u64) } else { i128::from(value) };
    let (actual, expected) = (wide(actual), wide(expected));
    let distance = actual.abs_diff(expected);
    let holds = match check {
        Check::Equal => distance == 0,
        Check::AlmostEqual { tolerance } => distance as f64 <= tolerance,
        Check::Close { min_ulps, max_ulps } => (u128::from(min_ulps)..=u128::from(max_ulps)).contains(&distance),
    };
    (!holds).then(|| format!("{actual} is {distance} from {expected}"))
}

/// How many numbers of the type lie between two. Subnormals count as zero or as the smallest normal
/// number, whichever is nearer, since engines differ in whether they keep them.
fn ulps(dtype: DType, a: f64, b: f64) -> u64 {
    if a.is_nan() || b.is_nan() {
        return u64::MAX;
    }
    let (_, mantissa_bits) = float_layout(dtype);
    let subnormals = (1u64 << mantissa_bits) - 1;
    let distance = |value: f64| {
        let bits = encode_float(dtype, value.abs());
        if bits > subnormals { bits - subnormals } else { u64::from(2 * bits >= subnormals) }
    };
    let (from, to) = (distance(a), distance(b));
    if a.is_sign_negative() == b.is_sign_negative() { from.abs_diff(to) } else { from.saturating_add(to) }
}

fn report(ty: &Type, first: Option<(usize, String)>, others: usize) -> Result<(), String> {
    let Some((position, problem)) = first else { return Ok(()) };
    let mut index = vec![0; ty.rank()];
    let mut remaining = position;
    for dim in (0..ty.rank()).rev() {
        index[dim] = remaining % ty.shape[dim];
        remaining /= ty.shape[dim];
    }
    let more = if others > 0 { format!(" (and {others} more of {})", ty.elements()) } else { String::new() };
    Err(format!("element {index:?}: {problem}{more}"))
}

//! Checks that many ops share.

use smallvec::SmallVec;

use super::Signature;
use crate::program::{DType, DTypeKind, Dims, MAXIMUM_RANK, Type};

/// Sizes, strides, dilations and paddings stay below this, so that sums of a few of them, which
/// positions in a padded tensor are, stay within 63 bits.
const LIMIT: i64 = 1 << 60;

/// A type whose elements can be counted, and sized in bits, within 63 bits. An empty tensor has few
/// elements whatever its other dimensions are, but strides are products of those, so they are
/// limited too.
pub(crate) fn countable(ty: &Type) -> Result<(), String> {
    if ty.dtype == DType::Token && ty.rank() > 0 {
        return Err(format!("a token has no dimensions, got {}", ty.rank()));
    }
    if ty.rank() > MAXIMUM_RANK {
        return Err(format!("a tensor has more than {MAXIMUM_RANK} dimensions"));
    }
    if ty.checked_elements().is_none() {
        return Err(format!("`{ty}` has more elements than 63 bits can count"));
    }
    let extent = ty.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
    if extent.is_none_or(|extent| extent > LIMIT as usize) {
        return Err(format!("the dimensions of `{ty}` multiply to more than 2^60"));
    }
    Ok(())
}

pub(super) fn bounded(what: &str, value: i64) -> Result<i64, String> {
    if (-LIMIT..=LIMIT).contains(&value) { Ok(value) } else { Err(format!("{what} {value} is beyond 2^60")) }
}

pub(super) fn bounded_size(what: &str, value: usize) -> Result<i64, String> {
    match i64::try_from(value) {
        Ok(value) if value <= LIMIT => Ok(value),
        _ => Err(format!("{what} {value} is beyond 2^60")),
    }
}

pub(super) fn positive(what: &str, value: usize) -> Result<(), String> {
    if value > 0 { Ok(()) } else { Err(format!("{what} must be positive, got 0")) }
}

/// Exactly `N` operands.
pub(super) fn take<'a, const N: usize>(operands: &[&'a Type]) -> Result<[&'a Type; N], String> {
    operands.try_into().map_err(|_| format!("expected {}, got {}", plural(N, "operand"), operands.len()))
}

/// At least `count` operands.
pub(super) fn at_least(operands: &[&Type], count: usize) -> Result<(), String> {
    if operands.len() >= count {
        return Ok(());
    }
    Err(format!("expected at least {}, got {}", plural(count, "operand"), operands.len()))
}

/// Exactly `N` regions.
pub(super) fn take_regions<'r, 'a, const N: usize>(
    regions: &'r [Signature<'a>],
) -> Result<&'r [Signature<'a>; N], String> {
    regions.try_into().map_err(|_| format!("expected {}, got {}", plural(N, "region"), regions.len()))
}

pub(super) fn same_type(left: &Type, right: &Type) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("operand types differ: `{left}` and `{right}`")) }
}

pub(super) fn same_dtype(left: &Type, right: &Type) -> Result<(), String> {
    if left.dtype == right.dtype {
        return Ok(());
    }
    Err(format!("element types of the operands differ: `{left}` and `{right}`"))
}

pub(super) fn same_shape(left: &Type, right: &Type) -> Result<(), String> {
    if left.shape == right.shape { Ok(()) } else { Err(format!("operand shapes differ: `{left}` and `{right}`")) }
}

pub(super) fn has_rank(what: &str, ty: &Type, rank: usize) -> Result<(), String> {
    if ty.rank() == rank { Ok(()) } else { Err(format!("{what} must have rank {rank}, got `{ty}`")) }
}

/// `what` has the element type `dtype`, whatever its shape.
pub(super) fn has_dtype(what: &str, ty: &Type, dtype: DType) -> Result<(), String> {
    if ty.dtype == dtype { Ok(()) } else { Err(format!("{what} must have elements of type `{dtype}`, got `{ty}`")) }
}

pub(super) fn is_type(what: &str, ty: &Type, expected: &Type) -> Result<(), String> {
    if ty == expected { Ok(()) } else { Err(format!("{what} must be `{expected}`, got `{ty}`")) }
}

/// `accepted` holds for the element type; `family` names those for which it does.
pub(super) fn accepts(ty: &Type, accepted: bool, family: &str) -> Result<(), String> {
    if accepted { Ok(()) } else { Err(format!("expected {family} elements, got `{ty}`")) }
}

/// A list with one entry per dimension, or per window dimension.
pub(super) fn has_length(entry: &str, length: usize, expected: usize) -> Result<(), String> {
    if length == expected { Ok(()) } else { Err(format!("expected {}, got {length}", plural(expected, entry))) }
}

pub(super) fn dim_in_range(what: &str, dim: usize, rank: usize) -> Result<(), String> {
    if dim < rank { Ok(()) } else { Err(format!("{what} {dim} is out of range for rank {rank}")) }
}

/// Every dimension exists and none comes twice.
pub(super) fn distinct_dims(what: &str, dims: impl IntoIterator<Item = usize>, rank: usize) -> Result<(), String> {
    let mut seen: SmallVec<[bool; 16]> = SmallVec::from_elem(false, rank);
    for dim in dims {
        dim_in_range(what, dim, rank)?;
        if std::mem::replace(&mut seen[dim], true) {
            return Err(format!("{what} {dim} is named twice"));
        }
    }
    Ok(())
}

/// The dimensions not among `dims`, in order. All of `dims` are below `rank`.
pub(super) fn other_dims(dims: impl IntoIterator<Item = usize>, rank: usize) -> Dims {
    let mut kept: SmallVec<[bool; 16]> = SmallVec::from_elem(true, rank);
    for dim in dims {
        kept[dim] = false;
    }
    (0..rank).filter(|&dim| kept[dim]).collect()
}

pub(super) fn sorted_dims(what: &str, dims: &[usize]) -> Result<(), String> {
    match dims.windows(2).find(|pair| pair[0] > pair[1]) {
        Some(pair) => Err(format!("{what}s must be in ascending order, got {} before {}", pair[0], pair[1])),
        None => Ok(()),
    }
}

/// `region` names the region, as in `the body`.
pub(super) fn region_arguments<'a>(
    region: &str,
    signature: &Signature<'_>,
    expected: impl ExactSizeIterator<Item = &'a Type>,
) -> Result<(), String> {
    region_types("argument", region, &signature.arguments, expected)
}

pub(super) fn region_results<'a>(
    region: &str,
    signature: &Signature<'_>,
    expected: impl ExactSizeIterator<Item = &'a Type>,
) -> Result<(), String> {
    region_types("result", region, &signature.results, expected)
}

fn region_types<'a>(
    noun: &str,
    region: &str,
    actual: &[&Type],
    expected: impl ExactSizeIterator<Item = &'a Type>,
) -> Result<(), String> {
    if actual.len() != expected.len() {
        return Err(format!("expected {} of {region}, got {}", plural(expected.len(), noun), actual.len()));
    }
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        if *actual != expected {
            return Err(format!("{noun} {index} of {region} must be `{expected}`, got `{actual}`"));
        }
    }
    Ok(())
}

/// The element types a reduction of `inputs` works in: those the region returns, each at least as
/// wide as its input. The region takes one accumulator per input, then one element per input.
pub(super) fn reduction_dtypes(region: &Signature<'_>, inputs: &[&Type]) -> Result<SmallVec<[DType; 1]>, String> {
    if region.results.len() != inputs.len() {
        let expected = plural(inputs.len(), "result");
        return Err(format!("expected {expected} of the region, got {}", region.results.len()));
    }
    for (index, (result, input)) in region.results.iter().zip(inputs).enumerate() {
        if result.rank() != 0 {
            return Err(format!("result {index} of the region must be a scalar, got `{result}`"));
        }
        if !promotable(input.dtype, result.dtype) {
            return Err(format!("elements of `{input}` cannot be accumulated in `{}`", result.dtype));
        }
    }
    let accumulators = || region.results.iter().copied();
    let expected: SmallVec<[&Type; 4]> = accumulators().chain(accumulators()).collect();
    region_arguments("the region", region, expected.iter().copied())?;
    Ok(accumulators().map(|ty| ty.dtype).collect())
}

/// Whether a reduction may work in `to` on elements of `from`: same family, no fewer bits.
fn promotable(from: DType, to: DType) -> bool {
    same_family(from, to) && from.bits() <= to.bits()
}

/// Both boolean, both integer, both float, or both complex.
pub(super) fn same_family(left: DType, right: DType) -> bool {
    (left.is_integer() && right.is_integer())
        || (left.is_float() && right.is_float())
        || (left.kind() == right.kind() && left.kind() != DTypeKind::Token)
}

pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

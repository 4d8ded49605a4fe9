//! Ops that make, move or cut whole tensors without computing on elements.

use smallvec::smallvec;

use super::Types;
use super::check::{
    accepts, at_least, bounded, bounded_size, countable, dim_in_range, distinct_dims, has_length, is_type, positive,
    same_dtype, take,
};
use crate::program::{BroadcastInDim, Literal, Pad, Shape, Slice, Type};

pub(super) fn broadcast_in_dim(broadcast: &BroadcastInDim, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    let result = operand.with_shape(&broadcast.shape);
    has_length("broadcast dimensions", broadcast.dims.len(), operand.rank())?;
    distinct_dims("broadcast dimension", broadcast.dims.iter().copied(), result.rank())?;
    for (dim, (&size, &target)) in operand.shape.iter().zip(&broadcast.dims).enumerate() {
        if size != 1 && size != result.shape[target] {
            return Err(format!(
                "dimension {dim} of the operand has size {size} and cannot become dimension {target} of size {}",
                result.shape[target]
            ));
        }
    }
    Ok(smallvec![result])
}

pub(super) fn concatenate(dim: usize, operands: &[&Type]) -> Result<Types, String> {
    at_least(operands, 1)?;
    let first = operands[0];
    dim_in_range("dimension", dim, first.rank())?;
    let mut size = 0usize;
    for operand in operands {
        same_dtype(first, operand)?;
        let others_differ =
            || (0..first.rank()).any(|other| other != dim && first.shape[other] != operand.shape[other]);
        if first.rank() != operand.rank() || others_differ() {
            return Err(format!("`{first}` and `{operand}` differ beyond dimension {dim}"));
        }
        size = size.saturating_add(operand.shape[dim]);
    }
    let mut result = first.clone();
    result.shape[dim] = size;
    Ok(smallvec![result])
}

pub(super) fn constant(literal: &Literal, operands: &[&Type]) -> Result<Types, String> {
    let [] = take(operands)?;
    Ok(smallvec![literal.ty.clone()])
}

pub(super) fn dynamic_slice(sizes: &Shape, operands: &[&Type]) -> Result<Types, String> {
    at_least(operands, 1)?;
    let (operand, starts) = (operands[0], &operands[1..]);
    has_length("slice sizes", sizes.len(), operand.rank())?;
    start_indices(operand, starts)?;
    fits_inside("the slice", sizes, operand)?;
    Ok(smallvec![operand.with_shape(sizes)])
}

pub(super) fn dynamic_update_slice(operands: &[&Type]) -> Result<Types, String> {
    at_least(operands, 2)?;
    let (operand, update, starts) = (operands[0], operands[1], &operands[2..]);
    same_dtype(operand, update)?;
    if update.rank() != operand.rank() {
        return Err(format!("ranks differ: `{operand}` is updated with `{update}`"));
    }
    start_indices(operand, starts)?;
    fits_inside("the update", &update.shape, operand)?;
    Ok(smallvec![operand.clone()])
}

pub(super) fn iota(dim: usize, ty: &Type, operands: &[&Type]) -> Result<Types, String> {
    let [] = take(operands)?;
    let dtype = ty.dtype;
    accepts(ty, dtype.is_integer() || dtype.is_float() || dtype.is_complex(), "integer, float or complex")?;
    dim_in_range("dimension", dim, ty.rank())?;
    Ok(smallvec![ty.clone()])
}

pub(super) fn pad(pad: &Pad, operands: &[&Type]) -> Result<Types, String> {
    let [operand, value] = take(operands)?;
    is_type("the padding value", value, &Type::scalar(operand.dtype))?;
    has_length("low padding", pad.low.len(), operand.rank())?;
    has_length("high padding", pad.high.len(), operand.rank())?;
    has_length("interior padding", pad.interior.len(), operand.rank())?;
    let mut result = operand.clone();
    for (dim, size) in result.shape.iter_mut().enumerate() {
        let low = i128::from(bounded("low padding", pad.low[dim])?);
        let high = i128::from(bounded("high padding", pad.high[dim])?);
        let interior = bounded("interior padding", pad.interior[dim])?;
        if interior < 0 {
            return Err(format!("interior padding {interior} of dimension {dim} is negative"));
        }
        let spread = *size as i128 + (*size as i128 - 1).max(0) * i128::from(interior);
        let padded = low + spread + high;
        if padded < 0 {
            return Err(format!("dimension {dim} of size {spread} is padded by {low} and {high} to less than nothing"));
        }
        // The spread operand is where positions are computed, even where little of it is kept.
        bounded_size("spread size", usize::try_from(spread).unwrap_or(usize::MAX))?;
        *size = usize::try_from(padded).unwrap_or(usize::MAX);
    }
    Ok(smallvec![result])
}

pub(super) fn reshape(shape: &Shape, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    let result = operand.with_shape(shape);
    countable(&result)?;
    if result.elements() != operand.elements() {
        return Err(format!("`{operand}` has {} elements, `{result}` has {}", operand.elements(), result.elements()));
    }
    Ok(smallvec![result])
}

pub(super) fn reverse(dims: &[usize], operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    distinct_dims("dimension", dims.iter().copied(), operand.rank())?;
    Ok(smallvec![operand.clone()])
}

pub(super) fn slice(slice: &Slice, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    has_length("slice starts", slice.start.len(), operand.rank())?;
    has_length("slice limits", slice.limit.len(), operand.rank())?;
    has_length("slice strides", slice.strides.len(), operand.rank())?;
    let mut result = operand.clone();
    for (dim, size) in result.shape.iter_mut().enumerate() {
        let (start, limit, stride) = (slice.start[dim], slice.limit[dim], slice.strides[dim]);
        if start > limit || limit > *size {
            return Err(format!("the slice {start}:{limit} leaves dimension {dim} of size {size}"));
        }
        positive("a slice stride", stride)?;
        bounded_size("slice stride", stride)?;
        *size = (limit - start).div_ceil(stride);
    }
    Ok(smallvec![result])
}

pub(super) fn transpose(permutation: &[usize], operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    has_length("permutation", permutation.len(), operand.rank())?;
    distinct_dims("dimension", permutation.iter().copied(), operand.rank())?;
    let shape: Shape = permutation.iter().map(|&dim| operand.shape[dim]).collect();
    Ok(smallvec![operand.with_shape(&shape)])
}

/// One scalar integer per dimension, all of one type.
fn start_indices(operand: &Type, starts: &[&Type]) -> Result<(), String> {
    if starts.len() != operand.rank() {
        return Err(format!("expected {} start indices, got {}", operand.rank(), starts.len()));
    }
    for start in starts {
        accepts(start, start.dtype.is_integer(), "integer")?;
        is_type("a start index", start, &Type::scalar(starts[0].dtype))?;
    }
    Ok(())
}

fn fits_inside(what: &str, sizes: &[usize], operand: &Type) -> Result<(), String> {
    for (dim, (inner, outer)) in sizes.iter().zip(&operand.shape).enumerate() {
        if inner > outer {
            return Err(format!("{what} has size {inner} in dimension {dim}, the operand only {outer}"));
        }
    }
    Ok(())
}

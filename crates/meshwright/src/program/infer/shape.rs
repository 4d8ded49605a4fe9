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
    has_length("broadcast dimension", broadcast.dims.len(), operand.rank())?;
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
    has_length("slice size", sizes.len(), operand.rank())?;
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
    has_length("slice start", slice.start.len(), operand.rank())?;
    has_length("slice limit", slice.limit.len(), operand.rank())?;
    has_length("slice stride", slice.strides.len(), operand.rank())?;
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
    has_length("permuted dimension", permutation.len(), operand.rank())?;
    distinct_dims("dimension", permutation.iter().copied(), operand.rank())?;
    let shape: Shape = permutation.iter().map(|&dim| operand.shape[dim]).collect();
    Ok(smallvec![operand.with_shape(&shape)])
}

/// One scalar integer per dimension, all of one type.
fn start_indices(operand: &Type, starts: &[&Type]) -> Result<(), String> {
    has_length("start position", starts.len(), operand.rank())?;
    for start in starts {
        accepts(start, start.dtype.is_integer(), "integer")?;
        is_type("a start position", start, &Type::scalar(starts[0].dtype))?;
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

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;
    use smallvec::SmallVec;

    #[test]
    fn broadcast_in_dim() {
        let check = |dims: &[usize], shape: &[usize], operand, expected| {
            let (shape, dims) = (Shape::from_slice(shape), Dims::from_slice(dims));
            check(Op::BroadcastInDim(Box::new(BroadcastInDim { shape, dims })), operand, &[], expected);
        };
        check(&[2, 1], &[2, 3, 2], "1x3xi32", "2x3x2xi32");
        check(&[], &[4], "f32", "4xf32");
        check(&[0], &[4], "f32", "error: expected 0 broadcast dimensions, got 1");
        check(&[1], &[4], "4xf32", "error: broadcast dimension 1 is out of range for rank 1");
        check(&[0, 0], &[4], "4x4xf32", "error: broadcast dimension 0 is named twice");
        let message = "error: dimension 0 of the operand has size 3 and cannot become dimension 0 of size 4";
        check(&[0], &[4], "3xf32", message);
        let message = "error: `tensor<4611686018427387904xf32>` has more elements than 63 bits can count";
        check(&[], &[1 << 62], "f32", message);
    }

    #[test]
    fn concatenate() {
        let check = |dim, operands, expected| check(Op::Concatenate { dim }, operands, &[], expected);
        check(0, "3x2xi64 1x2xi64", "4x2xi64");
        check(0, "", "error: expected at least 1 operand, got 0");
        check(1, "3x2xi64 1x2xi64", "error: `tensor<3x2xi64>` and `tensor<1x2xi64>` differ beyond dimension 1");
        check(0, "3xi64 3x1xi64", "error: `tensor<3xi64>` and `tensor<3x1xi64>` differ beyond dimension 0");
        check(0, "3xi64 3xf32", "error: element types of the operands differ: `tensor<3xi64>` and `tensor<3xf32>`");
        check(0, "f32 f32", "error: dimension 0 is out of range for rank 0");
    }

    #[test]
    fn constant_and_iota() {
        check(Op::Constant(Box::new(Literal::splat(Type::new(DType::F32, &[2]), 0))), "", &[], "2xf32");
        check(Op::Constant(Box::new(Literal::splat(Type::token(), 0))), "", &[], "error: result 0 is a token");
        let iota = |dim, dtype| Op::Iota { dim, ty: Box::new(Type::new(dtype, &[2, 3])) };
        check(iota(1, DType::I32), "", &[], "2x3xi32");
        check(iota(2, DType::I32), "", &[], "error: dimension 2 is out of range for rank 2");
        let message = "error: expected integer, float or complex elements, got `tensor<2x3xi1>`";
        check(iota(0, DType::Bool), "", &[], message);
        check(iota(0, DType::F32), "f32", &[], "error: expected 0 operands, got 1");
    }

    #[test]
    fn dynamic_slices() {
        let slice = |sizes: &[usize], operands, expected| {
            check(Op::DynamicSlice { sizes: Shape::from_slice(sizes) }, operands, &[], expected);
        };
        slice(&[2, 1], "4x4xf32 i32 i32", "2x1xf32");
        slice(&[2], "4x4xf32 i32 i32", "error: expected 2 slice sizes, got 1");
        slice(&[2], "4xf32", "error: expected 1 start position, got 0");
        slice(&[5], "4xf32 i32", "error: the slice has size 5 in dimension 0, the operand only 4");
        slice(&[2], "4xf32 f32", "error: expected integer elements, got `tensor<f32>`");
        slice(&[2], "4xf32 1xi32", "error: a start position must be `tensor<i32>`, got `tensor<1xi32>`");
        slice(&[2, 2], "4x4xf32 i32 i64", "error: a start position must be `tensor<i32>`, got `tensor<i64>`");
        let update = |operands, expected| check(Op::DynamicUpdateSlice, operands, &[], expected);
        update("4x4xf32 1x4xf32 i64 i64", "4x4xf32");
        update("4xf32 5xf32 i64", "error: the update has size 5 in dimension 0, the operand only 4");
        update("4xf32 f32 i64", "error: ranks differ: `tensor<4xf32>` is updated with `tensor<f32>`");
        update("4xf32", "error: expected at least 2 operands, got 1");
    }

    #[test]
    fn pad() {
        let check = |low, high, interior, operands, expected| {
            let list = |entry| SmallVec::from_slice(&[entry]);
            let pad = Pad { low: list(low), high: list(high), interior: list(interior) };
            check(Op::Pad(Box::new(pad)), operands, &[], expected);
        };
        check(1, 2, 1, "3xf32 f32", "8xf32");
        check(-1, -1, 0, "3xf32 f32", "1xf32");
        check(1, 0, 7, "0xf32 f32", "1xf32");
        check(-2, -2, 0, "3xf32 f32", "error: dimension 0 of size 3 is padded by -2 and -2 to less than nothing");
        check(0, 0, -1, "3xf32 f32", "error: interior padding -1 of dimension 0 is negative");
        check(0, 0, 0, "f32 f32", "error: expected 0 low paddings, got 1");
        check(0, 0, 0, "3xf32 i32", "error: the padding value must be `tensor<f32>`, got `tensor<i32>`");
        check(i64::MIN, 0, 0, "3xf32 f32", "error: low padding -9223372036854775808 is beyond 2^60");
        let message = "error: spread size 2305843009213693953 is beyond 2^60";
        check(0, -(1 << 60), (1 << 60) - 1, "3xf32 f32", message);
    }

    #[test]
    fn reshape() {
        let check = |shape: &[usize], expected| {
            check(Op::Reshape { shape: Shape::from_slice(shape) }, "2x3xf32", &[], expected);
        };
        check(&[6], "6xf32");
        check(&[3, 1, 2], "3x1x2xf32");
        check(&[5], "error: `tensor<2x3xf32>` has 6 elements, `tensor<5xf32>` has 5");
        let message = "error: `tensor<9223372036854775808x2xf32>` has more elements than 63 bits can count";
        check(&[1 << 63, 2], message);
    }

    #[test]
    fn reverse_and_transpose() {
        let reverse = |dims: &[usize], expected| {
            check(Op::Reverse { dims: Dims::from_slice(dims) }, "2x3xf32", &[], expected);
        };
        reverse(&[1], "2x3xf32");
        reverse(&[1, 1], "error: dimension 1 is named twice");
        reverse(&[2], "error: dimension 2 is out of range for rank 2");
        let transpose = |permutation: &[usize], expected| {
            check(Op::Transpose { permutation: Dims::from_slice(permutation) }, "2x3xf32", &[], expected);
        };
        transpose(&[1, 0], "3x2xf32");
        transpose(&[0], "error: expected 2 permuted dimensions, got 1");
        transpose(&[0, 0], "error: dimension 0 is named twice");
    }

    #[test]
    fn slice() {
        let check = |start, limit, stride, operand, expected| {
            let list = |entry| Shape::from_slice(&[entry]);
            let slice = Slice { start: list(start), limit: list(limit), strides: list(stride) };
            check(Op::Slice(Box::new(slice)), operand, &[], expected);
        };
        check(1, 8, 3, "9xf32", "3xf32");
        check(4, 4, 1, "9xf32", "0xf32");
        check(5, 4, 1, "9xf32", "error: the slice 5:4 leaves dimension 0 of size 9");
        check(0, 10, 1, "9xf32", "error: the slice 0:10 leaves dimension 0 of size 9");
        check(0, 9, 0, "9xf32", "error: a slice stride must be positive, got 0");
        check(0, 9, usize::MAX, "9xf32", "error: slice stride 18446744073709551615 is beyond 2^60");
        check(0, 0, 1, "f32", "error: expected 0 slice starts, got 1");
    }
}

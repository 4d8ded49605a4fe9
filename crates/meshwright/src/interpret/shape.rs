//! Ops that move elements without looking at them.
//!
//! Most of them are a walk through the source with one step per dimension of the result, or a walk
//! through the result with one step per dimension of the source.

use std::sync::Arc;

use crate::program::{BroadcastInDim, DType, Pad, Slice, Type};

use super::tensor::{Data, Tensor, into_tensor, round, wrap};

pub(super) fn broadcast_in_dim(operand: &Tensor, op: &BroadcastInDim, result: &Type) -> Tensor {
    let own = strides(&operand.ty.shape);
    let mut steps = vec![0isize; result.rank()];
    for (dim, &target) in op.dims.iter().enumerate() {
        if operand.ty.shape[dim] != 1 {
            steps[target] = own[dim];
        }
    }
    view(operand, result, &steps, 0)
}

pub(super) fn transpose(operand: &Tensor, permutation: &[usize], result: &Type) -> Tensor {
    let own = strides(&operand.ty.shape);
    let steps: Vec<isize> = permutation.iter().map(|&dim| own[dim]).collect();
    view(operand, result, &steps, 0)
}

pub(super) fn slice(operand: &Tensor, op: &Slice, result: &Type) -> Tensor {
    let own = strides(&operand.ty.shape);
    let steps: Vec<isize> = own.iter().zip(&op.strides).map(|(own, &stride)| own * stride as isize).collect();
    let offset: isize = own.iter().zip(&op.start).map(|(own, &start)| own * start as isize).sum();
    view(operand, result, &steps, offset)
}

pub(super) fn reverse(operand: &Tensor, dims: &[usize]) -> Tensor {
    let mut steps = strides(&operand.ty.shape);
    let mut offset = 0;
    for &dim in dims {
        offset += steps[dim] * (operand.ty.shape[dim] as isize - 1);
        steps[dim] = -steps[dim];
    }
    view(operand, &operand.ty, &steps, offset)
}

pub(super) fn reshape(operand: Arc<Tensor>, result: &Type) -> Tensor {
    let mut tensor = into_tensor(operand);
    tensor.ty = result.clone();
    tensor
}

pub(super) fn concatenate(operands: &[Arc<Tensor>], dim: usize, result: &Type) -> Tensor {
    let mut tensor = Tensor::zeros(result);
    let steps = strides(&result.shape);
    let mut position = 0;
    for operand in operands {
        place(&mut tensor, &steps, steps[dim] * position as isize, operand);
        position += operand.ty.shape[dim];
    }
    tensor
}

pub(super) fn pad(operand: &Tensor, value: &Tensor, op: &Pad, result: &Type) -> Tensor {
    let mut tensor = view(value, result, &vec![0; result.rank()], 0);
    let own = strides(&result.shape);
    let source = strides(&operand.ty.shape);
    // The elements that stay: in each dimension a run of the operand's positions.
    let (mut shape, mut offset, mut start) = (Vec::new(), 0isize, 0isize);
    let mut steps = Vec::new();
    for dim in 0..result.rank() {
        let step = op.interior[dim] + 1;
        let low = op.low[dim];
        let first = if low < 0 { (-low + step - 1) / step } else { 0 };
        let room = result.shape[dim] as i64 - low;
        let end = if room <= 0 { 0 } else { (room + step - 1) / step };
        let end = end.min(operand.ty.shape[dim] as i64);
        shape.push((end - first).max(0) as usize);
        start += source[dim] * first as isize;
        offset += own[dim] * (low + first * step) as isize;
        steps.push(own[dim] * step as isize);
    }
    if shape.contains(&0) {
        return tensor;
    }
    let kept = view(operand, &operand.ty.with_shape(&shape), &source, start);
    place(&mut tensor, &steps, offset, &kept);
    tensor
}

pub(super) fn iota(dim: usize, ty: &Type, wide: bool) -> Tensor {
    let size = ty.shape[dim];
    let line = Type::new(ty.dtype, &[size]);
    let mut steps = vec![0; ty.rank()];
    steps[dim] = 1;
    let mut tensor = Tensor::zeros(&line);
    match &mut tensor.data {
        Data::Float(values) => {
            values.iter_mut().enumerate().for_each(|(index, value)| *value = index as f64);
            round(ty.dtype, wide, values);
        }
        Data::Integer(values) => {
            values.iter_mut().enumerate().for_each(|(index, value)| *value = index as i64);
            wrap(ty.dtype, values);
        }
        Data::Raw(bytes) => iota_raw(ty.dtype, bytes),
    }
    view(&tensor, ty, &steps, 0)
}

/// How far apart neighbors along each dimension are in a row-major tensor.
pub(super) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim] as isize;
    }
    strides
}

/// The tensor of type `result` whose element at an index is the operand's at `offset` plus the sum
/// of index times step.
pub(super) fn view(operand: &Tensor, result: &Type, steps: &[isize], offset: isize) -> Tensor {
    let data = match &operand.data {
        Data::Float(source) => Data::Float(walk(source, &result.shape, steps, offset)),
        Data::Integer(source) => Data::Integer(walk(source, &result.shape, steps, offset)),
        Data::Raw(bytes) => {
            let width = result.dtype.stored_bytes().max(1);
            Data::Raw(join(&walk(&split(bytes, width), &result.shape, steps, offset), width))
        }
    };
    Tensor { ty: result.clone(), data }
}

/// Writes all elements of `source` into `target`, at `offset` plus the sum of index times step.
pub(super) fn place(target: &mut Tensor, steps: &[isize], offset: isize, source: &Tensor) {
    let shape = &source.ty.shape;
    match (&mut target.data, &source.data) {
        (Data::Float(target), Data::Float(source)) => scatter_walk(target, source, shape, steps, offset),
        (Data::Integer(target), Data::Integer(source)) => scatter_walk(target, source, shape, steps, offset),
        (Data::Raw(target), Data::Raw(source)) => {
            let width = source.len() / source_elements(shape).max(1);
            let mut elements = split(target, width.max(1));
            scatter_walk(&mut elements, &split(source, width.max(1)), shape, steps, offset);
            *target = join(&elements, width.max(1));
        }
        _ => {}
    }
}

pub(super) fn walk<T: Copy>(source: &[T], shape: &[usize], steps: &[isize], offset: isize) -> Vec<T> {
    let total = source_elements(shape);
    let mut result = Vec::with_capacity(total);
    for_each_row(shape, steps, offset, |start, length, step| {
        let start = start as usize;
        match step {
            1 => result.extend_from_slice(&source[start..start + length]),
            0 => result.extend(std::iter::repeat_n(source[start], length)),
            _ => result.extend((0..length).map(|index| source[(start as isize + index as isize * step) as usize])),
        }
    });
    result
}

pub(super) fn split(bytes: &[u8], width: usize) -> Vec<u128> {
    let element = |chunk: &[u8]| {
        let mut word = [0u8; 16];
        word[..chunk.len()].copy_from_slice(chunk);
        u128::from_le_bytes(word)
    };
    bytes.chunks_exact(width).map(element).collect()
}

pub(super) fn join(elements: &[u128], width: usize) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes().into_iter().take(width)).collect()
}

fn scatter_walk<T: Copy>(target: &mut [T], source: &[T], shape: &[usize], steps: &[isize], offset: isize) {
    let mut position = 0;
    for_each_row(shape, steps, offset, |start, length, step| {
        let row = &source[position..position + length];
        position += length;
        if step == 1 {
            target[start as usize..start as usize + length].copy_from_slice(row);
        } else {
            for (index, &value) in row.iter().enumerate() {
                target[(start + index as isize * step) as usize] = value;
            }
        }
    });
}

/// Calls back with start, length and step of every innermost row, in row-major order.
fn for_each_row(shape: &[usize], steps: &[isize], offset: isize, mut row: impl FnMut(isize, usize, isize)) {
    if shape.contains(&0) {
        return;
    }
    // Dimensions of one element do not move, and neighbors that lie next to each other in the
    // tensor that is walked are one longer dimension.
    let mut sizes: Vec<(usize, isize)> = Vec::with_capacity(shape.len());
    for (&size, &step) in shape.iter().zip(steps) {
        match sizes.last_mut() {
            _ if size == 1 => {}
            Some((length, outer)) if *outer == step * size as isize => (*length, *outer) = (*length * size, step),
            _ => sizes.push((size, step)),
        }
    }
    let (length, step) = sizes.pop().unwrap_or((1, 1));
    let outer = sizes.len();
    let mut index = vec![0usize; outer];
    let mut start = offset;
    loop {
        row(start, length, step);
        let mut dim = outer;
        loop {
            if dim == 0 {
                return;
            }
            dim -= 1;
            index[dim] += 1;
            start += sizes[dim].1;
            if index[dim] < sizes[dim].0 {
                break;
            }
            start -= sizes[dim].1 * sizes[dim].0 as isize;
            index[dim] = 0;
        }
    }
}

fn source_elements(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().product() }
}

/// Counts in a complex type; small floats have no arithmetic, so they stay zero.
fn iota_raw(dtype: DType, bytes: &mut [u8]) {
    let width = dtype.stored_bytes();
    for (index, element) in bytes.chunks_exact_mut(width.max(1)).enumerate() {
        match dtype {
            DType::Complex64 => element[..4].copy_from_slice(&(index as f32).to_le_bytes()),
            DType::Complex128 => element[..8].copy_from_slice(&(index as f64).to_le_bytes()),
            _ => {}
        }
    }
}

/// Complex numbers from their parts. They are carried, so putting them together needs no arithmetic.
pub(super) fn complex(real: &Tensor, imaginary: &Tensor, result: &Type) -> Tensor {
    let width = real.ty.dtype.stored_bytes();
    let (real, imaginary) = (real.to_bytes(), imaginary.to_bytes());
    let mut bytes = Vec::with_capacity(2 * real.len());
    for (real, imaginary) in real.chunks_exact(width).zip(imaginary.chunks_exact(width)) {
        bytes.extend_from_slice(real);
        bytes.extend_from_slice(imaginary);
    }
    Tensor { ty: result.clone(), data: Data::Raw(bytes) }
}

pub(super) fn complex_part(operand: &Tensor, result: &Type, imaginary: bool) -> Tensor {
    let width = result.dtype.stored_bytes();
    let bytes: Vec<u8> = operand
        .to_bytes()
        .chunks_exact(2 * width)
        .flat_map(|pair| if imaginary { pair[width..].to_vec() } else { pair[..width].to_vec() })
        .collect();
    Tensor::from_bytes(result.clone(), &bytes).unwrap_or_else(|| Tensor::zeros(result))
}

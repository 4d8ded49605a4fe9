//! Contractions: matrix products, convolutions, attention.

use crate::program::{Convolution, DType, DotGeneral, Type};

use super::tensor::{Data, Tensor, round, unsupported, wrap};

pub(super) fn dot_general(
    left: &Tensor,
    right: &Tensor,
    op: &DotGeneral,
    result: &Type,
    wide: bool,
) -> Result<Tensor, String> {
    let free = |tensor: &Tensor, batch: &[usize], contract: &[usize]| -> Vec<usize> {
        (0..tensor.ty.rank()).filter(|dim| !batch.contains(dim) && !contract.contains(dim)).collect()
    };
    let left_free = free(left, &op.lhs_batch, &op.lhs_contract);
    let right_free = free(right, &op.rhs_batch, &op.rhs_contract);
    let size = |tensor: &Tensor, dims: &[usize]| dims.iter().map(|&dim| tensor.ty.shape[dim]).product::<usize>();
    let batch = size(left, &op.lhs_batch);
    let (rows, inner, columns) = (size(left, &left_free), size(left, &op.lhs_contract), size(right, &right_free));
    let left = permute(left, &[&op.lhs_batch, &left_free, &op.lhs_contract]);
    let right = permute(right, &[&op.rhs_batch, &op.rhs_contract, &right_free]);
    let data = match (&left.data, &right.data) {
        (Data::Float(left), Data::Float(right)) => {
            let multiply = float_multiply(result.dtype, wide);
            Data::Float(multiply_batches(left, right, [batch, rows, inner, columns], multiply))
        }
        (Data::Integer(left), Data::Integer(right)) => {
            Data::Integer(multiply_batches(left, right, [batch, rows, inner, columns], multiply_integers))
        }
        _ => return Err(unsupported(left.ty.dtype)),
    };
    finish(data, result, wide)
}

pub(super) fn convolution(
    input: &Tensor,
    kernel: &Tensor,
    op: &Convolution,
    result: &Type,
    wide: bool,
) -> Result<Tensor, String> {
    // Channels last, so that a patch is a few contiguous runs.
    let input = permute(input, &[&[op.input_batch], &op.input_spatial, &[op.input_feature]]);
    let kernel = permute(kernel, &[&op.kernel_spatial, &[op.kernel_input_feature], &[op.kernel_output_feature]]);
    let output_dims: Vec<usize> = [&[op.output_batch][..], &op.output_spatial, &[op.output_feature]].concat();
    let shape: Vec<usize> = output_dims.iter().map(|&dim| result.shape[dim]).collect();
    let channels_last = result.with_shape(&shape);
    let mut data = Tensor::zeros(&channels_last).data;
    match (&input.data, &kernel.data, &mut data) {
        (Data::Float(input_values), Data::Float(kernel_values), Data::Float(output)) => convolve(
            (&input.ty.shape, input_values),
            (&kernel.ty.shape, kernel_values),
            (&shape, output),
            op,
            float_multiply(result.dtype, wide),
        ),
        (Data::Integer(input_values), Data::Integer(kernel_values), Data::Integer(output)) => convolve(
            (&input.ty.shape, input_values),
            (&kernel.ty.shape, kernel_values),
            (&shape, output),
            op,
            multiply_integers,
        ),
        _ => return Err(unsupported(input.ty.dtype)),
    }
    let tensor = finish(data, &channels_last, wide)?;
    let mut back = vec![0; result.rank()];
    for (position, &dim) in output_dims.iter().enumerate() {
        back[dim] = position;
    }
    Ok(super::shape::transpose(&tensor, &back, result))
}

/// How a block of rows is multiplied: left (rows, inner), right (inner, columns), added to the
/// result (rows, columns).
type Multiply<T> = fn(&[T], &[T], &mut [T], [usize; 3]);

/// Sums are kept in `f32` for that type and the narrower ones, as engines do.
fn float_multiply(dtype: DType, wide: bool) -> Multiply<f64> {
    if wide || dtype == DType::F64 { multiply_doubles } else { multiply_singles }
}

fn multiply_singles(left: &[f64], right: &[f64], result: &mut [f64], sizes: [usize; 3]) {
    multiply(left, right, result, sizes, |sum, a, b| f64::from(sum as f32 + a as f32 * b as f32));
}

fn multiply_doubles(left: &[f64], right: &[f64], result: &mut [f64], sizes: [usize; 3]) {
    multiply(left, right, result, sizes, |sum, a, b| sum + a * b);
}

fn multiply_integers(left: &[i64], right: &[i64], result: &mut [i64], sizes: [usize; 3]) {
    multiply(left, right, result, sizes, |sum, a, b| sum.wrapping_add(a.wrapping_mul(b)));
}

/// Four rows at a time share each row of the right side; blocks of it stay in cache.
fn multiply<T: Copy>(
    left: &[T],
    right: &[T],
    result: &mut [T],
    [rows, inner, columns]: [usize; 3],
    add: impl Fn(T, T, T) -> T + Copy,
) {
    const INNER_BLOCK: usize = 128;
    const COLUMN_BLOCK: usize = 256;
    if rows == 0 || columns == 0 {
        return;
    }
    for first_column in (0..columns).step_by(COLUMN_BLOCK) {
        let last_column = (first_column + COLUMN_BLOCK).min(columns);
        for first in (0..inner).step_by(INNER_BLOCK) {
            let last = (first + INNER_BLOCK).min(inner);
            for (block, four) in result.chunks_mut(4 * columns).enumerate() {
                let row = 4 * block;
                if four.len() == 4 * columns {
                    let (a, rest) = four.split_at_mut(columns);
                    let (b, rest) = rest.split_at_mut(columns);
                    let (c, d) = rest.split_at_mut(columns);
                    let range = first_column..last_column;
                    let (a, b) = (&mut a[range.clone()], &mut b[range.clone()]);
                    let (c, d) = (&mut c[range.clone()], &mut d[range]);
                    for k in first..last {
                        let right = &right[k * columns + first_column..k * columns + last_column];
                        let weights = [0, 1, 2, 3].map(|offset| left[(row + offset) * inner + k]);
                        let lanes = a.iter_mut().zip(b.iter_mut()).zip(c.iter_mut()).zip(d.iter_mut()).zip(right);
                        for ((((a, b), c), d), &x) in lanes {
                            *a = add(*a, weights[0], x);
                            *b = add(*b, weights[1], x);
                            *c = add(*c, weights[2], x);
                            *d = add(*d, weights[3], x);
                        }
                    }
                } else {
                    for (offset, line) in four.chunks_mut(columns).enumerate() {
                        let line = &mut line[first_column..last_column];
                        for k in first..last {
                            let weight = left[(row + offset) * inner + k];
                            let right = &right[k * columns + first_column..k * columns + last_column];
                            line.iter_mut().zip(right).for_each(|(sum, &x)| *sum = add(*sum, weight, x));
                        }
                    }
                }
            }
        }
    }
}

fn multiply_batches<T: Copy + Default>(
    left: &[T],
    right: &[T],
    [batch, rows, inner, columns]: [usize; 4],
    multiply: Multiply<T>,
) -> Vec<T> {
    let mut result = vec![T::default(); batch * rows * columns];
    for index in 0..batch {
        multiply(
            &left[index * rows * inner..][..rows * inner],
            &right[index * inner * columns..][..inner * columns],
            &mut result[index * rows * columns..][..rows * columns],
            [rows, inner, columns],
        );
    }
    result
}

/// Gathers patches of the input into the rows of a matrix, a few thousand at a time, and multiplies
/// them by the kernel. All tensors have their channels last.
fn convolve<T: Copy + Default>(
    (input_shape, input): (&[usize], &[T]),
    (kernel_shape, kernel): (&[usize], &[T]),
    (output_shape, output): (&[usize], &mut [T]),
    op: &Convolution,
    multiply: Multiply<T>,
) {
    const PATCHES: usize = 2048;
    let spatial = op.input_spatial.len();
    let window = &kernel_shape[..spatial];
    let (group_features, output_features) = (kernel_shape[spatial], kernel_shape[spatial + 1]);
    let input_features = input_shape[spatial + 1];
    let input_sizes = &input_shape[1..=spatial];
    let groups = op.feature_groups.max(op.batch_groups).max(1);
    let columns = output_features / groups;
    let taps: usize = window.iter().product();
    let inner = taps * group_features;
    let positions: usize = output_shape[..=spatial].iter().product();
    if positions == 0 || columns == 0 || inner == 0 {
        return;
    }
    for group in 0..groups {
        // The kernel's columns of this group, contiguous.
        let weights: Vec<T> =
            kernel.chunks_exact(output_features).flat_map(|row| &row[group * columns..][..columns]).copied().collect();
        let feature = if op.feature_groups > 1 { group * group_features } else { 0 };
        let first_batch = if op.batch_groups > 1 { group * output_shape[0] } else { 0 };
        for first in (0..positions).step_by(PATCHES) {
            let rows = PATCHES.min(positions - first);
            let mut patches = vec![T::default(); rows * inner];
            for (row, patch) in patches.chunks_exact_mut(inner).enumerate() {
                let mut remaining = first + row;
                let mut position = vec![0; spatial];
                for dim in (0..spatial).rev() {
                    position[dim] = remaining % output_shape[dim + 1];
                    remaining /= output_shape[dim + 1];
                }
                let batch = first_batch + remaining;
                for (tap, target) in patch.chunks_exact_mut(group_features).enumerate() {
                    if let Some(offset) = source(op, window, input_sizes, &position, tap) {
                        let start = (batch * input_sizes.iter().product::<usize>() + offset) * input_features + feature;
                        target.copy_from_slice(&input[start..start + group_features]);
                    }
                }
            }
            let mut product = vec![T::default(); rows * columns];
            multiply(&patches, &weights, &mut product, [rows, inner, columns]);
            for (row, line) in product.chunks_exact(columns).enumerate() {
                let start = (first + row) * output_features + group * columns;
                output[start..start + columns].copy_from_slice(line);
            }
        }
    }
}

/// Which position of the input a tap of the kernel reads, or `None` in padding and between the
/// elements of a dilated input.
fn source(op: &Convolution, window: &[usize], sizes: &[usize], position: &[usize], tap: usize) -> Option<usize> {
    let (mut remaining, mut offset, mut stride) = (tap, 0, 1);
    for dim in (0..window.len()).rev() {
        let mut step = remaining % window[dim];
        remaining /= window[dim];
        if op.reversal.get(dim) == Some(&true) {
            step = window[dim] - 1 - step;
        }
        let dilated = (position[dim] * op.strides[dim] + step * op.rhs_dilation[dim]) as i64 - op.padding[dim].0;
        let dilation = op.lhs_dilation[dim] as i64;
        if dilated < 0 || dilated % dilation != 0 || dilated / dilation >= sizes[dim] as i64 {
            return None;
        }
        offset += (dilated / dilation) as usize * stride;
        stride *= sizes[dim];
    }
    Some(offset)
}

/// The tensor with its dimensions in the order of the lists.
fn permute(tensor: &Tensor, order: &[&[usize]]) -> Tensor {
    let permutation = order.concat();
    let shape: Vec<usize> = permutation.iter().map(|&dim| tensor.ty.shape[dim]).collect();
    super::shape::transpose(tensor, &permutation, &tensor.ty.with_shape(&shape))
}

/// The tensor of the data, rounded to its type.
pub(super) fn finish(mut data: Data, result: &Type, wide: bool) -> Result<Tensor, String> {
    match &mut data {
        Data::Float(values) if result.dtype.is_float() => round(result.dtype, wide, values),
        Data::Integer(values) if !result.dtype.is_float() => wrap(result.dtype, values),
        Data::Float(_) | Data::Integer(_) | Data::Raw(_) => return Err(unsupported(result.dtype)),
    }
    Ok(Tensor { ty: result.clone(), data })
}

//! Triangular matrices and batch normalisation.

use std::sync::Arc;

use crate::program::{BatchNorm, TransposeA, TriangularSolve, Type};

use super::tensor::{Tensor, round, rounding};

/// The factor of a positive definite matrix; the other triangle is zero. A matrix that is not
/// positive definite gives NaNs.
pub(super) fn cholesky(operand: &Tensor, lower: bool, wide: bool) -> Result<Tensor, String> {
    let values = operand.floats()?;
    let size = operand.ty.shape.last().copied().unwrap_or(1);
    let mut result = vec![0.0; values.len()];
    if size == 0 {
        return Ok(Tensor::float(operand.ty.clone(), result));
    }
    let step = rounding(operand.ty.dtype, wide);
    for (matrix, factor) in values.chunks_exact(size * size).zip(result.chunks_exact_mut(size * size)) {
        // Only the triangle that is asked for is read.
        let at = |row: usize, column: usize| if lower { row * size + column } else { column * size + row };
        for column in 0..size {
            let square =
                (0..column).fold(0.0, |sum, k| step(sum + step(factor[at(column, k)] * factor[at(column, k)])));
            let diagonal = step(step(matrix[at(column, column)] - square).sqrt());
            factor[at(column, column)] = diagonal;
            for row in column + 1..size {
                let product =
                    (0..column).fold(0.0, |sum, k| step(sum + step(factor[at(row, k)] * factor[at(column, k)])));
                factor[at(row, column)] = step(step(matrix[at(row, column)] - product) / diagonal);
            }
        }
    }
    Ok(Tensor::float(operand.ty.clone(), result))
}

/// Solves `op(a) x = b`, or `x op(a) = b`, by substitution.
pub(super) fn triangular_solve(a: &Tensor, b: &Tensor, op: TriangularSolve, wide: bool) -> Result<Tensor, String> {
    let (a_values, b_values) = (a.floats()?, b.floats()?);
    let size = a.ty.shape.last().copied().unwrap_or(1);
    let rank = b.ty.rank();
    let (rows, columns) = (b.ty.shape[rank - 2], b.ty.shape[rank - 1]);
    let mut result = b_values.to_vec();
    let transposed = op.transpose_a != TransposeA::None;
    if size == 0 || rows * columns == 0 {
        return Ok(Tensor::float(b.ty.clone(), result));
    }
    // From the right the equation is that of the transposed matrix from the left.
    let rounded = rounding(b.ty.dtype, wide);
    let flip = transposed == op.left_side;
    let forward = op.lower != flip;
    for (a, x) in a_values.chunks_exact(size * size).zip(result.chunks_exact_mut(rows * columns)) {
        let coefficient =
            |row: usize, column: usize| if flip { a[column * size + row] } else { a[row * size + column] };
        let (right_sides, step, stride) = if op.left_side { (columns, columns, 1) } else { (rows, 1, columns) };
        for side in 0..right_sides {
            for index in 0..size {
                let row = if forward { index } else { size - 1 - index };
                let known = if forward { 0..row } else { row + 1..size };
                let product = |k: usize| rounded(coefficient(row, k) * x[side * stride + k * step]);
                let sum = known.fold(0.0, |sum, k| rounded(sum + product(k)));
                let slot = &mut x[side * stride + row * step];
                *slot = rounded(*slot - sum);
                if !op.unit_diagonal {
                    *slot = rounded(*slot / coefficient(row, row));
                }
            }
        }
    }
    Ok(Tensor::float(b.ty.clone(), result))
}

/// Operands: input, scale, offset. Results: output, mean, variance.
pub(super) fn batch_norm_training(
    operands: &[Arc<Tensor>],
    op: BatchNorm,
    types: &[&Type],
    wide: bool,
) -> Result<Vec<Arc<Tensor>>, String> {
    let (input, scale, offset) = (operands[0].floats()?, operands[1].floats()?, operands[2].floats()?);
    let features = Features::of(&operands[0].ty, op.feature_dim);
    let (mut mean, mut variance) = (vec![0.0; features.count], vec![0.0; features.count]);
    let elements = (input.len() / features.count.max(1)) as f64;
    for (index, value) in input.iter().enumerate() {
        mean[features.of_element(index)] += value / elements;
    }
    for (index, value) in input.iter().enumerate() {
        let feature = features.of_element(index);
        variance[feature] += (value - mean[feature]) * (value - mean[feature]) / elements;
    }
    let output = normalize(input, [scale, offset, &mean, &variance], op, &features);
    finish([output, mean, variance], types, wide)
}

/// Operands: input, scale, offset, mean, variance.
pub(super) fn batch_norm_inference(
    operands: &[Arc<Tensor>],
    op: BatchNorm,
    wide: bool,
) -> Result<Vec<Arc<Tensor>>, String> {
    let input = operands[0].floats()?;
    let features = Features::of(&operands[0].ty, op.feature_dim);
    let parameters = [operands[1].floats()?, operands[2].floats()?, operands[3].floats()?, operands[4].floats()?];
    let mut output = normalize(input, parameters, op, &features);
    round(operands[0].ty.dtype, wide, &mut output);
    Ok(vec![Arc::new(Tensor::float(operands[0].ty.clone(), output))])
}

/// Operands: input, scale, mean, variance, gradient of the output. Results: gradients of input,
/// scale and offset.
pub(super) fn batch_norm_grad(
    operands: &[Arc<Tensor>],
    op: BatchNorm,
    types: &[&Type],
    wide: bool,
) -> Result<Vec<Arc<Tensor>>, String> {
    let (input, scale, mean) = (operands[0].floats()?, operands[1].floats()?, operands[2].floats()?);
    let (variance, output) = (operands[3].floats()?, operands[4].floats()?);
    let features = Features::of(&operands[0].ty, op.feature_dim);
    let elements = (input.len() / features.count.max(1)) as f64;
    let (mut offset_gradient, mut product) = (vec![0.0; features.count], vec![0.0; features.count]);
    for (index, (value, gradient)) in input.iter().zip(output).enumerate() {
        let feature = features.of_element(index);
        offset_gradient[feature] += gradient;
        product[feature] += gradient * (value - mean[feature]);
    }
    let deviation: Vec<f64> = variance.iter().map(|variance| (variance + f64::from(op.epsilon)).sqrt()).collect();
    let scale_gradient: Vec<f64> =
        product.iter().zip(&deviation).map(|(product, deviation)| product / deviation).collect();
    let input_gradient = input
        .iter()
        .zip(output)
        .enumerate()
        .map(|(index, (value, gradient))| {
            let feature = features.of_element(index);
            let square = variance[feature] + f64::from(op.epsilon);
            let centered = (value - mean[feature]) * product[feature] / square;
            scale[feature] / deviation[feature] / elements * (elements * gradient - offset_gradient[feature] - centered)
        })
        .collect();
    finish([input_gradient, scale_gradient, offset_gradient], types, wide)
}

/// Which feature an element belongs to.
struct Features {
    count: usize,
    stride: usize,
}

impl Features {
    fn of(ty: &Type, dim: usize) -> Features {
        Features { count: ty.shape[dim], stride: ty.shape[dim + 1..].iter().product() }
    }

    fn of_element(&self, index: usize) -> usize {
        index / self.stride % self.count
    }
}

fn normalize(
    input: &[f64],
    [scale, offset, mean, variance]: [&[f64]; 4],
    op: BatchNorm,
    features: &Features,
) -> Vec<f64> {
    let value = |(index, value): (usize, &f64)| {
        let feature = features.of_element(index);
        let deviation = (variance[feature] + f64::from(op.epsilon)).sqrt();
        (value - mean[feature]) / deviation * scale[feature] + offset[feature]
    };
    input.iter().enumerate().map(value).collect()
}

fn finish(values: [Vec<f64>; 3], types: &[&Type], wide: bool) -> Result<Vec<Arc<Tensor>>, String> {
    let tensor = |(mut values, &ty): (Vec<f64>, &&Type)| {
        round(ty.dtype, wide, &mut values);
        Arc::new(Tensor::float(ty.clone(), values))
    };
    Ok(values.into_iter().zip(types).map(tensor).collect())
}

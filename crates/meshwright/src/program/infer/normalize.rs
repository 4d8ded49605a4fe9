//! Batch normalization.

use smallvec::smallvec;

use super::Types;
use super::check::{accepts, dim_in_range, is_type, take};
use crate::program::{BatchNorm, Type};

pub(super) fn batch_norm_grad(norm: BatchNorm, operands: &[&Type]) -> Result<Types, String> {
    let [operand, scale, mean, variance, gradient] = take(operands)?;
    let feature = feature_type(norm, operand)?;
    is_type("the scale", scale, &feature)?;
    is_type("the mean", mean, &feature)?;
    is_type("the variance", variance, &feature)?;
    is_type("the gradient", gradient, operand)?;
    Ok(smallvec![operand.clone(), feature.clone(), feature])
}

pub(super) fn batch_norm_inference(norm: BatchNorm, operands: &[&Type]) -> Result<Types, String> {
    let [operand, scale, offset, mean, variance] = take(operands)?;
    let feature = feature_type(norm, operand)?;
    is_type("the scale", scale, &feature)?;
    is_type("the offset", offset, &feature)?;
    is_type("the mean", mean, &feature)?;
    is_type("the variance", variance, &feature)?;
    Ok(smallvec![operand.clone()])
}

pub(super) fn batch_norm_training(norm: BatchNorm, operands: &[&Type]) -> Result<Types, String> {
    let [operand, scale, offset] = take(operands)?;
    let feature = feature_type(norm, operand)?;
    is_type("the scale", scale, &feature)?;
    is_type("the offset", offset, &feature)?;
    Ok(smallvec![operand.clone(), feature.clone(), feature])
}

/// One number per feature.
fn feature_type(norm: BatchNorm, operand: &Type) -> Result<Type, String> {
    accepts(operand, operand.dtype.is_float(), "float")?;
    dim_in_range("feature dimension", norm.feature_dim, operand.rank())?;
    Ok(operand.with_shape(&[operand.shape[norm.feature_dim]]))
}

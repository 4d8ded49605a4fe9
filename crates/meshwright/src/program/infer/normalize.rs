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

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    #[test]
    fn batch_norms() {
        let norm = |feature_dim| BatchNorm { epsilon: 0.0, feature_dim };
        let grad = Op::BatchNormGrad(norm(1));
        check(grad.clone(), "4x3xf32 3xf32 3xf32 3xf32 4x3xf32", &[], "4x3xf32 3xf32 3xf32");
        let message = "error: the gradient must be `tensor<4x3xf32>`, got `tensor<4xf32>`";
        check(grad, "4x3xf32 3xf32 3xf32 3xf32 4xf32", &[], message);
        let inference = |feature_dim| Op::BatchNormInference(norm(feature_dim));
        check(inference(1), "4x3xf32 3xf32 3xf32 3xf32 3xf32", &[], "4x3xf32");
        let message = "error: feature dimension 2 is out of range for rank 2";
        check(inference(2), "4x3xf32 3xf32 3xf32 3xf32 3xf32", &[], message);
        let message = "error: the scale must be `tensor<4xf32>`, got `tensor<3xf32>`";
        check(inference(0), "4x3xf32 3xf32 3xf32 3xf32 3xf32", &[], message);
        let training = Op::BatchNormTraining(norm(1));
        check(training.clone(), "4x3xf32 3xf32 3xf32", &[], "4x3xf32 3xf32 3xf32");
        let message = "error: expected float elements, got `tensor<4x3xi32>`";
        check(training, "4x3xi32 3xi32 3xi32", &[], message);
    }
}

//! Ops that multiply and sum: matrix products and convolutions.

use smallvec::smallvec;

use super::Types;
use super::check::{distinct_dims, has_length, has_rank, other_dims, positive, same_family, take};
use super::window::Windows;
use crate::program::{Convolution, DType, DotGeneral, Precision, Shape, Type};

pub(super) fn convolution(convolution: &Convolution, operands: &[&Type]) -> Result<Types, String> {
    let [input, kernel] = take(operands)?;
    let rank = input.rank();
    let Some(spatial) = rank.checked_sub(2) else {
        return Err(format!("the input must have rank 2 or more, got `{input}`"));
    };
    has_rank("the kernel", kernel, rank)?;
    product_dtype(input, kernel, convolution.dtype)?;
    precision(&convolution.precision)?;
    has_length("window reversal", convolution.reversal.len(), spatial)?;
    for (what, batch, feature, dims) in [
        ("input", convolution.input_batch, convolution.input_feature, &convolution.input_spatial),
        ("kernel", convolution.kernel_input_feature, convolution.kernel_output_feature, &convolution.kernel_spatial),
        ("output", convolution.output_batch, convolution.output_feature, &convolution.output_spatial),
    ] {
        has_length(&format!("{what} spatial dimension"), dims.len(), spatial)?;
        let all = [batch, feature].into_iter().chain(dims.iter().copied());
        distinct_dims(&format!("{what} dimension"), all, rank)?;
    }
    let batch = input.shape[convolution.input_batch];
    let features = input.shape[convolution.input_feature];
    let kernel_features = kernel.shape[convolution.kernel_input_feature];
    let output_features = kernel.shape[convolution.kernel_output_feature];
    let (feature_groups, batch_groups) = (convolution.feature_groups, convolution.batch_groups);
    positive("the number of feature groups", feature_groups)?;
    positive("the number of batch groups", batch_groups)?;
    if feature_groups > 1 && batch_groups > 1 {
        return Err(format!("{feature_groups} feature groups and {batch_groups} batch groups at once"));
    }
    divides("input features", features, "feature groups", feature_groups)?;
    divides("output features", output_features, "feature groups", feature_groups)?;
    divides("batch size", batch, "batch groups", batch_groups)?;
    divides("output features", output_features, "batch groups", batch_groups)?;
    if kernel_features != features / feature_groups {
        return Err(format!(
            "the kernel takes {kernel_features} input features, the input has {features} in {feature_groups} groups"
        ));
    }
    let select = |ty: &Type, dims: &[usize]| -> Shape { dims.iter().map(|&dim| ty.shape[dim]).collect() };
    let windows = Windows {
        sizes: &select(kernel, &convolution.kernel_spatial),
        strides: &convolution.strides,
        base_dilation: &convolution.lhs_dilation,
        window_dilation: &convolution.rhs_dilation,
        padding: &convolution.padding,
    };
    let counts = windows.count(&select(input, &convolution.input_spatial))?;
    let mut result = Type { dtype: convolution.dtype, shape: smallvec![0; rank] };
    result.shape[convolution.output_batch] = batch / batch_groups;
    result.shape[convolution.output_feature] = output_features;
    for (&dim, count) in convolution.output_spatial.iter().zip(counts) {
        result.shape[dim] = count;
    }
    Ok(smallvec![result])
}

pub(super) fn dot_general(dot: &DotGeneral, operands: &[&Type]) -> Result<Types, String> {
    let [left, right] = take(operands)?;
    product_dtype(left, right, dot.dtype)?;
    precision(&dot.precision)?;
    let all = |batch: &[usize], contract: &[usize]| -> Shape { batch.iter().chain(contract).copied().collect() };
    let left_dims = all(&dot.lhs_batch, &dot.lhs_contract);
    let right_dims = all(&dot.rhs_batch, &dot.rhs_contract);
    distinct_dims("left operand dimension", left_dims.iter().copied(), left.rank())?;
    distinct_dims("right operand dimension", right_dims.iter().copied(), right.rank())?;
    paired_dims("batch", left, &dot.lhs_batch, right, &dot.rhs_batch)?;
    paired_dims("contracting", left, &dot.lhs_contract, right, &dot.rhs_contract)?;
    let mut shape: Shape = dot.lhs_batch.iter().map(|&dim| left.shape[dim]).collect();
    for (operand, dims) in [(left, &left_dims), (right, &right_dims)] {
        let free = other_dims(dims.iter().copied(), operand.rank());
        shape.extend(free.iter().map(|&dim| operand.shape[dim]));
    }
    Ok(smallvec![Type { dtype: dot.dtype, shape }])
}

/// Operands of a product may be of different widths in one family, as engines multiply them; the
/// result stays in the family, except that integers may be summed as floats.
fn product_dtype(left: &Type, right: &Type, result: DType) -> Result<(), String> {
    if !same_family(left.dtype, right.dtype) {
        return Err(format!("elements of `{left}` and `{right}` cannot be multiplied"));
    }
    if same_family(left.dtype, result) || (left.dtype.is_integer() && result.is_float()) {
        return Ok(());
    }
    Err(format!("products of `{}` and `{}` cannot be summed in `{result}`", left.dtype, right.dtype))
}

fn precision(precision: &[Precision]) -> Result<(), String> {
    if precision.len() <= 2 {
        return Ok(());
    }
    Err(format!("expected at most 2 precisions, got {}", precision.len()))
}

/// Dimensions of both operands that count together. All of them exist.
fn paired_dims(what: &str, left: &Type, left_dims: &[usize], right: &Type, right_dims: &[usize]) -> Result<(), String> {
    if left_dims.len() != right_dims.len() {
        return Err(format!(
            "the left operand has {} {what} dimensions, the right operand has {}",
            left_dims.len(),
            right_dims.len()
        ));
    }
    for (&left_dim, &right_dim) in left_dims.iter().zip(right_dims) {
        let (left_size, right_size) = (left.shape[left_dim], right.shape[right_dim]);
        if left_size != right_size {
            return Err(format!(
                "{what} dimensions differ: dimension {left_dim} of the left operand has size {left_size}, \
                 dimension {right_dim} of the right operand has size {right_size}"
            ));
        }
    }
    Ok(())
}

fn divides(what: &str, size: usize, groups: &str, count: usize) -> Result<(), String> {
    if size.is_multiple_of(count) {
        Ok(())
    } else {
        Err(format!("{what} {size} cannot be split into {count} {groups}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;
    use smallvec::{SmallVec, smallvec};

    /// Two spatial dimensions, `[b, 0, 1, f] x [0, 1, i, o] -> [b, 0, 1, f]`.
    fn image_convolution() -> Convolution {
        Convolution {
            strides: smallvec![1, 1],
            padding: smallvec![(0, 0), (0, 0)],
            lhs_dilation: smallvec![1, 1],
            rhs_dilation: smallvec![1, 1],
            reversal: smallvec![false, false],
            input_batch: 0,
            input_feature: 3,
            input_spatial: smallvec![1, 2],
            kernel_input_feature: 2,
            kernel_output_feature: 3,
            kernel_spatial: smallvec![0, 1],
            output_batch: 0,
            output_feature: 3,
            output_spatial: smallvec![1, 2],
            feature_groups: 1,
            batch_groups: 1,
            precision: SmallVec::new(),
            dtype: DType::F32,
        }
    }

    #[test]
    fn convolution() {
        let check = |change: fn(&mut Convolution), operands, expected| {
            let mut convolution = image_convolution();
            change(&mut convolution);
            check(Op::Convolution(Box::new(convolution)), operands, &[], expected);
        };
        check(|_| (), "8x32x32x3xf32 3x3x3x16xf32", "8x30x30x16xf32");
        check(|it| it.padding[0] = (1, 1), "8x32x32x3xf32 3x3x3x16xf32", "8x32x30x16xf32");
        check(|it| it.strides[1] = 2, "8x32x32x3xf32 3x3x3x16xf32", "8x30x15x16xf32");
        check(|it| it.lhs_dilation[0] = 2, "8x32x32x3xf32 3x3x3x16xf32", "8x61x30x16xf32");
        check(|it| it.rhs_dilation[0] = 2, "8x32x32x3xf32 3x3x3x16xf32", "8x28x30x16xf32");
        check(|_| (), "8x2x2x3xf32 3x3x3x16xf32", "8x0x0x16xf32");
        check(|it| it.feature_groups = 3, "8x32x32x3xf32 3x3x1x6xf32", "8x30x30x6xf32");
        check(|it| it.batch_groups = 4, "8x32x32x3xf32 3x3x3x16xf32", "2x30x30x16xf32");
        check(|_| (), "8x32x32x3xbf16 3x3x3x16xbf16", "8x30x30x16xf32");
        let message = "error: the kernel takes 4 input features, the input has 3 in 1 groups";
        check(|_| (), "8x32x32x3xf32 3x3x4x16xf32", message);
        let message = "error: input features 3 cannot be split into 2 feature groups";
        check(|it| it.feature_groups = 2, "8x32x32x3xf32 3x3x1x16xf32", message);
        let message = "error: batch size 8 cannot be split into 3 batch groups";
        check(|it| it.batch_groups = 3, "8x32x32x3xf32 3x3x3x16xf32", message);
        let message = "error: the number of batch groups must be positive, got 0";
        check(|it| it.batch_groups = 0, "8x32x32x3xf32 3x3x3x16xf32", message);
        let change: fn(&mut Convolution) = |it| (it.feature_groups, it.batch_groups) = (3, 2);
        check(change, "8x32x32x3xf32 3x3x1x6xf32", "error: 3 feature groups and 2 batch groups at once");
        let message = "error: input dimension 1 is named twice";
        check(|it| it.input_spatial[1] = 1, "8x32x32x3xf32 3x3x3x16xf32", message);
        let message = "error: output dimension 4 is out of range for rank 4";
        check(|it| it.output_batch = 4, "8x32x32x3xf32 3x3x3x16xf32", message);
        let message = "error: expected 2 kernel spatial dimensions, got 1";
        check(|it| it.kernel_spatial.truncate(1), "8x32x32x3xf32 3x3x3x16xf32", message);
        let message = "error: a window stride must be positive, got 0";
        check(|it| it.strides[0] = 0, "8x32x32x3xf32 3x3x3x16xf32", message);
        let message = "error: low padding -9223372036854775808 is beyond 2^60";
        check(|it| it.padding[0] = (i64::MIN, i64::MAX), "8x32x32x3xf32 3x3x3x16xf32", message);
        let message = "error: products of `f32` and `f32` cannot be summed in `i32`";
        check(|it| it.dtype = DType::I32, "8x32x32x3xf32 3x3x3x16xf32", message);
        check(|_| (), "3xf32 3xf32", "error: the input must have rank 2 or more, got `tensor<3xf32>`");
    }

    #[test]
    fn dot_general() {
        let check = |batch: [&[usize]; 2], contract: [&[usize]; 2], dtype, operands, expected| {
            let dot = DotGeneral {
                lhs_batch: Dims::from_slice(batch[0]),
                rhs_batch: Dims::from_slice(batch[1]),
                lhs_contract: Dims::from_slice(contract[0]),
                rhs_contract: Dims::from_slice(contract[1]),
                precision: SmallVec::new(),
                dtype,
            };
            check(Op::DotGeneral(Box::new(dot)), operands, &[], expected);
        };
        let (none, f32): ([&[usize]; 2], _) = ([&[], &[]], DType::F32);
        check([&[0], &[2]], [&[2], &[1]], f32, "7x2x3xbf16 5x3x7xbf16", "7x2x5xf32");
        check(none, none, f32, "2xf32 3xf32", "2x3xf32");
        check(none, [&[0], &[0]], f32, "2xf8E4M3FN 2xf8E5M2", "f32");
        check(none, [&[0], &[0]], DType::F32, "2xi8 2xi8", "f32");
        let message = "error: contracting dimensions differ: dimension 1 of the left operand has size 4, \
                       dimension 0 of the right operand has size 5";
        check(none, [&[1], &[0]], f32, "2x4xf32 5x3xf32", message);
        let message = "error: batch dimensions differ: dimension 0 of the left operand has size 2, \
                       dimension 0 of the right operand has size 5";
        check([&[0], &[0]], none, f32, "2x4xf32 5x3xf32", message);
        let message = "error: the left operand has 1 contracting dimensions, the right operand has 0";
        check(none, [&[1], &[]], f32, "2x4xf32 5x3xf32", message);
        let message = "error: left operand dimension 0 is named twice";
        check([&[0], &[0]], [&[0], &[1]], f32, "2x4xf32 2x2xf32", message);
        let message = "error: right operand dimension 2 is out of range for rank 2";
        check(none, [&[0], &[2]], f32, "2x4xf32 2x2xf32", message);
        let message = "error: elements of `tensor<2xf32>` and `tensor<2xi32>` cannot be multiplied";
        check(none, none, f32, "2xf32 2xi32", message);
        let message = "error: `tensor<4294967296x4294967296xf32>` has more elements than 63 bits can count";
        check(none, none, f32, "4294967296xf32 4294967296xf32", message);
    }
}

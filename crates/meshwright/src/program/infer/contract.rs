//! Ops that multiply and sum: matrix products, convolutions, attention.

use smallvec::smallvec;

use super::Types;
use super::check::{accepts, distinct_dims, has_length, has_rank, other_dims, positive, same_dtype, same_family, take};
use super::window::Windows;
use crate::program::{Attention, Convolution, DType, DotGeneral, Precision, Shape, Type};

pub(super) fn attention(attention: &Attention, operands: &[&Type]) -> Result<Types, String> {
    let (query, key, value, bias) = match (attention.bias, operands) {
        (false, &[query, key, value]) => (query, key, value, None),
        (true, &[query, key, value, bias]) => (query, key, value, Some(bias)),
        (bias, _) => return Err(format!("expected {} operands, got {}", 3 + usize::from(bias), operands.len())),
    };
    accepts(query, query.dtype.is_float(), "float")?;
    for (what, operand) in [("the query", query), ("the key", key), ("the value", value)] {
        has_rank(what, operand, 4)?;
        same_dtype(query, operand)?;
    }
    let [batch, heads, queries] = [query.shape[0], query.shape[1], query.shape[2]];
    let [groups, keys, depth] = [value.shape[1], value.shape[2], value.shape[3]];
    if key.shape[..3] != value.shape[..3] {
        return Err(format!("the key `{key}` and the value `{value}` differ in batch, groups or keys"));
    }
    if query.shape[0] != key.shape[0] || query.shape[3] != key.shape[3] {
        return Err(format!("the query `{query}` and the key `{key}` differ in batch or width"));
    }
    if groups == 0 || heads % groups != 0 {
        return Err(format!("{heads} heads cannot share {groups} groups of keys"));
    }
    let scores = Type::new(DType::F32, &[batch, heads, queries, keys]);
    super::countable(&scores)?;
    if let Some(bias) = bias {
        has_rank("the bias", bias, 4)?;
        let fits = bias.shape.iter().zip(&scores.shape).all(|(&size, &score)| size == 1 || size == score);
        if !fits || (bias.dtype != query.dtype && bias.dtype != DType::Bool) {
            let expected = scores.with_dtype(query.dtype);
            return Err(format!("the bias `{bias}` does not broadcast to the scores `{expected}`"));
        }
    }
    Ok(smallvec![query.with_shape(&[batch, heads, queries, depth])])
}

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
        has_length(&format!("{what} spatial dimensions"), dims.len(), spatial)?;
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
    distinct_dims("dimension of the left operand", left_dims.iter().copied(), left.rank())?;
    distinct_dims("dimension of the right operand", right_dims.iter().copied(), right.rank())?;
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

//! Ops that fold elements with a region.

use smallvec::smallvec;

use super::check::{
    at_least, distinct_dims, is_type, other_dims, positive, reduction_dtypes, region_types, same_dtype, same_shape,
    take, take_regions,
};
use super::window::Windows;
use super::{Signature, Types};
use crate::program::{DType, SelectAndScatter, Shape, Type, Window};

pub(super) fn reduce(dims: &[usize], operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    let inputs = inputs_and_initial_values(operands)?;
    let rank = inputs[0].rank();
    distinct_dims("dimension", dims.iter().copied(), rank)?;
    let [region] = take_regions(regions)?;
    let dtypes = reduction_dtypes(region, inputs)?;
    let kept = other_dims(dims.iter().copied(), rank);
    let shape: Shape = kept.iter().map(|&dim| inputs[0].shape[dim]).collect();
    Ok(dtypes.iter().map(|&dtype| Type::new(dtype, &shape)).collect())
}

pub(super) fn reduce_window(window: &Window, operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    let inputs = inputs_and_initial_values(operands)?;
    for &size in &window.sizes {
        positive("a window size", size)?;
    }
    let windows = Windows {
        sizes: &window.sizes,
        strides: &window.strides,
        base_dilation: &window.base_dilation,
        window_dilation: &window.window_dilation,
        padding: &window.padding,
    };
    let shape = windows.count(&inputs[0].shape)?;
    let [region] = take_regions(regions)?;
    let dtypes = reduction_dtypes(region, inputs)?;
    Ok(dtypes.iter().map(|&dtype| Type::new(dtype, &shape)).collect())
}

pub(super) fn select_and_scatter(
    scatter: &SelectAndScatter,
    operands: &[&Type],
    regions: &[Signature<'_>],
) -> Result<Types, String> {
    let [operand, source, initial] = take(operands)?;
    is_type("the initial value", initial, &Type::scalar(operand.dtype))?;
    same_dtype(operand, source)?;
    for &size in &scatter.window {
        positive("a window size", size)?;
    }
    let ones: Shape = smallvec![1; operand.rank()];
    let windows = Windows {
        sizes: &scatter.window,
        strides: &scatter.strides,
        base_dilation: &ones,
        window_dilation: &ones,
        padding: &scatter.padding,
    };
    let expected = operand.with_shape(&windows.count(&operand.shape)?);
    is_type("the source", source, &expected)?;
    let [select, scatter] = take_regions(regions)?;
    let scalar = Type::scalar(operand.dtype);
    region_types("argument of the select region", &select.arguments, [&scalar, &scalar].into_iter())?;
    let decision = Type::scalar(DType::Bool);
    region_types("result of the select region", &select.results, [&decision].into_iter())?;
    let dtypes = reduction_dtypes(scatter, &[operand])?;
    Ok(dtypes.iter().map(|&dtype| operand.with_dtype(dtype)).collect())
}

/// The first half of the operands are tensors of one shape, the second half their initial values.
fn inputs_and_initial_values<'o, 't>(operands: &'o [&'t Type]) -> Result<&'o [&'t Type], String> {
    at_least(operands, 2)?;
    if !operands.len().is_multiple_of(2) {
        return Err(format!("expected as many initial values as inputs, got {} operands", operands.len()));
    }
    let (inputs, initial_values) = operands.split_at(operands.len() / 2);
    for (index, (input, initial)) in inputs.iter().zip(initial_values).enumerate() {
        same_shape(inputs[0], input)?;
        is_type(&format!("initial value {index}"), initial, &Type::scalar(input.dtype))?;
    }
    Ok(inputs)
}

//! Ops that fold elements with a region.

use smallvec::smallvec;

use super::check::{
    at_least, distinct_dims, is_type, other_dims, positive, reduction_dtypes, region_arguments, region_results,
    same_dtype, same_shape, take, take_regions,
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
    region_arguments("the select region", select, [&scalar, &scalar].into_iter())?;
    let decision = Type::scalar(DType::Bool);
    region_results("the select region", select, [&decision].into_iter())?;
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

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;
    use smallvec::smallvec;

    #[test]
    fn reduce() {
        let check = |dims: &[usize], operands, regions, expected| {
            check(Op::Reduce { dims: Dims::from_slice(dims) }, operands, regions, expected);
        };
        check(&[1], "2x3x4xf32 f32", &["f32 f32 -> f32"], "2x4xf32");
        check(&[2, 0], "2x3x4xbf16 bf16", &["f32 f32 -> f32"], "3xf32");
        check(&[0], "2xf32 2xi32 f32 i32", &["f32 i32 f32 i32 -> f32 i32"], "f32 i32");
        check(&[0, 0], "2x3xf32 f32", &[], "error: dimension 0 is named twice");
        check(&[2], "2x3xf32 f32", &[], "error: dimension 2 is out of range for rank 2");
        check(&[], "", &[], "error: expected at least 2 operands, got 0");
        let message = "error: expected as many initial values as inputs, got 3 operands";
        check(&[], "f32 f32 f32", &[], message);
        let message = "error: initial value 0 must be `tensor<f32>`, got `tensor<i32>`";
        check(&[0], "2xf32 i32", &[], message);
        check(&[0], "2xf32 f32", &[], "error: expected 1 region, got 0");
        check(&[0], "2xf32 f32", &["f32 f32 ->"], "error: expected 1 result of the region, got 0");
        let message = "error: result 0 of the region must be a scalar, got `tensor<2xf32>`";
        check(&[0], "2xf32 f32", &["f32 f32 -> 2xf32"], message);
        let message = "error: elements of `tensor<2xf32>` cannot be accumulated in `i64`";
        check(&[0], "2xf32 f32", &["i64 i64 -> i64"], message);
        let message = "error: argument 1 of the region must be `tensor<f32>`, got `tensor<bf16>`";
        check(&[0], "2xf32 f32", &["f32 bf16 -> f32"], message);
    }

    #[test]
    fn reduce_window() {
        let check = |change: fn(&mut Window), operands, expected| {
            let mut window = Window {
                sizes: smallvec![2],
                strides: smallvec![1],
                base_dilation: smallvec![1],
                window_dilation: smallvec![1],
                padding: smallvec![(0, 0)],
            };
            change(&mut window);
            check(Op::ReduceWindow(Box::new(window)), operands, &["f32 f32 -> f32"], expected);
        };
        check(|_| (), "5xf32 f32", "4xf32");
        check(|it| it.strides[0] = 2, "5xf32 f32", "2xf32");
        check(|it| it.base_dilation[0] = 3, "5xf32 f32", "12xf32");
        check(|it| it.window_dilation[0] = 3, "5xf32 f32", "2xf32");
        check(|it| it.padding[0] = (1, 2), "5xf32 f32", "7xf32");
        check(|it| it.padding[0] = (-3, -3), "5xf32 f32", "0xf32");
        check(|it| it.sizes[0] = 6, "5xf32 f32", "0xf32");
        check(|_| (), "5xbf16 bf16", "4xf32");
        check(|it| it.sizes[0] = 0, "5xf32 f32", "error: a window size must be positive, got 0");
        check(|it| it.strides[0] = 0, "5xf32 f32", "error: a window stride must be positive, got 0");
        check(|it| it.base_dilation[0] = 0, "5xf32 f32", "error: a base dilation must be positive, got 0");
        check(|it| it.window_dilation[0] = 0, "5xf32 f32", "error: a window dilation must be positive, got 0");
        check(|_| (), "5x5xf32 f32", "error: expected 2 window sizes, got 1");
        check(|it| it.padding.clear(), "5xf32 f32", "error: expected 1 window padding, got 0");
        let message = "error: high padding 9223372036854775807 is beyond 2^60";
        check(|it| it.padding[0] = (0, i64::MAX), "5xf32 f32", message);
        let message = "error: dilated size 4611686018427387905 is beyond 2^60";
        check(|it| it.base_dilation[0] = 1 << 60, "5xf32 f32", message);
        let message = "error: dilated window size 18446744073709551615 is beyond 2^60";
        check(|it| it.sizes[0] = usize::MAX, "5xf32 f32", message);
    }

    #[test]
    fn select_and_scatter() {
        let check = |operands, regions, expected| {
            let scatter = SelectAndScatter { window: smallvec![3], strides: smallvec![2], padding: smallvec![(0, 1)] };
            check(Op::SelectAndScatter(Box::new(scatter)), operands, regions, expected);
        };
        let regions = &["f32 f32 -> i1", "f32 f32 -> f32"];
        check("4xf32 2xf32 f32", regions, "4xf32");
        check("4xbf16 2xbf16 bf16", &["bf16 bf16 -> i1", "f32 f32 -> f32"], "4xf32");
        check("4xf32 3xf32 f32", regions, "error: the source must be `tensor<2xf32>`, got `tensor<3xf32>`");
        check("4xf32 2xf32 i32", regions, "error: the initial value must be `tensor<f32>`, got `tensor<i32>`");
        check("4xf32 2xf32 f32", &["f32 f32 -> i1"], "error: expected 2 regions, got 1");
        let message = "error: result 0 of the select region must be `tensor<i1>`, got `tensor<f32>`";
        check("4xf32 2xf32 f32", &["f32 f32 -> f32", "f32 f32 -> f32"], message);
    }
}

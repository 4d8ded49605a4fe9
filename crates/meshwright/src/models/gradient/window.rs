//! Gradients of reductions over dimensions and over windows.

use smallvec::SmallVec;

use super::rules::Rule;
use crate::program::{Binary, Dims, Direction, Op, SelectAndScatter, Window};

/// Sums, products, maxima and minima of one operand.
pub(super) fn reduce(rule: &mut Rule<'_>, dims: &[usize]) -> Result<(), String> {
    if rule.operation.operands.len() != 2 {
        return Err(rule.refusal(" with several operands"));
    }
    let kind = rule.builder.program.applied_binary(rule.operation.regions[0]);
    let (operand, result, gradient) = (rule.operand(0), rule.result(0), rule.gradient);
    let shape = rule.builder.shape(operand);
    let kept: Dims = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
    let spread = rule.builder.broadcast(gradient, &shape, &kept);
    match kind {
        Some(Binary::Add) => rule.give(0, spread),
        Some(Binary::Maximum | Binary::Minimum) => {
            // The elements that are the maximum share the gradient.
            let b = &mut *rule.builder;
            let largest = b.broadcast(result, &shape, &kept);
            let is_largest = b.compare(Direction::Equal, operand, largest);
            let dtype = b.dtype(operand);
            let marks = b.convert(is_largest, dtype);
            let count = b.sum(marks, dims);
            let count = b.broadcast(count, &shape, &kept);
            let share = b.over(spread, count);
            let share = b.times(share, marks);
            rule.give(0, share);
        }
        Some(Binary::Multiply) => {
            let b = &mut *rule.builder;
            let product = b.broadcast(result, &shape, &kept);
            let others = b.over(product, operand);
            let share = b.times(spread, others);
            rule.give(0, share);
        }
        _ => return Err(rule.refusal(" where it does not add, multiply or take the largest or smallest")),
    }
    if rule.wants(1) && kind == Some(Binary::Add) {
        let all: Dims = (0..rule.builder.shape(gradient).len()).collect();
        let sum = rule.builder.sum(gradient, &all);
        rule.give(1, sum);
    }
    Ok(())
}

/// Sums, and maxima and minima without dilation.
pub(super) fn reduce_window(rule: &mut Rule<'_>, op: &Window) -> Result<(), String> {
    if rule.operation.operands.len() != 2 {
        return Err(rule.refusal(" with several operands"));
    }
    match rule.builder.program.applied_binary(rule.operation.regions[0]) {
        Some(Binary::Add) => sum_of_windows(rule, op),
        Some(Binary::Maximum) => chosen_of_windows(rule, op, Direction::GreaterOrEqual)?,
        Some(Binary::Minimum) => chosen_of_windows(rule, op, Direction::LessOrEqual)?,
        _ => return Err(rule.refusal(" where it does not add or take the largest or smallest")),
    }
    Ok(())
}

/// Each element gets the gradients of the windows it is in: a sum over windows again, of the
/// gradients spread as far apart as the windows were.
fn sum_of_windows(rule: &mut Rule<'_>, op: &Window) {
    let shape = rule.builder.shape(rule.operand(0));
    let result = rule.builder.shape(rule.gradient);
    let rank = shape.len();
    let extent = |dim: usize| (op.sizes[dim] as i64 - 1) * op.window_dilation[dim] as i64;
    let padding: SmallVec<[(i64, i64); 4]> = (0..rank)
        .map(|dim| {
            let low = extent(dim) - op.padding[dim].0;
            let spread = (result[dim] as i64 - 1) * op.strides[dim] as i64 + 1;
            let dilated = (shape[dim] as i64 - 1) * op.base_dilation[dim] as i64 + 1;
            // As many windows as the dilated operand has places.
            (low, dilated + extent(dim) - low - spread)
        })
        .collect();
    let window = Window {
        sizes: op.sizes.clone(),
        strides: op.base_dilation.clone(),
        base_dilation: op.strides.clone(),
        window_dilation: op.window_dilation.clone(),
        padding,
    };
    let dtype = rule.builder.dtype(rule.gradient);
    let zero = rule.builder.scalar(dtype, 0.0);
    let region = rule.builder.reducer(Binary::Add, dtype);
    let summed = rule.builder.op(Op::ReduceWindow(Box::new(window)), &[rule.gradient, zero], &[region])[0];
    rule.give(0, summed);
}

/// Each window's gradient goes to the element it chose.
fn chosen_of_windows(rule: &mut Rule<'_>, op: &Window, direction: Direction) -> Result<(), String> {
    if op.base_dilation.iter().chain(&op.window_dilation).any(|&dilation| dilation != 1) {
        return Err(rule.refusal(" with dilation"));
    }
    let dtype = rule.builder.dtype(rule.gradient);
    let zero = rule.builder.scalar(dtype, 0.0);
    let select = rule.builder.program.add_region();
    let scalar = crate::program::Type::scalar(dtype);
    let left = rule.builder.program.add_region_argument(select, scalar.clone());
    let right = rule.builder.program.add_region_argument(select, scalar);
    let chosen = rule.builder.inside(select, |builder| builder.compare(direction, left, right));
    rule.builder.program.regions[select].results = vec![chosen];
    let scatter = rule.builder.reducer(Binary::Add, dtype);
    let op = SelectAndScatter { window: op.sizes.clone(), strides: op.strides.clone(), padding: op.padding.clone() };
    let operands = [rule.operand(0), rule.gradient, zero];
    let placed = rule.builder.op(Op::SelectAndScatter(Box::new(op)), &operands, &[select, scatter])[0];
    rule.give(0, placed);
    Ok(())
}

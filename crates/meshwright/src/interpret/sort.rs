//! Sorting and selecting the largest.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::program::{Direction, Op, Operation, Order, Program, RegionId, Type};

use super::control::Machine;
use super::index::{read, take};
use super::lanes::Function;
use super::shape::strides;
use super::tensor::{Data, Tensor, unsupported};

/// Always stable: that is allowed where it is not asked for.
pub(super) fn sort<'p>(
    machine: &mut Machine<'p>,
    operation: &'p Operation,
    operands: &[Arc<Tensor>],
    dim: usize,
) -> Result<Vec<Arc<Tensor>>, String> {
    let shape = &operands[0].ty.shape;
    let length = shape.get(dim).copied().unwrap_or(1);
    let stride = strides(shape).get(dim).map_or(1, |&stride| stride as usize);
    let region = operation.regions[0];
    let native = native_comparison(machine.program, region);
    let mut function = Function::new(machine, region, 1);
    let types: Vec<&Type> = operands.iter().flat_map(|operand| [&operand.ty, &operand.ty]).collect();
    let scalar = |operand: &Arc<Tensor>| Tensor::zeros(&Type::scalar(operand.ty.dtype)).data;
    let mut arguments: Vec<Data> = operands.iter().flat_map(|operand| [scalar(operand), scalar(operand)]).collect();
    let mut flag = Data::Integer(vec![0]);
    let mut positions: Vec<usize> = (0..operands[0].ty.elements()).collect();
    let lines = operands[0].ty.elements() / length.max(1);
    for line in 0..lines {
        let start = line / stride * stride * length + line % stride;
        let mut order: Vec<usize> = (0..length).map(|index| start + index * stride).collect();
        match native {
            Some((operand, direction, total)) => {
                let before = native_before(&operands[operand], direction, total)?;
                merge_sort(&mut order, &mut |a, b| Ok(before(a, b)))?;
            }
            None => merge_sort(&mut order, &mut |a, b| {
                for (operand, pair) in operands.iter().zip(arguments.chunks_exact_mut(2)) {
                    read(operand, a, &mut pair[0]);
                    read(operand, b, &mut pair[1]);
                }
                let inputs: Vec<&Data> = arguments.iter().collect();
                function.call(machine, &inputs, &types, &mut [&mut flag])?;
                Ok(matches!(&flag, Data::Integer(flags) if flags[0] != 0))
            })?,
        }
        for (index, &position) in order.iter().enumerate() {
            positions[start + index * stride] = position;
        }
    }
    Ok(operands.iter().map(|operand| Arc::new(take(operand, &positions, &operand.ty))).collect())
}

/// The `k` largest along the last dimension, largest first, equal ones by position. Floats are in
/// total order: a NaN is above infinity, or below minus infinity where its sign is set.
pub(super) fn top_k(operand: &Tensor, k: usize, types: &[&Type]) -> Result<Vec<Arc<Tensor>>, String> {
    let length = operand.ty.shape.last().copied().unwrap_or(1);
    let mut positions = Vec::with_capacity(types[0].elements());
    let mut indices = Vec::with_capacity(types[0].elements());
    for line in 0..operand.ty.elements() / length.max(1) {
        let start = line * length;
        let mut order: Vec<usize> = (start..start + length).collect();
        match &operand.data {
            Data::Float(values) => order.sort_by(|&a, &b| values[b].total_cmp(&values[a])),
            Data::Integer(values) if operand.ty.dtype.is_signed() => {
                order.sort_by_key(|&at| std::cmp::Reverse(values[at]));
            }
            Data::Integer(values) => order.sort_by_key(|&at| std::cmp::Reverse(values[at] as u64)),
            Data::Raw(_) => return Err(unsupported(operand.ty.dtype)),
        }
        positions.extend(&order[..k.min(length)]);
        indices.extend(order[..k.min(length)].iter().map(|position| (position - start) as i64));
    }
    Ok(vec![Arc::new(take(operand, &positions, types[0])), Arc::new(Tensor::integer(types[1].clone(), indices))])
}

/// The region is one comparison of the two elements of one operand: which, and how.
fn native_comparison(program: &Program, region: RegionId) -> Option<(usize, Direction, bool)> {
    let region = &program.regions[region];
    let (&[op], &[result]) = (&region.ops[..], &region.results[..]) else { return None };
    let operation = &program.ops[op];
    let Op::Compare { direction, order } = operation.op else { return None };
    if operation.results[..] != [result] {
        return None;
    }
    let argument = |index: usize| region.arguments.iter().position(|&value| value == operation.operands[index]);
    let (left, right) = (argument(0)?, argument(1)?);
    if left / 2 != right / 2 || left == right {
        return None;
    }
    let direction = if left < right { direction } else { flipped(direction) };
    Some((left / 2, direction, order == Order::TotalOrder))
}

fn flipped(direction: Direction) -> Direction {
    match direction {
        Direction::GreaterOrEqual => Direction::LessOrEqual,
        Direction::Greater => Direction::Less,
        Direction::LessOrEqual => Direction::GreaterOrEqual,
        Direction::Less => Direction::Greater,
        Direction::Equal | Direction::NotEqual => direction,
    }
}

fn native_before<'t>(
    tensor: &'t Tensor,
    direction: Direction,
    total: bool,
) -> Result<Box<dyn Fn(usize, usize) -> bool + 't>, String> {
    let signed = tensor.ty.dtype.is_signed();
    let order: Box<dyn Fn(usize, usize) -> Option<Ordering> + 't> = match &tensor.data {
        Data::Float(values) if total => Box::new(|a, b| Some(values[a].total_cmp(&values[b]))),
        Data::Float(values) => Box::new(|a, b| values[a].partial_cmp(&values[b])),
        Data::Integer(values) if signed => Box::new(|a, b| Some(values[a].cmp(&values[b]))),
        Data::Integer(values) => Box::new(|a, b| Some((values[a] as u64).cmp(&(values[b] as u64)))),
        Data::Raw(_) => return Err(unsupported(tensor.ty.dtype)),
    };
    Ok(Box::new(move |a, b| match direction {
        Direction::Equal => order(a, b) == Some(Ordering::Equal),
        Direction::GreaterOrEqual => order(a, b).is_some_and(Ordering::is_ge),
        Direction::Greater => order(a, b) == Some(Ordering::Greater),
        Direction::LessOrEqual => order(a, b).is_some_and(Ordering::is_le),
        Direction::Less => order(a, b) == Some(Ordering::Less),
        Direction::NotEqual => order(a, b) != Some(Ordering::Equal),
    }))
}

/// The standard sorts may panic where the comparison is no order (NaNs, or a region that is plainly
/// wrong), so we merge by hand.
fn merge_sort(
    items: &mut Vec<usize>,
    before: &mut dyn FnMut(usize, usize) -> Result<bool, String>,
) -> Result<(), String> {
    let mut width = 1;
    let mut target = items.clone();
    while width < items.len() {
        for start in (0..items.len()).step_by(2 * width) {
            let (middle, end) = ((start + width).min(items.len()), (start + 2 * width).min(items.len()));
            let (mut left, mut right) = (start, middle);
            for slot in &mut target[start..end] {
                let from_right = right < end && (left >= middle || before(items[right], items[left])?);
                let source = if from_right { &mut right } else { &mut left };
                *slot = items[*source];
                *source += 1;
            }
        }
        std::mem::swap(items, &mut target);
        width *= 2;
    }
    Ok(())
}

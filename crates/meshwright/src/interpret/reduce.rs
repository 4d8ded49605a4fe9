//! Reductions over whole dimensions.

use std::sync::Arc;

use crate::program::{Binary, DType, Operation, RegionId, Type};

use super::control::Machine;
use super::elementwise::{binary_integer, maximum, minimum};
use super::lanes::{Function, Simple, simple};
use super::shape::{strides, view};
use super::tensor::{Data, Tensor, rounding};

/// Reduces in row-major order of the reduced dimensions, all results side by side. Each step is
/// rounded to the element type, since it is an op of that type.
pub(super) fn reduce<'p>(
    machine: &mut Machine<'p>,
    operation: &'p Operation,
    operands: &[Arc<Tensor>],
    dims: &[usize],
) -> Result<Vec<Arc<Tensor>>, String> {
    let count = operands.len() / 2;
    let (inputs, initial) = operands.split_at(count);
    let program = machine.program;
    let wide = machine.options.wide;
    let shape = &inputs[0].ty.shape;
    let kept: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
    let mut reduced: Vec<usize> = dims.to_vec();
    reduced.sort_unstable();
    let lanes: usize = kept.iter().map(|&dim| shape[dim]).product();
    let steps: usize = reduced.iter().map(|&dim| shape[dim]).product();
    // Reduced dimensions outermost, so that each step reads one contiguous row.
    let rows: Vec<Tensor> = inputs.iter().map(|input| outermost(input, &reduced, &kept)).collect();
    let mut sums: Vec<Tensor> = operation
        .results
        .iter()
        .zip(initial)
        .map(|(&result, initial)| view(initial, program.ty(result), &vec![0; kept.len()], 0))
        .collect();
    let region = operation.regions[0];
    if let ([sum], [row], Some(Simple::Combine(binary))) = (&mut sums[..], &rows[..], simple(program, region))
        && sum.ty.dtype == row.ty.dtype
        && reduce_simple(sum, row, binary, lanes, steps, wide)?
    {
        return Ok(sums.into_iter().map(Arc::new).collect());
    }
    let mut function = Function::new(machine, region, lanes);
    let types: Vec<Type> = sums.iter().chain(&rows).map(|tensor| tensor.ty.clone()).collect();
    let types: Vec<&Type> = types.iter().collect();
    let mut next: Vec<Data> = sums.iter().map(|sum| sum.data.clone()).collect();
    for step in 0..steps {
        let lines: Vec<Data> = rows.iter().map(|row| line(row, step, lanes)).collect();
        let inputs: Vec<&Data> = sums.iter().map(|sum| &sum.data).chain(&lines).collect();
        let mut outputs: Vec<&mut Data> = next.iter_mut().collect();
        function.call(machine, &inputs, &types, &mut outputs)?;
        for (sum, next) in sums.iter_mut().zip(&mut next) {
            std::mem::swap(&mut sum.data, next);
        }
    }
    Ok(sums.into_iter().map(Arc::new).collect())
}

/// Reduces tensors of one shape element by element, in their order and without an initial value. As in
/// `reduce`, each step is rounded to the element type.
pub(super) fn combine<'p>(
    machine: &mut Machine<'p>,
    region: RegionId,
    parts: &[&Arc<Tensor>],
    result: &Type,
) -> Result<Arc<Tensor>, String> {
    let Some((first, rest)) = parts.split_first() else { return Err("there is nothing to reduce".to_owned()) };
    if rest.is_empty() && &first.ty == result {
        return Ok(Arc::clone(first));
    }
    let program = machine.program;
    let wide = machine.options.wide;
    let lanes = result.elements();
    // A wider result holds the same numbers, so only the type is another.
    let mut sum = Tensor { ty: result.clone(), data: first.data.clone() };
    let binary = match simple(program, region) {
        Some(Simple::Combine(binary)) if first.ty.dtype == result.dtype => Some(binary),
        _ => None,
    };
    let types: Vec<&Type> = program.regions[region].arguments.iter().map(|&value| program.ty(value)).collect();
    let mut general: Option<(Function<'p>, Data)> = None;
    for part in rest {
        if let Some(binary) = binary
            && reduce_simple(&mut sum, part, binary, lanes, 1, wide)?
        {
            continue;
        }
        let (function, next) = general.get_or_insert_with(|| (Function::new(machine, region, lanes), sum.data.clone()));
        function.call(machine, &[&sum.data, &part.data], &types, &mut [&mut *next])?;
        std::mem::swap(&mut sum.data, next);
    }
    Ok(Arc::new(sum))
}

/// One row of lanes.
pub(super) fn line(tensor: &Tensor, index: usize, lanes: usize) -> Data {
    match &tensor.data {
        Data::Float(values) => Data::Float(values[index * lanes..][..lanes].to_vec()),
        Data::Integer(values) => Data::Integer(values[index * lanes..][..lanes].to_vec()),
        Data::Raw(bytes) => {
            let width = tensor.ty.dtype.stored_bytes() * lanes;
            Data::Raw(bytes[index * width..][..width].to_vec())
        }
    }
}

/// Whether the reduction was one of those that need no call.
fn reduce_simple(
    sum: &mut Tensor,
    rows: &Tensor,
    binary: Binary,
    lanes: usize,
    steps: usize,
    wide: bool,
) -> Result<bool, String> {
    let dtype = sum.ty.dtype;
    match (&mut sum.data, &rows.data) {
        (Data::Float(sums), Data::Float(rows)) => {
            let step = rounding(dtype, wide);
            match binary {
                Binary::Add if dtype == DType::F32 && !wide => {
                    fold(sums, rows, lanes, steps, |sum, x| f64::from((sum + x) as f32));
                }
                Binary::Add => fold(sums, rows, lanes, steps, |sum, x| step(sum + x)),
                Binary::Multiply => fold(sums, rows, lanes, steps, |sum, x| step(sum * x)),
                Binary::Maximum => fold(sums, rows, lanes, steps, maximum),
                Binary::Minimum => fold(sums, rows, lanes, steps, minimum),
                _ => return Ok(false),
            }
        }
        (Data::Integer(sums), Data::Integer(rows)) => {
            if lanes > 0 {
                for row in rows.chunks_exact(lanes).take(steps) {
                    binary_integer(binary, dtype, sums, row)?;
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn fold(sums: &mut [f64], rows: &[f64], lanes: usize, steps: usize, combine: impl Fn(f64, f64) -> f64) {
    if lanes == 1 {
        sums[0] = rows.iter().take(steps).fold(sums[0], |sum, &x| combine(sum, x));
    } else if lanes > 0 {
        for row in rows.chunks_exact(lanes).take(steps) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum = combine(*sum, x));
        }
    }
}

fn outermost(tensor: &Tensor, reduced: &[usize], kept: &[usize]) -> Tensor {
    let own = strides(&tensor.ty.shape);
    let order: Vec<usize> = reduced.iter().chain(kept).copied().collect();
    let shape: Vec<usize> = order.iter().map(|&dim| tensor.ty.shape[dim]).collect();
    let steps: Vec<isize> = order.iter().map(|&dim| own[dim]).collect();
    view(tensor, &tensor.ty.with_shape(&shape), &steps, 0)
}

//! Reductions over sliding windows.

use std::sync::Arc;

use crate::program::{Binary, Operation, SelectAndScatter, Type, Window};

use super::control::Machine;
use super::elementwise::{maximum, minimum};
use super::index::{for_each_index, read, write};
use super::lanes::{Function, Simple, simple};
use super::shape::{strides, view};
use super::tensor::{Data, Tensor, rounding};

/// Padding and the gaps of a dilated input count as the initial value, as in the specification.
pub(super) fn reduce_window<'p>(
    machine: &mut Machine<'p>,
    operation: &'p Operation,
    operands: &[Arc<Tensor>],
    op: &Window,
) -> Result<Vec<Arc<Tensor>>, String> {
    let (inputs, initial) = operands.split_at(operands.len() / 2);
    let program = machine.program;
    let result = program.ty(operation.results[0]);
    let rank = result.rank();
    let lanes = result.elements();
    let mut sums: Vec<Tensor> = operation
        .results
        .iter()
        .zip(initial)
        .map(|(&value, initial)| view(initial, program.ty(value), &vec![0; rank], 0))
        .collect();
    let region = operation.regions[0];
    let dilated = |dim: usize, at: usize, tap: usize| {
        let position = (at * op.strides[dim] + tap * op.window_dilation[dim]) as i64 - op.padding[dim].0;
        let dilation = op.base_dilation[dim] as i64;
        let inside = position >= 0 && position % dilation == 0;
        let size = inputs[0].ty.shape[dim] as i64;
        (inside && position / dilation < size).then(|| (position / dilation) as usize)
    };
    let own = strides(&inputs[0].ty.shape);
    // For one tap of the window, where each result reads the input.
    let sources = |tap: &[usize]| -> Vec<Option<usize>> {
        let tables: Vec<Vec<Option<usize>>> =
            (0..rank).map(|dim| (0..result.shape[dim]).map(|at| dilated(dim, at, tap[dim])).collect()).collect();
        let mut sources = vec![Some(0usize)];
        for (dim, table) in tables.iter().enumerate() {
            let stride = own[dim] as usize;
            sources =
                sources.iter().flat_map(|base| table.iter().map(move |at| Some((*base)? + (*at)? * stride))).collect();
        }
        sources
    };
    let mut taps = Vec::new();
    for_each_index(&op.sizes, |tap| taps.push(tap.to_vec()));
    let wide = machine.options.wide;
    if let ([sum], [input], [initial], Some(Simple::Combine(binary))) =
        (&mut sums[..], inputs, initial, simple(program, region))
    {
        let combine: Option<fn(f64, f64) -> f64> = match binary {
            Binary::Add => Some(|a, b| a + b),
            Binary::Multiply => Some(|a, b| a * b),
            Binary::Maximum => Some(maximum),
            Binary::Minimum => Some(minimum),
            _ => None,
        };
        if let (Data::Float(values), Data::Float(sums), Data::Float(initial), Some(combine)) =
            (&input.data, &mut sum.data, &initial.data, combine)
        {
            let step = rounding(result.dtype, wide);
            for tap in &taps {
                for (sum, source) in sums.iter_mut().zip(sources(tap)) {
                    *sum = step(combine(*sum, source.map_or(initial[0], |source| values[source])));
                }
            }
            return Ok(sums_of(sum));
        }
    }
    let mut function = Function::new(machine, region, lanes);
    let types: Vec<Type> =
        sums.iter().map(|sum| sum.ty.clone()).chain(inputs.iter().map(|input| input.ty.clone())).collect();
    let types: Vec<&Type> = types.iter().collect();
    let mut next: Vec<Data> = sums.iter().map(|sum| sum.data.clone()).collect();
    for tap in &taps {
        let sources = sources(tap);
        let lines: Vec<Data> =
            inputs.iter().zip(initial).map(|(input, initial)| pick(input, initial, &sources)).collect();
        let arguments: Vec<&Data> = sums.iter().map(|sum| &sum.data).chain(&lines).collect();
        let mut outputs: Vec<&mut Data> = next.iter_mut().collect();
        function.call(machine, &arguments, &types, &mut outputs)?;
        for (sum, next) in sums.iter_mut().zip(&mut next) {
            std::mem::swap(&mut sum.data, next);
        }
    }
    Ok(sums.into_iter().map(Arc::new).collect())
}

/// Each window selects one element of the operand; the source of the window is combined into the
/// result there. Padding is never selected.
pub(super) fn select_and_scatter<'p>(
    machine: &mut Machine<'p>,
    operation: &'p Operation,
    operands: &[Arc<Tensor>],
    op: &SelectAndScatter,
) -> Result<Vec<Arc<Tensor>>, String> {
    let (operand, source, initial) = (&operands[0], &operands[1], &operands[2]);
    let rank = operand.ty.rank();
    let own = strides(&operand.ty.shape);
    let mut result = view(initial, &operand.ty, &vec![0; rank], 0);
    let mut select = Function::new(machine, operation.regions[0], 1);
    let mut combine = Function::new(machine, operation.regions[1], 1);
    let dtype = operand.ty.dtype;
    let scalar = Type::scalar(dtype);
    let types = [&scalar, &scalar];
    let zero = || Tensor::zeros(&scalar).data;
    let (mut left, mut right, mut sum, mut flag) = (zero(), zero(), zero(), Data::Integer(vec![0]));
    let mut windows = Vec::with_capacity(source.ty.elements());
    for_each_index(&source.ty.shape, |at| windows.push(at.to_vec()));
    let step = rounding(dtype, machine.options.wide);
    let sums = simple(machine.program, operation.regions[1]) == Some(Simple::Combine(Binary::Add));
    for (position, at) in windows.iter().enumerate() {
        let mut selected: Option<usize> = None;
        let mut candidates = Vec::new();
        for_each_index(&op.window, |tap| {
            let mut offset = 0;
            for dim in 0..rank {
                let index = (at[dim] * op.strides[dim] + tap[dim]) as i64 - op.padding[dim].0;
                if index < 0 || index >= operand.ty.shape[dim] as i64 {
                    return;
                }
                offset += index as usize * own[dim] as usize;
            }
            candidates.push(offset);
        });
        for candidate in candidates {
            let Some(best) = selected else {
                selected = Some(candidate);
                continue;
            };
            read(operand, best, &mut left);
            read(operand, candidate, &mut right);
            select.call(machine, &[&left, &right], &types, &mut [&mut flag])?;
            if flag == Data::Integer(vec![0]) {
                selected = Some(candidate);
            }
        }
        let Some(selected) = selected else { continue };
        if let (true, Data::Float(result), Data::Float(source)) = (sums, &mut result.data, &source.data) {
            result[selected] = step(result[selected] + source[position]);
            continue;
        }
        read(source, position, &mut right);
        read(&result, selected, &mut left);
        combine.call(machine, &[&left, &right], &types, &mut [&mut sum])?;
        write(&mut result, selected, &sum);
    }
    Ok(vec![Arc::new(result)])
}

fn sums_of(sum: &mut Tensor) -> Vec<Arc<Tensor>> {
    let empty = Tensor { ty: sum.ty.clone(), data: Data::Raw(Vec::new()) };
    vec![Arc::new(std::mem::replace(sum, empty))]
}

fn pick(input: &Tensor, initial: &Tensor, sources: &[Option<usize>]) -> Data {
    match (&input.data, &initial.data) {
        (Data::Float(values), Data::Float(initial)) => {
            Data::Float(sources.iter().map(|source| source.map_or(initial[0], |at| values[at])).collect())
        }
        (Data::Integer(values), Data::Integer(initial)) => {
            Data::Integer(sources.iter().map(|source| source.map_or(initial[0], |at| values[at])).collect())
        }
        (data, Data::Raw(initial)) => {
            let Data::Raw(bytes) = data else { return Data::Raw(Vec::new()) };
            let width = initial.len();
            let chunk = |source: &Option<usize>| source.map_or(&initial[..], |at| &bytes[at * width..][..width]);
            Data::Raw(sources.iter().flat_map(chunk).copied().collect())
        }
        _ => Data::Raw(Vec::new()),
    }
}

//! Ops that read or write at computed positions.

use std::sync::Arc;

use crate::program::{Binary, Gather, Operation, Scatter, Type};

use super::control::Machine;
use super::elementwise::{maximum, minimum};
use super::lanes::{Function, Simple, simple};
use super::shape::{join, place, split, strides, view};
use super::tensor::{Data, Tensor, into_tensor, rounding, wrap};

/// The start is moved so that the slice lies inside the operand.
pub(super) fn dynamic_slice(operands: &[Arc<Tensor>], result: &Type) -> Result<Tensor, String> {
    let operand = &operands[0];
    let own = strides(&operand.ty.shape);
    let offset = offset(&operand.ty, &result.shape, &operands[1..])?;
    Ok(view(operand, result, &own, offset))
}

/// In place where nobody else holds the operand.
pub(super) fn dynamic_update_slice(mut operands: Vec<Arc<Tensor>>) -> Result<Tensor, String> {
    let indices = operands.split_off(2);
    let (Some(update), Some(operand)) = (operands.pop(), operands.pop()) else {
        return Err("an operand is missing".to_owned());
    };
    let steps = strides(&operand.ty.shape);
    let offset = offset(&operand.ty, &update.ty.shape, &indices)?;
    let mut tensor = into_tensor(operand);
    place(&mut tensor, &steps, offset, &update);
    Ok(tensor)
}

/// Start indices are clamped so that every slice lies inside the operand.
pub(super) fn gather(operand: &Tensor, indices: &Tensor, op: &Gather, result: &Type) -> Result<Tensor, String> {
    let index_values = indices.integers()?;
    let unsigned = indices.ty.dtype.is_unsigned();
    let operand_strides = strides(&operand.ty.shape);
    let index_shape = &indices.ty.shape;
    let index_strides = strides(index_shape);
    let batch_dims: Vec<usize> = (0..result.rank()).filter(|dim| !op.offset_dims.contains(dim)).collect();
    // Dimensions of the operand that a slice keeps, in order: one per offset dimension.
    let kept: Vec<usize> = (0..operand.ty.rank())
        .filter(|dim| !op.collapsed_slice_dims.contains(dim) && !op.operand_batching_dims.contains(dim))
        .collect();
    let vector_stride = index_strides.get(op.index_vector_dim).copied().unwrap_or(0);
    let mut positions = Vec::with_capacity(result.elements());
    let mut slice_offsets = Vec::new();
    let slice_shape: Vec<usize> = op.offset_dims.iter().map(|&dim| result.shape[dim]).collect();
    for_each_index(&slice_shape, |index| {
        slice_offsets
            .push(index.iter().zip(&kept).map(|(&at, &dim)| at as isize * operand_strides[dim]).sum::<isize>());
    });
    let batch_shape: Vec<usize> = batch_dims.iter().map(|&dim| result.shape[dim]).collect();
    let batch_index_dims: Vec<usize> = (0..index_shape.len()).filter(|&dim| dim != op.index_vector_dim).collect();
    for_each_index(&batch_shape, |batch| {
        let start: isize =
            batch.iter().zip(&batch_index_dims).map(|(&at, &dim)| at as isize * index_strides[dim]).sum();
        let mut base = 0;
        for (component, &dim) in op.start_index_map.iter().enumerate() {
            let value = index_values[(start + component as isize * vector_stride) as usize];
            let limit = operand.ty.shape[dim].saturating_sub(op.slice_sizes[dim]) as i64;
            base += clamp(value, limit, unsigned) as isize * operand_strides[dim];
        }
        for (&dim, &index_dim) in op.operand_batching_dims.iter().zip(&op.start_indices_batching_dims) {
            // Which of the batch dimensions runs along that dimension of the indices.
            if let Some(position) = batch_index_dims.iter().position(|&other| other == index_dim) {
                base += batch[position] as isize * operand_strides[dim];
            }
        }
        positions.extend(slice_offsets.iter().map(|offset| (base + offset) as usize));
    });
    // The positions are batch dimensions first, then offset dimensions; the result interleaves them.
    let order: Vec<usize> = batch_dims.iter().chain(&op.offset_dims).copied().collect();
    let shape: Vec<usize> = order.iter().map(|&dim| result.shape[dim]).collect();
    let gathered = take(operand, &positions, &result.with_shape(&shape));
    let mut back = vec![0; result.rank()];
    for (position, &dim) in order.iter().enumerate() {
        back[dim] = position;
    }
    if back.iter().enumerate().all(|(dim, &position)| dim == position) {
        return Ok(gathered);
    }
    Ok(super::shape::transpose(&gathered, &back, result))
}

/// Updates outside the operand are skipped. Sums and products are rounded once, at the end.
pub(super) fn scatter<'p>(
    machine: &mut Machine<'p>,
    operation: &'p Operation,
    mut operands: Vec<Arc<Tensor>>,
    op: &Scatter,
) -> Result<Vec<Arc<Tensor>>, String> {
    let count = operands.len() / 2;
    let updates = operands.split_off(count + 1);
    let indices = operands.pop().ok_or("the indices are missing")?;
    let targets = scatter_targets(&operands[0].ty, &indices, &updates[0].ty, op)?;
    let mut tensors: Vec<Tensor> = operands.into_iter().map(into_tensor).collect();
    let wide = machine.options.wide;
    let region = operation.regions[0];
    if let ([tensor], [update], Some(simple)) = (&mut tensors[..], &updates[..], simple(machine.program, region))
        && scatter_simple(tensor, update, &targets, simple, wide)
    {
        return Ok(tensors.into_iter().map(Arc::new).collect());
    }
    let mut function = Function::new(machine, region, 1);
    let types: Vec<&Type> = updates.iter().map(|update| &update.ty).collect();
    let types: Vec<&Type> = types.iter().chain(&types).copied().collect();
    let one = |tensor: &Tensor| Tensor::zeros(&Type::scalar(tensor.ty.dtype)).data;
    let mut current: Vec<Data> = tensors.iter().map(one).collect();
    let mut incoming: Vec<Data> = tensors.iter().map(one).collect();
    let mut combined: Vec<Data> = tensors.iter().map(one).collect();
    for &(position, update) in &targets {
        for index in 0..count {
            read(&tensors[index], position, &mut current[index]);
            read(&updates[index], update, &mut incoming[index]);
        }
        let inputs: Vec<&Data> = current.iter().chain(&incoming).collect();
        let mut outputs: Vec<&mut Data> = combined.iter_mut().collect();
        function.call(machine, &inputs, &types, &mut outputs)?;
        for (tensor, value) in tensors.iter_mut().zip(&combined) {
            write(tensor, position, value);
        }
    }
    Ok(tensors.into_iter().map(Arc::new).collect())
}

/// Calls back with every index of a shape, in row-major order.
pub(super) fn for_each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        visit(&index);
        let mut dim = shape.len();
        loop {
            if dim == 0 {
                return;
            }
            dim -= 1;
            index[dim] += 1;
            if index[dim] < shape[dim] {
                break;
            }
            index[dim] = 0;
        }
    }
}

/// The elements at those positions.
pub(super) fn take(tensor: &Tensor, positions: &[usize], result: &Type) -> Tensor {
    let data = match &tensor.data {
        Data::Float(values) => Data::Float(positions.iter().map(|&position| values[position]).collect()),
        Data::Integer(values) => Data::Integer(positions.iter().map(|&position| values[position]).collect()),
        Data::Raw(bytes) => {
            let width = tensor.ty.dtype.stored_bytes().max(1);
            let values = split(bytes, width);
            let taken: Vec<u128> = positions.iter().map(|&position| values[position]).collect();
            Data::Raw(join(&taken, width))
        }
    };
    Tensor { ty: result.clone(), data }
}

/// Reads one element into a scalar.
pub(super) fn read(tensor: &Tensor, position: usize, target: &mut Data) {
    match (&tensor.data, target) {
        (Data::Float(values), Data::Float(target)) => target[0] = values[position],
        (Data::Integer(values), Data::Integer(target)) => target[0] = values[position],
        (Data::Raw(bytes), Data::Raw(target)) => {
            let width = target.len();
            target.copy_from_slice(&bytes[position * width..][..width]);
        }
        _ => {}
    }
}

/// Writes a scalar to one element.
pub(super) fn write(tensor: &mut Tensor, position: usize, value: &Data) {
    match (&mut tensor.data, value) {
        (Data::Float(values), Data::Float(value)) => values[position] = value[0],
        (Data::Integer(values), Data::Integer(value)) => values[position] = value[0],
        (Data::Raw(bytes), Data::Raw(value)) => {
            bytes[position * value.len()..][..value.len()].copy_from_slice(value);
        }
        _ => {}
    }
}

/// Pairs of a position in the input and a position in the updates, in the order of the updates.
fn scatter_targets(
    input: &Type,
    indices: &Tensor,
    updates: &Type,
    op: &Scatter,
) -> Result<Vec<(usize, usize)>, String> {
    let index_values = indices.integers()?;
    let unsigned = indices.ty.dtype.is_unsigned();
    let input_strides = strides(&input.shape);
    let index_strides = strides(&indices.ty.shape);
    let vector_stride = index_strides.get(op.index_vector_dim).copied().unwrap_or(0);
    let scatter_dims: Vec<usize> = (0..updates.rank()).filter(|dim| !op.update_window_dims.contains(dim)).collect();
    let index_dims: Vec<usize> = (0..indices.ty.rank()).filter(|&dim| dim != op.index_vector_dim).collect();
    let window_dims: Vec<usize> = (0..input.rank())
        .filter(|dim| !op.inserted_window_dims.contains(dim) && !op.input_batching_dims.contains(dim))
        .collect();
    let mut targets = Vec::with_capacity(updates.elements());
    let mut position = 0;
    let mut full = vec![0i64; input.rank()];
    for_each_index(&updates.shape, |index| {
        let start: isize =
            scatter_dims.iter().zip(&index_dims).map(|(&at, &dim)| index[at] as isize * index_strides[dim]).sum();
        full.fill(0);
        let mut inside = true;
        for (component, &dim) in op.scatter_dims_to_operand_dims.iter().enumerate() {
            let value = index_values[(start + component as isize * vector_stride) as usize];
            inside &= !(unsigned && value < 0);
            full[dim] = value;
        }
        for (&dim, &index_dim) in op.input_batching_dims.iter().zip(&op.scatter_indices_batching_dims) {
            if let Some(position) = index_dims.iter().position(|&other| other == index_dim) {
                full[dim] = index[scatter_dims[position]] as i64;
            }
        }
        for (&at, &dim) in op.update_window_dims.iter().zip(&window_dims) {
            full[dim] = full[dim].saturating_add(index[at] as i64);
        }
        inside &= full.iter().zip(&input.shape).all(|(&at, &size)| at >= 0 && at < size as i64);
        if inside {
            let target: isize = full.iter().zip(&input_strides).map(|(&at, stride)| at as isize * stride).sum();
            targets.push((target as usize, position));
        }
        position += 1;
    });
    Ok(targets)
}

/// Whether the update was one of those that need no call.
fn scatter_simple(
    tensor: &mut Tensor,
    update: &Tensor,
    targets: &[(usize, usize)],
    simple: Simple,
    wide: bool,
) -> bool {
    let dtype = tensor.ty.dtype;
    match (&mut tensor.data, &update.data) {
        (Data::Float(values), Data::Float(updates)) => {
            let step = rounding(dtype, wide);
            match simple {
                Simple::First => {}
                Simple::Second => apply(values, updates, targets, |_, new| new),
                Simple::Combine(Binary::Add) => apply(values, updates, targets, |old, new| step(old + new)),
                Simple::Combine(Binary::Multiply) => apply(values, updates, targets, |old, new| step(old * new)),
                Simple::Combine(Binary::Maximum) => apply(values, updates, targets, maximum),
                Simple::Combine(Binary::Minimum) => apply(values, updates, targets, minimum),
                Simple::Combine(_) => return false,
            }
        }
        (Data::Integer(values), Data::Integer(updates)) => {
            match simple {
                Simple::First => {}
                Simple::Second => apply(values, updates, targets, |_, new| new),
                Simple::Combine(Binary::Add) => apply(values, updates, targets, i64::wrapping_add),
                Simple::Combine(Binary::Multiply) => apply(values, updates, targets, i64::wrapping_mul),
                Simple::Combine(_) => return false,
            }
            wrap(dtype, values);
        }
        (Data::Raw(_), Data::Raw(_)) => return false,
        _ => return false,
    }
    true
}

fn apply<T: Copy>(values: &mut [T], updates: &[T], targets: &[(usize, usize)], combine: impl Fn(T, T) -> T) {
    for &(position, update) in targets {
        values[position] = combine(values[position], updates[update]);
    }
}

fn offset(operand: &Type, sizes: &[usize], indices: &[Arc<Tensor>]) -> Result<isize, String> {
    let mut offset = 0;
    for (dim, (stride, index)) in strides(&operand.shape).iter().zip(indices).enumerate() {
        let limit = operand.shape[dim].saturating_sub(sizes[dim]) as i64;
        offset += stride * clamp(index.index()?, limit, index.ty.dtype.is_unsigned()) as isize;
    }
    Ok(offset)
}

/// Into `0..=limit`; an unsigned value with its highest bit set is large, not negative.
fn clamp(value: i64, limit: i64, unsigned: bool) -> i64 {
    if unsigned && value < 0 { limit } else { value.clamp(0, limit) }
}

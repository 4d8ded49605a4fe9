//! Gradients of ops that read and write at indices.

use super::rules::Rule;
use crate::program::{
    Binary, DType, Dims, Direction, Gather, Op, Order, Program, RegionId, Scatter, Shape, Type, ValueId,
};

/// The slice's gradient, put back where it was read.
pub(super) fn dynamic_slice(rule: &mut Rule<'_>) {
    let zeros = rule.builder.full_like(rule.operand(0), 0.0);
    let mut operands = vec![zeros, rule.gradient];
    operands.extend(&rule.operation.operands[1..]);
    let placed = rule.builder.op(Op::DynamicUpdateSlice, &operands, &[])[0];
    rule.give(0, placed);
}

/// What was overwritten gets nothing; the update gets what stands at its place.
pub(super) fn dynamic_update_slice(rule: &mut Rule<'_>) {
    let starts = rule.operation.operands[2..].to_vec();
    if rule.wants(0) {
        let zeros = rule.builder.full_like(rule.operand(1), 0.0);
        let mut operands = vec![rule.gradient, zeros];
        operands.extend(&starts);
        let kept = rule.builder.op(Op::DynamicUpdateSlice, &operands, &[])[0];
        rule.give(0, kept);
    }
    if rule.wants(1) {
        let sizes = rule.builder.shape(rule.operand(1));
        let mut operands = vec![rule.gradient];
        operands.extend(&starts);
        let taken = rule.builder.op(Op::DynamicSlice { sizes }, &operands, &[])[0];
        rule.give(1, taken);
    }
}

/// Every element goes back to where it was read; elements read twice get both gradients.
///
/// A gather clamps positions outside, a scatter leaves them out: where a position may be outside,
/// it is clamped before.
pub(super) fn gather(rule: &mut Rule<'_>, gather: &Gather) {
    let operand = rule.operand(0);
    let indices = clamped_indices(rule, gather);
    let zeros = rule.builder.full_like(operand, 0.0);
    let scatter = Scatter {
        update_window_dims: gather.offset_dims.clone(),
        inserted_window_dims: gather.collapsed_slice_dims.clone(),
        input_batching_dims: gather.operand_batching_dims.clone(),
        scatter_indices_batching_dims: gather.start_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: gather.start_index_map.clone(),
        index_vector_dim: gather.index_vector_dim,
        indices_are_sorted: gather.indices_are_sorted,
        unique_indices: false,
    };
    let placed = rule.builder.scatter_add(zeros, indices, rule.gradient, scatter);
    rule.give(0, placed);
}

/// The start indices as the gather reads them.
fn clamped_indices(rule: &mut Rule<'_>, gather: &Gather) -> ValueId {
    let (operand, indices) = (rule.operand(0), rule.operand(1));
    let shape = rule.builder.shape(operand);
    let limits: Vec<usize> = gather.start_index_map.iter().map(|&dim| shape[dim] - gather.slice_sizes[dim]).collect();
    let ty = rule.builder.ty(indices);
    let Some(&first) = limits.first() else { return indices };
    let low = rule.builder.scalar(ty.dtype, 0.0);
    if limits.iter().all(|&limit| limit == first) {
        let high = rule.builder.scalar(ty.dtype, first as f64);
        return rule.builder.op(Op::Clamp, &[low, indices, high], &[])[0];
    }
    // Each entry of an index vector has a limit of its own.
    let zeros = rule.builder.full(&ty, 0.0);
    let raised = rule.builder.binary(Binary::Maximum, indices, zeros);
    let entries: Vec<ValueId> = limits.iter().map(|&limit| rule.builder.scalar(ty.dtype, limit as f64)).collect();
    let entries: Vec<ValueId> = entries.into_iter().map(|entry| rule.builder.reshape(entry, &[1])).collect();
    let entries = rule.builder.concatenate(&entries, 0);
    let high = rule.builder.broadcast(entries, &ty.shape, &[gather.index_vector_dim]);
    rule.builder.binary(Binary::Minimum, raised, high)
}

/// Scatters that add or overwrite.
pub(super) fn scatter(rule: &mut Rule<'_>, scatter: &Scatter) -> Result<(), String> {
    let &[operand, indices, updates] = rule.operation.operands.as_slice() else {
        return Err(rule.refusal(" with several inputs"));
    };
    let kind = update_kind(&rule.builder.program, rule.operation.regions[0]);
    let operand_shape = rule.builder.shape(operand);
    let update_shape = rule.builder.shape(updates);
    // The slices that the updates are, read back.
    let mut windows = scatter.update_window_dims.iter();
    let slice_sizes: Shape = (0..operand_shape.len())
        .map(|dim| {
            let is_single = scatter.inserted_window_dims.contains(&dim) || scatter.input_batching_dims.contains(&dim);
            if is_single { 1 } else { windows.next().map_or(1, |&window| update_shape[window]) }
        })
        .collect();
    let gather = Gather {
        offset_dims: scatter.update_window_dims.clone(),
        collapsed_slice_dims: scatter.inserted_window_dims.clone(),
        operand_batching_dims: scatter.input_batching_dims.clone(),
        start_indices_batching_dims: scatter.scatter_indices_batching_dims.clone(),
        start_index_map: scatter.scatter_dims_to_operand_dims.clone(),
        index_vector_dim: scatter.index_vector_dim,
        slice_sizes,
        indices_are_sorted: scatter.indices_are_sorted,
    };
    match kind {
        UpdateKind::Add => {
            rule.give(0, rule.gradient);
        }
        UpdateKind::Overwrite if scatter.unique_indices => {
            if rule.wants(0) {
                let zeros = rule.builder.full_like(updates, 0.0);
                let region = overwriting_region(rule, updates);
                let operands = [rule.gradient, indices, zeros];
                let kept = rule.builder.op(Op::Scatter(Box::new(scatter.clone())), &operands, &[region])[0];
                rule.give(0, kept);
            }
        }
        UpdateKind::Overwrite => return Err(rule.refusal(" where it overwrites and indices may repeat")),
        UpdateKind::Other => return Err(rule.refusal(" where it neither adds nor overwrites")),
    }
    if rule.wants(2) {
        let taken = rule.builder.gather(rule.gradient, indices, gather);
        rule.give(2, taken);
    }
    Ok(())
}

enum UpdateKind {
    Add,
    Overwrite,
    Other,
}

fn update_kind(program: &Program, region: RegionId) -> UpdateKind {
    if program.applied_binary(region) == Some(Binary::Add) {
        return UpdateKind::Add;
    }
    let region = &program.regions[region];
    let gives_update = region.results.len() == 1 && region.arguments.get(1) == region.results.first();
    if gives_update { UpdateKind::Overwrite } else { UpdateKind::Other }
}

fn overwriting_region(rule: &mut Rule<'_>, like: ValueId) -> RegionId {
    let ty = Type::scalar(rule.builder.dtype(like));
    let region = rule.builder.program.add_region();
    rule.builder.program.add_region_argument(region, ty.clone());
    let update = rule.builder.program.add_region_argument(region, ty);
    rule.builder.program.regions[region].results = vec![update];
    region
}

/// The gradient of what was sorted goes back to where it came from: positions are sorted along, and
/// a second sort by them undoes the first.
pub(super) fn sort(rule: &mut Rule<'_>, dim: usize) -> Result<(), String> {
    let operation = rule.operation;
    let first = rule.operand(0);
    let positions_type = rule.builder.ty(first).with_dtype(DType::I32);
    let positions = rule.builder.iota(&positions_type, dim);
    // The same sort with the positions as one more operand, which its comparison ignores.
    let mut operands = operation.operands.to_vec();
    operands.push(positions);
    let region = widened_comparator(rule, operation.regions[0]);
    let sorted = rule.builder.op(Op::Sort { dim, stable: true }, &operands, &[region]);
    let came_from = sorted[operands.len() - 1];
    for (index, gradient) in rule.known.iter().copied().enumerate() {
        let Some(gradient) = gradient else { continue };
        if !rule.wants(index) {
            continue;
        }
        let region = ascending_comparator(rule, DType::I32, rule.builder.dtype(gradient));
        let undone = rule.builder.op(Op::Sort { dim, stable: true }, &[came_from, gradient], &[region]);
        rule.give(index, undone[1]);
    }
    Ok(())
}

/// A copy of a comparison that takes one more pair of arguments.
fn widened_comparator(rule: &mut Rule<'_>, region: RegionId) -> RegionId {
    let source = rule.builder.program.regions[region].clone();
    let copy = rule.builder.program.add_region();
    let mut map = rustc_hash::FxHashMap::default();
    for &argument in &source.arguments {
        let ty = rule.builder.ty(argument);
        let value = rule.builder.program.add_region_argument(copy, ty);
        map.insert(argument, value);
    }
    for _ in 0..2 {
        rule.builder.program.add_region_argument(copy, Type::scalar(DType::I32));
    }
    rule.builder.inside(copy, |builder| super::copy_ops(builder, &source.ops, &mut map));
    rule.builder.program.regions[copy].results =
        source.results.iter().map(|value| map.get(value).copied().unwrap_or(*value)).collect();
    copy
}

/// Compares the first of two operands, ascending.
fn ascending_comparator(rule: &mut Rule<'_>, key: DType, other: DType) -> RegionId {
    let region = rule.builder.program.add_region();
    let left = rule.builder.program.add_region_argument(region, Type::scalar(key));
    let right = rule.builder.program.add_region_argument(region, Type::scalar(key));
    for _ in 0..2 {
        rule.builder.program.add_region_argument(region, Type::scalar(other));
    }
    let less = Op::Compare { direction: Direction::Less, order: Order::Natural };
    let result = rule.builder.inside(region, |builder| builder.op(less, &[left, right], &[])[0]);
    rule.builder.program.regions[region].results = vec![result];
    region
}

/// The largest go back to the positions they came from.
pub(super) fn top_k(rule: &mut Rule<'_>) {
    let Some(gradient) = rule.known[0] else { return };
    let operand = rule.operand(0);
    let shape = rule.builder.shape(operand);
    let rank = shape.len();
    let mut index_shape = rule.builder.shape(gradient);
    index_shape.push(1);
    let indices = rule.builder.reshape(rule.result(1), &index_shape);
    let zeros = rule.builder.full_like(operand, 0.0);
    let batch: Dims = (0..rank - 1).collect();
    let scatter = Scatter {
        update_window_dims: Dims::new(),
        inserted_window_dims: Dims::from_slice(&[rank - 1]),
        input_batching_dims: batch.clone(),
        scatter_indices_batching_dims: batch,
        scatter_dims_to_operand_dims: Dims::from_slice(&[rank - 1]),
        index_vector_dim: rank,
        indices_are_sorted: false,
        unique_indices: true,
    };
    let placed = rule.builder.scatter_add(zeros, indices, gradient, scatter);
    rule.give(0, placed);
}

//! What ops need while they run, besides what they read and make: copies in the order that kernels want, and what the
//! functions of `meshwright.torch.ops` make on their way.

use super::attention::of_attention;
use super::convolution::of_convolution;
use crate::profile::{Strides, contiguous, reshaped};
use crate::program::{DotGeneral, Op, OpId, Program, Scatter, Type, ValueId, Window};

/// Where the elements of values lie.
pub(super) type StridesOf<'a> = &'a dyn Fn(ValueId) -> Strides;

/// The bytes of positions.
const INDEX: usize = 8;

/// What a value takes that is made anew.
pub(super) fn bytes_made(program: &Program, value: ValueId) -> usize {
    let ty = program.ty(value);
    let Some(op) = program.producer(value) else { return ty.bytes() };
    match &program.ops[op].op {
        Op::Iota { dim, .. } => ty.bytes() / ty.elements().max(1) * ty.shape[*dim],
        // A row, or an element, is for what is left out.
        Op::Scatter(scatter) if are_rows(program, op, scatter) => {
            ty.bytes() + ty.bytes() / rows(&ty.shape, scatter).max(1)
        }
        Op::Scatter(_) => ty.bytes() + ty.bytes() / ty.elements().max(1),
        _ => ty.bytes(),
    }
}

pub(super) fn of_op(program: &Program, op: OpId, strides: StridesOf<'_>) -> usize {
    let operation = &program.ops[op];
    let operand = |index: usize| program.ty(operation.operands[index]);
    let results: usize = operation.results.iter().map(|&result| program.ty(result).bytes()).sum();
    match &operation.op {
        Op::AllGather(_) | Op::AllReduce(_) | Op::ReduceScatter(_) => of_collectives(program, &[op], strides),
        // Parts one behind the other, before and after.
        Op::AllToAll(_) => operand(0).bytes(),
        Op::Attention(_) | Op::AttentionGrad(_) => of_attention(program, op, strides),
        // Elements around their mean.
        Op::BatchNormGrad(_) => operand(0).bytes(),
        Op::CollectiveBroadcast(_) | Op::CollectivePermute(_) => copied(program, operation.operands[0], strides),
        Op::Convolution(convolution) => of_convolution(program, op, convolution, strides),
        Op::DotGeneral(dot) => product(program, op, dot, strides),
        Op::Gather(_) => INDEX * operand(1).elements(),
        Op::ReduceWindow(window) if operation.results.len() > 1 => {
            let (made, places) = (program.ty(operation.results[0]), program.ty(operation.results[1]));
            extreme_window(window, [operand(0), operand(1)], [made, places]).saturating_sub(results)
        }
        Op::ReduceWindow(window) => match padded(operand(0), window) {
            0 => copied(program, operation.operands[0], strides),
            bytes => bytes,
        },
        Op::Reduce { .. } if operation.results.len() > 1 => INDEX * program.ty(operation.results[0]).elements(),
        Op::Rng { .. } => results,
        Op::Scatter(scatter) => self::scatter(program, op, scatter, strides),
        Op::SelectAndScatter(window) => {
            let seen = window.window.iter().product::<usize>();
            2 * operand(0).bytes() + seen * operand(1).bytes() + 3 * INDEX * operand(1).elements()
        }
        Op::Sort { .. } | Op::TopK { .. } => INDEX * program.ty(operation.results[0]).elements(),
        // All others work with what they read and make.
        _ => 0,
    }
}

/// What is there besides operands while windows choose. Windows of numbers are written out, and let go of before windows of
/// places are.
fn extreme_window(window: &Window, read: [&Type; 2], made: [&Type; 2]) -> usize {
    let seen: usize = window.sizes.iter().product();
    let chosen = INDEX * made[0].elements();
    let numbers = seen * made[0].bytes() + padded(read[0], window).max(chosen + made[0].bytes());
    let places = seen * made[1].bytes() + padded(read[1], window).max(made[1].bytes());
    numbers.max(made[0].bytes() + chosen + places)
}

/// A tensor with more elements around it, where windows reach beyond it.
fn padded(ty: &Type, window: &Window) -> usize {
    let is_plain = window.padding.iter().all(|&(low, high)| (low, high) == (0, 0));
    if is_plain && window.base_dilation.iter().all(|&gap| gap == 1) {
        return 0;
    }
    let wide = |dim: usize| {
        let (low, high) = window.padding[dim];
        let spread = ty.shape[dim].saturating_sub(1) * window.base_dilation[dim] + 1;
        (spread as i64 + low + high).max(0) as usize
    };
    (0..ty.rank()).map(wide).product::<usize>() * (ty.bytes() / ty.elements().max(1))
}

/// Collectives of one kind at once.
pub(super) fn of_collectives(program: &Program, ops: &[OpId], strides: StridesOf<'_>) -> usize {
    let operand = |op: OpId| program.ops[op].operands[0];
    let bytes = |op: OpId| program.ty(operand(op)).bytes();
    let straightened: usize = ops.iter().map(|&op| copied(program, operand(op), strides)).sum();
    let made: usize = ops.iter().map(|&op| program.ty(program.ops[op].results[0]).bytes()).sum();
    let scattered: usize = ops
        .iter()
        .map(|&op| match &program.ops[op].op {
            Op::ReduceScatter(scatter) if scatter.dim > 0 => bytes(op),
            _ => copied(program, operand(op), strides),
        })
        .sum();
    match &program.ops[ops[0]].op {
        // Gloo gathers into memory of its own, and several as one. Parts come in the order of devices, and are put behind
        // each other along another dimension then.
        Op::AllGather(_) => {
            let sent: usize = ops.iter().map(|&op| bytes(op)).sum();
            straightened + made + if ops.len() > 1 { sent } else { 0 }
        }
        // Several are put behind each other.
        Op::AllReduce(_) if ops.len() > 1 => straightened + made,
        // What is sent is put in order, all of it at once, and as much is received.
        Op::ReduceScatter(_) => {
            let all: usize = ops.iter().map(|&op| bytes(op)).sum();
            let sent = if ops.len() > 1 { all } else { scattered };
            let ordered = if ops.len() > 1 { scattered } else { 0 };
            (ordered + sent).max(sent + all).saturating_sub(made).max(all)
        }
        _ => straightened,
    }
}

/// Rows that have a matrix in common are put together: so many at a time as there are where all matrices have as many. A
/// product writes its own for them, and a sum reads both of its operands.
pub(super) fn of_experts(program: &Program, maker: OpId, op: OpId) -> usize {
    let (first, last) = (&program.ops[maker].operands, &program.ops[op].operands);
    let (indices, count, copied) = match &program.ops[op].op {
        Op::Scatter(_) => (last[1], program.shape(last[0])[0], [first[0], first[1]]),
        // All others are products.
        _ => (first[1], program.shape(first[0])[0], [last[0], program.ops[op].results[0]]),
    };
    let rows = program.shape(indices)[0].max(1);
    let together = rows.div_ceil(count.max(1));
    let wide: usize = copied.into_iter().map(|value| program.ty(value).bytes() / rows).sum();
    together * (wide + INDEX) + INDEX * rows
}

/// The bytes of a copy whose elements lie in order, where they do not already.
fn copied(program: &Program, value: ValueId, strides: StridesOf<'_>) -> usize {
    if is_straight(program.shape(value), &strides(value)) { 0 } else { program.ty(value).bytes() }
}

pub(super) fn is_straight(shape: &[usize], strides: &[usize]) -> bool {
    let straight = contiguous(shape);
    shape.contains(&0) || (0..shape.len()).all(|dim| shape[dim] == 1 || strides[dim] == straight[dim])
}

/// Operands of a product as matrices, where they cannot be seen as such.
fn product(program: &Program, op: OpId, dot: &DotGeneral, strides: StridesOf<'_>) -> usize {
    let operands = &program.ops[op].operands;
    let side = |value: ValueId, batch: &[usize], contract: &[usize]| {
        let (ty, own) = (program.ty(value), strides(value));
        let is_free = |dim: &usize| !batch.contains(dim) && !contract.contains(dim);
        let free: Vec<usize> = (0..ty.rank()).filter(is_free).collect();
        let widened = if ty.dtype == dot.dtype { 0 } else { ty.elements() * dot.dtype.stored_bytes() };
        let can_see = |order: [&[usize]; 3]| {
            let dims = order.concat();
            let shape: Vec<usize> = dims.iter().map(|&dim| ty.shape[dim]).collect();
            let lies: Vec<usize> = dims.iter().map(|&dim| own[dim]).collect();
            let size = |dims: &[usize]| dims.iter().map(|&dim| ty.shape[dim]).product::<usize>();
            reshaped(&shape, &lies, &order.map(size)).is_some()
        };
        let is_seen = can_see([batch, &free, contract]) || can_see([batch, contract, &free]);
        widened + if is_seen { 0 } else { ty.elements() * dot.dtype.stored_bytes() }
    };
    side(operands[0], &dot.lhs_batch, &dot.lhs_contract) + side(operands[1], &dot.rhs_batch, &dot.rhs_contract)
}

fn are_rows(program: &Program, op: OpId, scatter: &Scatter) -> bool {
    let operation = &program.ops[op];
    let [value, updates] = [0, 2].map(|index| program.shape(operation.operands[index]));
    let count = scatter.inserted_window_dims.len();
    let Some(inner) = updates.len().checked_sub(value.len() - count) else { return false };
    let is_first = |dims: &[usize]| {
        let mut sorted = dims.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..count)
    };
    is_first(&scatter.inserted_window_dims)
        && is_first(&scatter.scatter_dims_to_operand_dims)
        && scatter.input_batching_dims.is_empty()
        && scatter.update_window_dims.iter().copied().eq(inner..updates.len())
        && updates[inner..] == value[count..]
}

fn rows(shape: &[usize], scatter: &Scatter) -> usize {
    shape[..scatter.inserted_window_dims.len()].iter().product()
}

fn scatter(program: &Program, op: OpId, scatter: &Scatter, strides: StridesOf<'_>) -> usize {
    let operation = &program.ops[op];
    let updates = operation.operands[2];
    let straightened = copied(program, updates, strides);
    let result = program.ty(operation.results[0]);
    if are_rows(program, op, scatter) {
        let count = program.ty(updates).elements() / (result.elements() / rows(&result.shape, scatter).max(1)).max(1);
        return straightened + 2 * INDEX * count;
    }
    let positions = positions(program, op, scatter);
    let count = program.ty(updates).elements();
    // Positions along every dimension are there until all is done: while they are added up, while those of what is left out
    // are replaced, and while updates are put in order. Which vectors are inside is a byte of each.
    positions.vectors
        + INDEX * positions.along.iter().sum::<usize>()
        + (INDEX * positions.most_added).max(2 * INDEX * count).max(INDEX * count + straightened)
}

/// Numbers of positions on the way to where every element of updates goes.
struct Positions {
    vectors: usize,
    /// Along each dimension: one for every vector of indices, for every element of a window, or for both.
    along: Vec<usize>,
    /// The most while a dimension is added to those before it: both, and the sum.
    most_added: usize,
}

fn positions(program: &Program, op: OpId, scatter: &Scatter) -> Positions {
    let operation = &program.ops[op];
    let (shape, updates) = (program.shape(operation.results[0]), program.shape(operation.operands[2]));
    let mut windows = scatter.update_window_dims.iter().map(|&dim| updates[dim]);
    let inside: usize = windows.clone().product();
    let vectors = updates.iter().product::<usize>() / inside.max(1);
    let (mut found, mut spread, mut window) = (Positions { vectors, along: Vec::new(), most_added: 0 }, 1, 1);
    for (dim, &size) in shape.iter().enumerate() {
        let is_batch = scatter.input_batching_dims.contains(&dim);
        let is_single = is_batch || scatter.inserted_window_dims.contains(&dim);
        let width = if is_single { 1 } else { windows.next().unwrap_or(1) };
        let is_chosen = scatter.scatter_dims_to_operand_dims.contains(&dim);
        let (each, reached) = match (is_chosen, is_batch) {
            (true, _) => (vectors, vectors),
            (false, true) => (size, vectors.min(spread * size)),
            (false, false) => (1, spread),
        };
        let (before, place) = (spread * window, each * width);
        spread = reached;
        window *= width;
        found.most_added = found.most_added.max(before + place + spread * window);
        found.along.push(place);
    }
    found
}

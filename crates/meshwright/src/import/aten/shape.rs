//! Ops that move elements and compute nothing.

use smallvec::SmallVec;

use super::call::{Call, Made, wrapped};
use crate::program::{Binary, DType, Dims, Direction, Op, Type, ValueId, Values};

/// The same elements in the shape of the result.
pub(super) fn reshape(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let made = call.builder.reshape(unshaped(call, value), &ty.shape);
    call.one(made)
}

/// What a value was before it was reshaped: shapes on the way to another one are nobody's.
fn unshaped(call: &Call<'_>, value: ValueId) -> ValueId {
    let program = &call.builder.program;
    let maker = program.producer(value).map(|op| &program.ops[op]);
    maker.filter(|maker| matches!(maker.op, Op::Reshape { .. })).map_or(value, |maker| maker.operands[0])
}

pub(super) fn expand(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let made = call.broadcast(value, &ty.shape)?;
    call.one(made)
}

/// A copy: a buffer of its own under engines that run op by op. Converting to the same type is what programs have for it.
pub(super) fn clone(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let made = copied(call, value);
    call.one(made)
}

fn copied(call: &mut Call<'_>, value: ValueId) -> ValueId {
    let dtype = call.builder.dtype(value);
    call.builder.op(Op::Convert { dtype }, &[value], &[])[0]
}

pub(super) fn permute(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let rank = call.rank(value);
    let order = call.ints(1)?.iter().map(|&dim| wrapped(dim, rank)).collect::<Result<Vec<_>, _>>()?;
    let made = call.builder.transpose(value, &order);
    call.one(made)
}

pub(super) fn transpose(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let rank = call.rank(value);
    if rank == 0 {
        return call.one(value);
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(call.dim(1, rank)?, call.dim(2, rank)?);
    let made = call.builder.transpose(value, &order);
    call.one(made)
}

/// A matrix the other way round.
pub(super) fn t(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let made = if call.rank(value) == 2 { call.builder.transpose(value, &[1, 0]) } else { value };
    call.one(made)
}

/// Where a slice of a dimension begins and ends, as Python counts.
struct Range {
    dim: usize,
    start: usize,
    limit: usize,
    step: usize,
}

fn range(call: &Call<'_>, shape: &[usize], place: usize) -> Result<Range, String> {
    let dim = call.dim(place, shape.len())?;
    let size = shape[dim] as i64;
    let bound = |place: usize, default: i64| -> Result<i64, String> {
        let given = if call.has(place) { call.int(place)? } else { default };
        Ok(if given < 0 { (given + size).max(0) } else { given.min(size) })
    };
    let (start, limit) = (bound(place + 1, 0)?, bound(place + 2, size)?);
    let step = if call.has(place + 3) { call.int(place + 3)? } else { 1 };
    if step < 1 {
        return Err("a slice goes forward".to_owned());
    }
    Ok(Range { dim, start: start as usize, limit: limit.max(start) as usize, step: step as usize })
}

fn sliced(call: &mut Call<'_>, value: ValueId, range: &Range) -> ValueId {
    let shape = call.shape(value);
    let mut starts = vec![0; shape.len()];
    let mut limits = shape.to_vec();
    let mut steps = vec![1; shape.len()];
    (starts[range.dim], limits[range.dim], steps[range.dim]) = (range.start, range.limit, range.step);
    if starts[range.dim] == 0 && limits[..] == shape[..] && range.step == 1 {
        return value;
    }
    call.builder.slice(value, &starts, &limits, &steps)
}

pub(super) fn slice(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let range = range(call, &call.shape(value), 1)?;
    let made = sliced(call, value, &range);
    call.one(made)
}

/// A value with a slice of it replaced.
pub(super) fn slice_scatter(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let part = call.tensor(1)?;
    let part = call.builder.convert(part, call.builder.dtype(value));
    let range = range(call, &call.shape(value), 2)?;
    let made = replaced(call, value, part, &range)?;
    call.one(made)
}

pub(super) fn select(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let range = position(call, &call.shape(value), 1)?;
    let part = sliced(call, value, &range);
    let ty = call.result(0)?;
    let made = call.builder.reshape(part, &ty.shape);
    call.one(made)
}

pub(super) fn select_scatter(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let shape = call.shape(value);
    let range = position(call, &shape, 2)?;
    let part = call.tensor(1)?;
    let part = call.builder.convert(part, call.builder.dtype(value));
    let mut sizes = shape.to_vec();
    sizes[range.dim] = 1;
    let part = call.builder.reshape(part, &sizes);
    let made = replaced(call, value, part, &range)?;
    call.one(made)
}

/// One position of a dimension, as a slice.
fn position(call: &Call<'_>, shape: &[usize], place: usize) -> Result<Range, String> {
    let dim = call.dim(place, shape.len())?;
    let index = call.int(place + 1)?;
    let start = wrapped(index, shape[dim])?;
    Ok(Range { dim, start, limit: start + 1, step: 1 })
}

/// Zeros with the gradient in a slice: what a slice's gradient is.
pub(super) fn slice_backward(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let gradient = call.tensor(0)?;
    let range = range(call, &ty.shape, 2)?;
    let made = padded_to(call, gradient, &ty.shape, &range);
    call.one(made)
}

pub(super) fn select_backward(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let gradient = call.tensor(0)?;
    let range = position(call, &ty.shape, 2)?;
    let mut sizes = ty.shape.to_vec();
    sizes[range.dim] = 1;
    let gradient = call.builder.reshape(gradient, &sizes);
    let made = padded_to(call, gradient, &ty.shape, &range);
    call.one(made)
}

fn padded_to(call: &mut Call<'_>, part: ValueId, shape: &[usize], range: &Range) -> ValueId {
    let count = call.shape(part)[range.dim];
    let mut low = vec![0i64; shape.len()];
    let mut high = low.clone();
    let mut interior = low.clone();
    low[range.dim] = range.start as i64;
    interior[range.dim] = range.step as i64 - 1;
    let reach = if count == 0 { 0 } else { (count - 1) * range.step + 1 };
    high[range.dim] = shape[range.dim] as i64 - (range.start + reach) as i64;
    let dtype = call.builder.dtype(part);
    let zero = call.builder.scalar(dtype, 0.0);
    call.builder.pad(part, zero, &low, &high, &interior)
}

fn replaced(call: &mut Call<'_>, value: ValueId, part: ValueId, range: &Range) -> Result<ValueId, String> {
    let shape = call.shape(value);
    let mut sizes = shape.to_vec();
    sizes[range.dim] = (range.limit - range.start).div_ceil(range.step);
    let part = call.broadcast(part, &sizes)?;
    if sizes[..] == shape[..] {
        return Ok(part);
    }
    if range.step == 1 {
        // What is before and behind stays.
        let mut parts = Vec::new();
        if range.start > 0 {
            parts.push(call.builder.slice_dim(value, range.dim, 0, range.start));
        }
        parts.push(part);
        if range.limit < shape[range.dim] {
            parts.push(call.builder.slice_dim(value, range.dim, range.limit, shape[range.dim]));
        }
        return Ok(call.builder.concatenate(&parts, range.dim));
    }
    let spread = padded_to(call, part, &shape, range);
    let whole = Type::new(DType::Bool, &sizes);
    let marks = call.builder.full(&whole, 1.0);
    let is_replaced = padded_to(call, marks, &shape, range);
    Ok(call.builder.select(is_replaced, spread, value))
}

/// Parts of a dimension of given sizes, all of them results.
fn split(call: &mut Call<'_>, dim: usize, sizes: &[usize]) -> Made {
    let value = call.tensor(0)?;
    let mut start = 0;
    let mut made = Values::new();
    for &size in sizes {
        let range = Range { dim, start, limit: start + size, step: 1 };
        made.push(sliced(call, value, &range));
        start += size;
    }
    Ok(made)
}

pub(super) fn split_with_sizes(call: &mut Call<'_>) -> Made {
    let rank = call.rank(call.tensor(0)?);
    let dim = call.dim(2, rank)?;
    let sizes: Vec<usize> = call.ints(1)?.iter().map(|&size| size.max(0) as usize).collect();
    split(call, dim, &sizes)
}

pub(super) fn split_tensor(call: &mut Call<'_>) -> Made {
    let shape = call.shape(call.tensor(0)?);
    let dim = call.dim(2, shape.len())?;
    let size = call.int(1)?.max(1) as usize;
    let count = shape[dim].div_ceil(size).max(1);
    let sizes: Vec<usize> = (0..count).map(|index| size.min(shape[dim] - index * size)).collect();
    split(call, dim, &sizes)
}

pub(super) fn unbind(call: &mut Call<'_>) -> Made {
    let shape = call.shape(call.tensor(0)?);
    let dim = call.dim(1, shape.len())?;
    let parts = split(call, dim, &vec![1; shape[dim]])?;
    let mut rest = shape.to_vec();
    rest.remove(dim);
    Ok(parts.into_iter().map(|part| call.builder.reshape(part, &rest)).collect())
}

pub(super) fn cat(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let dim = call.dim(1, ty.rank())?;
    let given = call.tensors(0)?;
    // An empty list of no dimensions is let through for old code.
    let parts: Vec<ValueId> = given.into_iter().flatten().filter(|&part| call.shape(part)[..] != [0]).collect();
    let parts: Vec<ValueId> = parts.into_iter().map(|part| call.builder.convert(part, ty.dtype)).collect();
    let made = match parts[..] {
        [] => call.builder.full(&ty, 0.0),
        [only] => copied(call, only),
        _ => call.builder.concatenate(&parts, dim),
    };
    call.one(made)
}

pub(super) fn stack(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let dim = call.dim(1, ty.rank())?;
    let mut sizes = ty.shape.to_vec();
    sizes[dim] = 1;
    let given: Vec<ValueId> = call.tensors(0)?.into_iter().flatten().collect();
    let mut parts = Vec::new();
    for part in given {
        let part = call.builder.convert(part, ty.dtype);
        parts.push(call.builder.reshape(part, &sizes));
    }
    let made = call.builder.concatenate(&parts, dim);
    call.one(made)
}

pub(super) fn repeat(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let shape = call.shape(value);
    let offset = ty.rank() - shape.len();
    // Every dimension becomes two, of the repeats and of itself.
    let mut wide = Vec::new();
    let mut dims = Vec::new();
    for dim in 0..ty.rank() {
        let own = if dim < offset { 1 } else { shape[dim - offset] };
        if own == 0 {
            let made = call.builder.full(&ty, 0.0);
            return call.one(made);
        }
        wide.push(ty.shape[dim] / own);
        if dim >= offset {
            dims.push(wide.len());
        }
        wide.push(own);
    }
    let spread = call.builder.broadcast(value, &wide, &dims);
    let made = call.builder.reshape(spread, &ty.shape);
    call.one(made)
}

pub(super) fn flip(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let rank = call.rank(value);
    let dims = call.ints(1)?.iter().map(|&dim| wrapped(dim, rank)).collect::<Result<Dims, _>>()?;
    let made = if dims.is_empty() { value } else { call.builder.op(Op::Reverse { dims }, &[value], &[])[0] };
    call.one(made)
}

pub(super) fn roll(call: &mut Call<'_>) -> Made {
    let mut value = call.tensor(0)?;
    let shape = call.shape(value);
    let (shifts, dims) = (call.ints(1)?, call.ints(2)?);
    if dims.is_empty() {
        let count = shape.iter().product();
        value = call.builder.reshape(value, &[count]);
        value = rolled(call, value, 0, shifts.first().copied().unwrap_or(0));
        value = call.builder.reshape(value, &shape);
    }
    for (&dim, &shift) in dims.iter().zip(&shifts) {
        value = rolled(call, value, wrapped(dim, shape.len())?, shift);
    }
    call.one(value)
}

fn rolled(call: &mut Call<'_>, value: ValueId, dim: usize, shift: i64) -> ValueId {
    let size = call.shape(value)[dim];
    if size == 0 {
        return value;
    }
    let shift = shift.rem_euclid(size as i64) as usize;
    if shift == 0 {
        return value;
    }
    let end = call.builder.slice_dim(value, dim, size - shift, size);
    let start = call.builder.slice_dim(value, dim, 0, size - shift);
    call.builder.concatenate(&[end, start], dim)
}

/// Pads, from the last dimension on, or cuts where a size is below zero.
pub(super) fn constant_pad(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let ty = call.builder.ty(value);
    let given = call.ints(1)?;
    let mut low: SmallVec<[i64; 4]> = SmallVec::from_elem(0, ty.rank());
    let mut high = low.clone();
    for (index, pair) in given.chunks(2).enumerate().take(ty.rank()) {
        let dim = ty.rank() - 1 - index;
        (low[dim], high[dim]) = (pair[0], pair.get(1).copied().unwrap_or(0));
    }
    let padding = if call.has(2) { call.like(2, &Type::scalar(ty.dtype))? } else { call.builder.scalar(ty.dtype, 0.0) };
    let interior = vec![0; ty.rank()];
    let made = call.builder.pad(value, padding, &low, &high, &interior);
    call.one(made)
}

/// The diagonal of two dimensions, which are moved to the end.
struct Diagonal {
    offset: i64,
    /// The dimensions in their new order.
    order: Vec<usize>,
}

impl Diagonal {
    /// Places are those of the offset and of the two dimensions.
    fn new(call: &Call<'_>, rank: usize, place: usize) -> Result<Diagonal, String> {
        let (first, second) = (call.dim(place + 1, rank)?, call.dim(place + 2, rank)?);
        let mut order: Vec<usize> = (0..rank).filter(|&dim| dim != first && dim != second).collect();
        order.extend([first, second]);
        Ok(Diagonal { offset: call.int(place)?, order })
    }

    /// Where the diagonal is, for a shape in the new order.
    fn mask(&self, call: &mut Call<'_>, shape: &[usize]) -> Result<ValueId, String> {
        let whole = Type::new(DType::I64, &shape[shape.len() - 2..]);
        let (rows, columns) = (call.builder.iota(&whole, 0), call.builder.iota(&whole, 1));
        let target = call.builder.plus_number(rows, self.offset as f64);
        let mask = call.builder.compare(Direction::Equal, columns, target);
        call.broadcast(mask, shape)
    }

    /// The row in which it begins.
    fn start(&self) -> usize {
        (-self.offset).max(0) as usize
    }
}

/// The elements of two dimensions that have the same position, as a last dimension.
pub(super) fn diagonal(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let rank = call.rank(value);
    let diagonal = Diagonal::new(call, rank, 1)?;
    let value = call.builder.transpose(value, &diagonal.order);
    let mask = diagonal.mask(call, &call.shape(value))?;
    let zero = call.builder.full_like(value, 0.0);
    let value = call.builder.select(mask, value, zero);
    // In every row there is one element at most.
    let sum = call.builder.reduce(Binary::Add, value, 0.0, &[rank - 1]);
    let made = call.builder.slice_dim(sum, rank - 2, diagonal.start(), diagonal.start() + ty.shape[rank - 2]);
    call.one(made)
}

/// `diagonal_scatter(self, source, offset, first, second)`: a value with other elements on its diagonal.
pub(super) fn diagonal_scatter(call: &mut Call<'_>) -> Made {
    let (value, source) = (call.tensor(0)?, call.tensor(1)?);
    let rank = call.rank(value);
    let diagonal = Diagonal::new(call, rank, 2)?;
    let value = call.builder.transpose(value, &diagonal.order);
    let shape = call.shape(value);
    let source = call.builder.convert(source, call.builder.dtype(value));
    let start = diagonal.start();
    let count = call.shape(source)[rank - 2];
    let rows = Range { dim: rank - 2, start, limit: start + count, step: 1 };
    let source = padded_to(call, source, &shape[..rank - 1], &rows);
    let source = call.builder.broadcast_along(source, &shape, rank - 1);
    let mask = diagonal.mask(call, &shape)?;
    let made = call.builder.select(mask, source, value);
    let mut back = vec![0; rank];
    diagonal.order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    let made = call.builder.transpose(made, &back);
    call.one(made)
}

/// Windows along a dimension, as a last dimension.
pub(super) fn unfold(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    if call.rank(value) == 0 {
        // The only window of a number has it, or nothing.
        let made = call.builder.broadcast(value, &ty.shape, &[]);
        return call.one(made);
    }
    let rank = call.rank(value);
    let dim = call.dim(1, rank)?;
    let (size, step) = (call.int(2)? as usize, call.int(3)? as usize);
    let count = ty.shape[dim];
    let mut parts = Vec::new();
    for index in 0..size {
        let range = Range { dim, start: index, limit: index + (count - 1) * step + 1, step };
        let part = sliced(call, value, &range);
        let mut wide = call.shape(part).to_vec();
        wide.push(1);
        parts.push(call.builder.reshape(part, &wide));
    }
    let made = call.builder.concatenate(&parts, rank);
    call.one(made)
}

/// Where elements lie in flat storage, by sizes, strides and an offset in places from some on.
fn strided(call: &mut Call<'_>, shape: &[usize], place: usize) -> Result<ValueId, String> {
    let strides = call.ints(place)?;
    let offset = if call.has(place + 1) { call.int(place + 1)? } else { 0 };
    let whole = Type::new(DType::I64, shape);
    let mut positions = call.builder.full(&whole, offset as f64);
    for (dim, &stride) in strides.iter().enumerate() {
        let along = call.builder.iota(&whole, dim);
        let along = call.builder.times_number(along, stride as f64);
        positions = call.builder.plus(positions, along);
    }
    Ok(positions)
}

/// Elements of flat storage. Of a value that lies in order, that is a gather.
pub(super) fn as_strided(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let value = call.tensor(0)?;
    let count: usize = call.shape(value).iter().product();
    if count == ty.elements() && is_straight(call, &ty.shape, 2)? {
        let made = call.builder.reshape(unshaped(call, value), &ty.shape);
        return call.one(made);
    }
    let flat = call.builder.reshape(value, &[count]);
    let positions = strided(call, &ty.shape, 2)?;
    let made = super::index::taken(call, flat, positions, 0);
    call.one(made)
}

/// Whether strides and offset say that elements lie one behind the other. Where a dimension has one element, its stride says
/// nothing.
fn is_straight(call: &Call<'_>, shape: &[usize], place: usize) -> Result<bool, String> {
    let strides = call.ints(place)?;
    let offset = if call.has(place + 1) { call.int(place + 1)? } else { 0 };
    let mut expected: i64 = 1;
    for (&size, &stride) in shape.iter().zip(&strides).rev() {
        if size != 1 && stride != expected {
            return Ok(false);
        }
        expected = expected.saturating_mul(size as i64);
    }
    Ok(offset == 0 && strides.len() == shape.len())
}

/// `as_strided_scatter(self, source, sizes, strides, offset)`.
pub(super) fn as_strided_scatter(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (value, source) = (call.tensor(0)?, call.tensor(1)?);
    let shape = call.shape(source);
    if shape.iter().product::<usize>() == ty.elements() && is_straight(call, &shape, 3)? {
        let made = call.builder.convert(source, ty.dtype);
        let made = call.builder.reshape(made, &ty.shape);
        return call.one(made);
    }
    let flat = call.builder.reshape(value, &[ty.elements()]);
    let positions = strided(call, &shape, 3)?;
    let made = super::index::replaced_at(call, flat, positions, source);
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

//! Ops that read or write where other tensors say, and ops that order elements.

use smallvec::{SmallVec, smallvec};

use super::call::{Call, Made};
use super::text::Operand;
use crate::program::{Binary, DType, Dims, Direction, Gather, Op, Scatter, Shape, Type, ValueId, Values};

/// Indices below zero count from the end.
pub(super) fn from_start(call: &mut Call<'_>, indices: ValueId, size: usize) -> ValueId {
    let indices = call.builder.convert(indices, DType::I64);
    let zero = call.builder.full_like(indices, 0.0);
    let is_negative = call.builder.compare(Direction::Less, indices, zero);
    let moved = call.builder.plus_number(indices, size as f64);
    call.builder.select(is_negative, moved, indices)
}

/// Slices of a dimension where indices say, whose dimensions come in its place.
pub(super) fn taken(call: &mut Call<'_>, value: ValueId, indices: ValueId, dim: usize) -> ValueId {
    let (rank, index_rank) = (call.rank(value), call.rank(indices));
    let mut slice_sizes = call.shape(value);
    slice_sizes[dim] = 1;
    let offsets = (0..dim).chain(dim + index_rank..rank - 1 + index_rank);
    let gather = Gather {
        offset_dims: offsets.collect(),
        collapsed_slice_dims: smallvec![dim],
        operand_batching_dims: Dims::new(),
        start_indices_batching_dims: Dims::new(),
        start_index_map: smallvec![dim],
        index_vector_dim: index_rank,
        slice_sizes,
        indices_are_sorted: false,
    };
    call.builder.gather(value, indices, gather)
}

/// `embedding(weight, indices, padding, ...)`.
pub(super) fn embedding(call: &mut Call<'_>) -> Made {
    let (table, indices) = (call.tensor(0)?, call.tensor(1)?);
    let made = taken(call, table, indices, 0);
    call.one(made)
}

/// `(gradient, indices, rows, padding index, scale by frequency)`.
pub(super) fn embedding_dense_backward(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    if call.flag(4) {
        return Err("gradients scaled by frequency are not known".to_owned());
    }
    let (gradient, indices) = (call.tensor(0)?, call.tensor(1)?);
    let padding = call.int(3)?;
    let gradient = if (0..ty.shape[0] as i64).contains(&padding) {
        let number = call.builder.full_like(indices, padding as f64);
        let is_real = call.builder.compare(Direction::NotEqual, indices, number);
        let shape = call.shape(gradient);
        let dims: Dims = (0..call.rank(indices)).collect();
        let is_real = call.builder.broadcast(is_real, &shape, &dims);
        let zero = call.builder.full_like(gradient, 0.0);
        call.builder.select(is_real, gradient, zero)
    } else {
        gradient
    };
    let zeros = call.builder.full(&ty, 0.0);
    let made = put(call, zeros, indices, gradient, 0, Update::Add);
    call.one(made)
}

/// What becomes of an element that an update meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    Add,
    Replace,
    Reduce(Binary),
}

/// Writes elements of the first dimension where indices say.
pub(super) fn replaced_at(call: &mut Call<'_>, value: ValueId, indices: ValueId, updates: ValueId) -> ValueId {
    put(call, value, indices, updates, 0, Update::Replace)
}

/// Writes slices of a dimension where indices say.
fn put(call: &mut Call<'_>, value: ValueId, indices: ValueId, updates: ValueId, dim: usize, update: Update) -> ValueId {
    let (rank, index_rank) = (call.rank(value), call.rank(indices));
    let scatter = Scatter {
        update_window_dims: (0..dim).chain(dim + index_rank..rank - 1 + index_rank).collect(),
        inserted_window_dims: smallvec![dim],
        input_batching_dims: Dims::new(),
        scatter_indices_batching_dims: Dims::new(),
        scatter_dims_to_operand_dims: smallvec![dim],
        index_vector_dim: index_rank,
        indices_are_sorted: false,
        unique_indices: false,
    };
    written(call, value, indices, updates, scatter, update)
}

pub(super) fn written(
    call: &mut Call<'_>,
    value: ValueId,
    indices: ValueId,
    updates: ValueId,
    scatter: Scatter,
    update: Update,
) -> ValueId {
    let dtype = call.builder.dtype(value);
    let updates = call.builder.convert(updates, dtype);
    let region = match update {
        Update::Add => call.builder.reducer(Binary::Add, dtype),
        Update::Reduce(binary) => call.builder.reducer(binary, dtype),
        Update::Replace => {
            let region = call.builder.program.add_region();
            call.builder.program.add_region_argument(region, Type::scalar(dtype));
            let new = call.builder.program.add_region_argument(region, Type::scalar(dtype));
            call.builder.program.regions[region].results = vec![new];
            region
        }
    };
    call.builder.op(Op::Scatter(Box::new(scatter)), &[value, indices, updates], &[region])[0]
}

pub(super) fn index_select(call: &mut Call<'_>) -> Made {
    let (value, indices) = (call.tensor(0)?, call.tensor(2)?);
    let ty = call.result(0)?;
    if call.rank(value) == 0 {
        return call.one(value);
    }
    let dim = call.dim(1, call.rank(value))?;
    let size = call.shape(value)[dim];
    let indices = from_start(call, indices, size);
    let count: usize = call.shape(indices).iter().product();
    let indices = call.builder.reshape(indices, &[count]);
    let made = taken(call, value, indices, dim);
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

/// `(self, dim, index, source, alpha)`.
pub(super) fn index_add(call: &mut Call<'_>) -> Made {
    let source = call.tensor(3)?;
    let source = super::elementwise::scaled(call, 4, source)?;
    index_write(call, source, Update::Add)
}

pub(super) fn index_copy(call: &mut Call<'_>) -> Made {
    let source = call.tensor(3)?;
    index_write(call, source, Update::Replace)
}

/// `(self, dim, index, number)`.
pub(super) fn index_fill(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let dim = call.dim(1, ty.rank())?;
    let indices = call.tensor(2)?;
    let mut shape = if ty.rank() == 0 { vec![1] } else { ty.shape.to_vec() };
    shape[dim] = call.shape(indices).iter().product();
    let source = call.like(3, &ty.with_shape(&shape))?;
    index_write(call, source, Update::Replace)
}

fn index_write(call: &mut Call<'_>, source: ValueId, update: Update) -> Made {
    let (whole, indices) = (call.tensor(0)?, call.tensor(2)?);
    let [value, indices, source] = [whole, indices, source].map(|value| with_dimension(call, value));
    let dim = call.dim(1, call.rank(value))?;
    let size = call.shape(value)[dim];
    let indices = from_start(call, indices, size);
    let made = put(call, value, indices, source, dim, update);
    let made = call.builder.reshape(made, &call.shape(whole));
    call.one(made)
}

/// PyTorch takes a number for a list of one wherever a dimension is asked for.
fn with_dimension(call: &mut Call<'_>, value: ValueId) -> ValueId {
    if call.rank(value) == 0 { call.builder.reshape(value, &[1]) } else { value }
}

/// Positions along one dimension for each element, all other dimensions being the element's own.
struct Along {
    dim: usize,
    /// The part of the value that the positions can reach.
    reached: Shape,
}

impl Along {
    fn new(call: &Call<'_>, value: ValueId, indices: ValueId) -> Result<Along, String> {
        let shape = call.shape(value);
        let dim = call.dim(1, shape.len())?;
        let mut reached = call.shape(indices);
        reached[dim] = shape[dim];
        Ok(Along { dim, reached })
    }

    fn others(&self) -> Dims {
        (0..self.reached.len()).filter(|&dim| dim != self.dim).collect()
    }
}

/// `gather(self, dim, index)`.
pub(super) fn gather(call: &mut Call<'_>) -> Made {
    let (value, indices) = (call.tensor(0)?, call.tensor(2)?);
    if call.rank(value) == 0 || call.rank(indices) == 0 {
        return call.one(value);
    }
    let along = Along::new(call, value, indices)?;
    let zeros = vec![0; along.reached.len()];
    let ones = vec![1; along.reached.len()];
    let value = if call.shape(value) == along.reached {
        value
    } else {
        call.builder.slice(value, &zeros, &along.reached, &ones)
    };
    let indices = call.builder.convert(indices, DType::I64);
    let mut shape = call.shape(indices).to_vec();
    shape.push(1);
    let rank = along.reached.len();
    let positions = call.builder.reshape(indices, &shape);
    let gather = Gather {
        offset_dims: Dims::new(),
        collapsed_slice_dims: smallvec![along.dim],
        operand_batching_dims: along.others(),
        start_indices_batching_dims: along.others(),
        start_index_map: smallvec![along.dim],
        index_vector_dim: rank,
        slice_sizes: SmallVec::from_elem(1, rank),
        indices_are_sorted: false,
    };
    let made = call.builder.gather(value, positions, gather);
    call.one(made)
}

/// `scatter(self, dim, index, source or number)`.
pub(super) fn scatter(call: &mut Call<'_>) -> Made {
    scattered(call, Update::Replace)
}

pub(super) fn scatter_add(call: &mut Call<'_>) -> Made {
    scattered(call, Update::Add)
}

/// `scatter_reduce(self, dim, index, source, how, include_self)`.
pub(super) fn scatter_reduce(call: &mut Call<'_>) -> Made {
    let (value, updates) = (call.tensor(0)?, updates(call)?);
    let includes_self = !call.has(5) || call.flag(5);
    let is_mean = call.text(4) == "mean";
    let binary = match call.text(4) {
        "sum" | "add" | "mean" => Binary::Add,
        "prod" | "multiply" => Binary::Multiply,
        "amax" => Binary::Maximum,
        "amin" => Binary::Minimum,
        other => return Err(format!("`{other}` is not known")),
    };
    let mut start = value;
    if !includes_self {
        // What is written to begins with what changes nothing.
        let nothing = super::reduce::neutral(binary, call.builder.dtype(value));
        let nothing = call.builder.full(&call.builder.ty(value).with_shape(&call.shape(updates)), nothing);
        start = write(call, value, nothing, Update::Replace)?;
    }
    let made = write(call, start, updates, Update::Reduce(binary))?;
    if !is_mean {
        return call.one(made);
    }
    let ones = call.builder.full_like(updates, 1.0);
    let counts = call.builder.full_like(value, f64::from(u8::from(includes_self)));
    let counts = write(call, counts, ones, Update::Add)?;
    let least = call.builder.full_like(counts, 1.0);
    let counts = call.builder.binary(Binary::Maximum, counts, least);
    let made = call.builder.over(made, counts);
    call.one(made)
}

fn scattered(call: &mut Call<'_>, update: Update) -> Made {
    let (value, updates) = (call.tensor(0)?, updates(call)?);
    let made = write(call, value, updates, update)?;
    call.one(made)
}

/// What is written, of the shape of the indices: a part of the source, or a number everywhere.
fn updates(call: &mut Call<'_>) -> Result<ValueId, String> {
    let (value, indices) = (call.tensor(0)?, call.tensor(2)?);
    let indices = with_dimension(call, indices);
    let shape = call.shape(indices);
    let Operand::Value(_) = call.operand(3) else { return call.like(3, &call.builder.ty(value).with_shape(&shape)) };
    let source = call.tensor(3)?;
    let source = with_dimension(call, source);
    let (zeros, ones) = (vec![0; shape.len()], vec![1; shape.len()]);
    Ok(if call.shape(source) == shape { source } else { call.builder.slice(source, &zeros, &shape, &ones) })
}

/// A value with updates in the places of the indices.
fn write(call: &mut Call<'_>, whole: ValueId, updates: ValueId, update: Update) -> Result<ValueId, String> {
    let indices = call.tensor(2)?;
    let [value, indices] = [whole, indices].map(|value| with_dimension(call, value));
    let ty = call.builder.ty(value);
    let along = Along::new(call, value, indices)?;
    let index_shape = call.shape(indices);
    let indices = call.builder.convert(indices, DType::I64);
    if ty.shape == along.reached {
        let made = written_along(call, value, indices, updates, along.dim, update);
        return Ok(call.builder.reshape(made, &call.shape(whole)));
    }
    let rank = ty.rank();
    let mut wide = index_shape.to_vec();
    wide.push(1);
    // Where only a part is reached, every element says its whole place.
    let whole = Type::new(DType::I64, &index_shape);
    let mut places = Vec::new();
    for dim in 0..rank {
        let place = if dim == along.dim { indices } else { call.builder.iota(&whole, dim) };
        places.push(call.builder.reshape(place, &wide));
    }
    let positions = call.builder.concatenate(&places, rank);
    let scatter = Scatter {
        update_window_dims: Dims::new(),
        inserted_window_dims: (0..rank).collect(),
        input_batching_dims: Dims::new(),
        scatter_indices_batching_dims: Dims::new(),
        scatter_dims_to_operand_dims: (0..rank).collect(),
        index_vector_dim: rank,
        indices_are_sorted: false,
        unique_indices: false,
    };
    Ok(written(call, value, positions, updates, scatter, update))
}

/// Adds elements to those of a value that other elements say the places of, along one dimension.
pub(super) fn added_along(
    call: &mut Call<'_>,
    value: ValueId,
    indices: ValueId,
    updates: ValueId,
    dim: usize,
) -> ValueId {
    written_along(call, value, indices, updates, dim, Update::Add)
}

fn written_along(
    call: &mut Call<'_>,
    value: ValueId,
    indices: ValueId,
    updates: ValueId,
    dim: usize,
    update: Update,
) -> ValueId {
    let mut wide = call.shape(indices).to_vec();
    let rank = wide.len();
    wide.push(1);
    let others: Dims = (0..rank).filter(|&other| other != dim).collect();
    let positions = call.builder.reshape(indices, &wide);
    let scatter = Scatter {
        update_window_dims: Dims::new(),
        inserted_window_dims: smallvec![dim],
        input_batching_dims: others.clone(),
        scatter_indices_batching_dims: others,
        scatter_dims_to_operand_dims: smallvec![dim],
        index_vector_dim: rank,
        indices_are_sorted: false,
        unique_indices: false,
    };
    written(call, value, positions, updates, scatter, update)
}

// Order.

/// Tensors ordered together by the first of them.
pub(super) fn sorted(call: &mut Call<'_>, values: &[ValueId], dim: usize, descending: bool) -> Values {
    let region = call.builder.program.add_region();
    let mut arguments = Vec::new();
    for &value in values {
        let dtype = call.builder.dtype(value);
        for _ in 0..2 {
            arguments.push(call.builder.program.add_region_argument(region, Type::scalar(dtype)));
        }
    }
    let direction = if descending { Direction::Greater } else { Direction::Less };
    let result = call.builder.inside(region, |builder| builder.compare(direction, arguments[0], arguments[1]));
    call.builder.program.regions[region].results = vec![result];
    call.builder.op(Op::Sort { dim, stable: true }, values, &[region])
}

/// `sort(self, dim, descending)`.
pub(super) fn sort(call: &mut Call<'_>) -> Made {
    let descending = call.flag(2);
    ordered(call, 1, descending)
}

/// `sort.stable(self, *, stable, dim, descending)`.
pub(super) fn sort_stable(call: &mut Call<'_>) -> Made {
    let descending = call.flag(3);
    ordered(call, 2, descending)
}

fn ordered(call: &mut Call<'_>, place: usize, descending: bool) -> Made {
    let value = call.tensor(0)?;
    let ty = call.builder.ty(value);
    if ty.rank() == 0 {
        let zero = call.builder.scalar(DType::I64, 0.0);
        return Ok(smallvec![value, zero]);
    }
    let dim = call.dim(place, ty.rank())?;
    let positions = call.builder.iota(&ty.with_dtype(DType::I64), dim);
    Ok(sorted(call, &[value, positions], dim, descending))
}

/// `topk(self, k, dim, largest, sorted)`.
pub(super) fn topk(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let ty = call.builder.ty(value);
    if ty.rank() == 0 {
        let zero = call.builder.scalar(DType::I64, 0.0);
        return Ok(smallvec![value, zero]);
    }
    let k = call.int(1)?.max(0) as usize;
    let dim = call.dim(2, ty.rank())?;
    let is_largest = !call.has(3) || call.flag(3);
    if is_largest && dim + 1 == ty.rank() {
        let made = call.builder.op(Op::TopK { k }, &[value], &[]);
        let positions = call.builder.convert(made[1], DType::I64);
        return Ok(smallvec![made[0], positions]);
    }
    let positions = call.builder.iota(&ty.with_dtype(DType::I64), dim);
    let made = sorted(call, &[value, positions], dim, is_largest);
    Ok(made.iter().map(|&value| call.builder.slice_dim(value, dim, 0, k)).collect())
}

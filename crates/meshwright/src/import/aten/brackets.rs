//! Elements and slices where tensors between brackets say, as `x[i, j]`, and writes to these.

use smallvec::SmallVec;

use super::call::{Call, Made};
use super::index::{Update, from_start, written};
use crate::program::{Binary, DType, Dims, Gather, Op, Program, Scatter, Shape, ValueId};

/// `index(self, [positions or nothing for each dimension])`.
pub(super) fn index(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let brackets = Brackets::new(call, value)?;
    let Some(positions) = brackets.positions else {
        let made = brackets.spread(call, value);
        return call.one(made);
    };
    let mut slice_sizes = call.shape(value);
    brackets.dims.iter().for_each(|&dim| slice_sizes[dim] = 1);
    let gather = Gather {
        offset_dims: brackets.window(slice_sizes.len()),
        collapsed_slice_dims: brackets.looked_up(),
        operand_batching_dims: brackets.counted_dims(),
        start_indices_batching_dims: brackets.counted_along(),
        start_index_map: brackets.looked_up(),
        index_vector_dim: brackets.shape.len(),
        slice_sizes,
        indices_are_sorted: false,
    };
    let made = call.builder.gather(value, positions, gather);
    call.one(made)
}

/// `index_put(self, positions, values, accumulate)`.
pub(super) fn index_put(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let ty = call.builder.ty(value);
    let mut brackets = Brackets::new(call, value)?;
    let positions = brackets.some_positions(call);
    let window = brackets.window(ty.rank());
    let shape = brackets.result_shape(&ty.shape);
    let updates = call.tensor(2)?;
    let updates = call.broadcast(updates, &shape)?;
    let scatter = Scatter {
        update_window_dims: window,
        inserted_window_dims: brackets.looked_up(),
        input_batching_dims: brackets.counted_dims(),
        scatter_indices_batching_dims: brackets.counted_along(),
        scatter_dims_to_operand_dims: brackets.looked_up(),
        index_vector_dim: brackets.shape.len(),
        indices_are_sorted: false,
        unique_indices: false,
    };
    let update = if call.flag(3) { Update::Add } else { Update::Replace };
    let made = written(call, value, positions, updates, scatter, update);
    call.one(made)
}

/// What stands between brackets: some dimensions have a tensor of positions, and these broadcast to one shape.
struct Brackets {
    /// The dimensions that have positions.
    dims: Dims,
    /// Those of them whose positions only count along a dimension of the shape, all of it, with that dimension. What is
    /// read there can be cut as the value is, which nobody could tell of positions.
    counted: SmallVec<[(usize, usize); 2]>,
    /// The shape of all positions together.
    shape: Shape,
    /// Where that shape stands among the dimensions of the result.
    place: usize,
    /// The positions, one for each of `dims` that are not counted, as a last dimension.
    positions: Option<ValueId>,
}

impl Brackets {
    fn new(call: &mut Call<'_>, value: ValueId) -> Result<Brackets, String> {
        let given = call.tensors(1)?;
        let sizes = call.shape(value);
        let dims: Dims = given.iter().enumerate().filter(|(_, index)| index.is_some()).map(|(dim, _)| dim).collect();
        let found: Vec<ValueId> = given.into_iter().flatten().collect();
        if found.is_empty() {
            return Err("there is nothing between the brackets".to_owned());
        }
        if found.iter().any(|&index| call.builder.dtype(index) == DType::Bool) {
            return Err("a mask as an index depends on the numbers in it".to_owned());
        }
        let shape = common_shape(call, &found);
        // Positions that stand side by side come in their place, others in front.
        let is_together = dims.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let place = if is_together { dims.first().copied().unwrap_or(0) } else { 0 };
        let mut brackets = Brackets { dims, counted: SmallVec::new(), shape, place, positions: None };
        let mut columns = Vec::new();
        for (number, &index) in found.iter().enumerate() {
            let dim = brackets.dims[number];
            match brackets.along(call, index, sizes[dim]) {
                Some(along) => brackets.counted.push((dim, along)),
                None => columns.push(brackets.column(call, index, sizes[dim])?),
            }
        }
        brackets.positions = match columns[..] {
            [] => None,
            [only] => Some(only),
            _ => Some(call.builder.concatenate(&columns, brackets.shape.len())),
        };
        Ok(brackets)
    }

    /// The dimension of the shape along which positions count all of a dimension that has some size.
    fn along(&self, call: &Call<'_>, index: ValueId, size: usize) -> Option<usize> {
        let own = counts_along(&call.builder.program, index)?;
        let along = own + self.shape.len() - call.rank(index);
        let is_free = self.counted.iter().all(|&(_, taken)| taken != along);
        (is_free && self.shape[along] == size).then_some(along)
    }

    /// The positions of one dimension, of the common shape and with a last dimension.
    fn column(&self, call: &mut Call<'_>, index: ValueId, size: usize) -> Result<ValueId, String> {
        let index = from_start(call, index, size);
        let index = call.broadcast(index, &self.shape)?;
        let mut wide = self.shape.to_vec();
        wide.push(1);
        Ok(call.builder.reshape(index, &wide))
    }

    /// Positions for what cannot do without any: the last dimension that counts is looked up like others.
    fn some_positions(&mut self, call: &mut Call<'_>) -> ValueId {
        if let Some(positions) = self.positions {
            return positions;
        }
        let along = self.counted.pop().map_or(0, |(_, along)| along);
        let mut wide = self.shape.to_vec();
        wide.push(1);
        call.builder.iota(&crate::program::Type::new(DType::I64, &wide), along)
    }

    /// The value where all positions count: its dimensions in another order, and new ones.
    fn spread(&self, call: &mut Call<'_>, value: ValueId) -> ValueId {
        let sizes = call.shape(value);
        let mut window = self.window(sizes.len()).into_iter();
        let mut targets = Vec::new();
        for dim in 0..sizes.len() {
            let counted = self.counted.iter().find(|(own, _)| *own == dim).map(|(_, along)| self.place + along);
            targets.extend(counted.or_else(|| window.next()));
        }
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_unstable_by_key(|&dim| targets[dim]);
        targets.sort_unstable();
        let turned = call.builder.transpose(value, &order);
        call.builder.broadcast(turned, &self.result_shape(&sizes), &targets)
    }

    fn result_shape(&self, sizes: &[usize]) -> Vec<usize> {
        let kept = (0..sizes.len()).filter(|dim| !self.dims.contains(dim)).map(|dim| sizes[dim]);
        let mut shape: Vec<usize> = kept.collect();
        shape.splice(self.place..self.place, self.shape.iter().copied());
        shape
    }

    /// The dimensions of the result that are those of whole slices.
    fn window(&self, rank: usize) -> Dims {
        let kept = rank - self.dims.len();
        (0..kept).map(|dim| if dim < self.place { dim } else { dim + self.shape.len() }).collect()
    }

    fn counted_dims(&self) -> Dims {
        self.counted.iter().map(|&(dim, _)| dim).collect()
    }

    fn counted_along(&self) -> Dims {
        self.counted.iter().map(|&(_, along)| along).collect()
    }

    fn looked_up(&self) -> Dims {
        let is_counted = |dim: usize| self.counted.iter().any(|&(counted, _)| counted == dim);
        self.dims.iter().copied().filter(|&dim| !is_counted(dim)).collect()
    }
}

fn common_shape(call: &Call<'_>, indices: &[ValueId]) -> Shape {
    let mut shape = Shape::new();
    for &index in indices {
        let own = call.shape(index);
        while shape.len() < own.len() {
            shape.insert(0, 1);
        }
        let offset = shape.len() - own.len();
        for (dim, &size) in own.iter().enumerate() {
            if size != 1 {
                shape[offset + dim] = size;
            }
        }
    }
    shape
}

/// The dimension along which a value is 0, 1, 2 and so on, whatever the place in all others.
fn counts_along(program: &Program, value: ValueId) -> Option<usize> {
    let operation = &program.ops[program.producer(value)?];
    let operand = |number: usize| operation.operands[number];
    match &operation.op {
        Op::Iota { dim, .. } => Some(*dim),
        Op::Convert { .. } => {
            let is_wide = |value: ValueId| matches!(program.ty(value).dtype, DType::I32 | DType::I64 | DType::F64);
            (is_wide(value) && is_wide(operand(0))).then(|| counts_along(program, operand(0)))?
        }
        Op::BroadcastInDim(broadcast) => {
            let dim = counts_along(program, operand(0))?;
            let to = broadcast.dims[dim];
            (broadcast.shape[to] == program.shape(operand(0))[dim]).then_some(to)
        }
        Op::Transpose { permutation } => {
            let dim = counts_along(program, operand(0))?;
            permutation.iter().position(|&from| from == dim)
        }
        Op::Reshape { shape } => {
            // Dimensions of one element come and go.
            let dim = counts_along(program, operand(0))?;
            let own = program.shape(operand(0));
            let before = own[..dim].iter().filter(|&&size| size != 1).count();
            let to = (0..shape.len()).filter(|&dim| shape[dim] != 1).nth(before)?;
            let is_squeezed = own.iter().filter(|&&size| size != 1).eq(shape.iter().filter(|&&size| size != 1));
            (own[dim] != 1 && is_squeezed).then_some(to)
        }
        Op::Binary(binary @ (Binary::Add | Binary::Multiply)) => {
            let nothing = if *binary == Binary::Add { 0 } else { 1 };
            let number = (0..2).find(|&number| splat(program, operand(number)) == Some(nothing))?;
            counts_along(program, operand(1 - number))
        }
        // All others make numbers that are not looked into.
        _ => None,
    }
}

/// The number that a value has everywhere.
fn splat(program: &Program, value: ValueId) -> Option<i64> {
    let operation = &program.ops[program.producer(value)?];
    match &operation.op {
        Op::Constant(literal) => {
            literal.as_splat_number().filter(|number| number.fract() == 0.0).map(|number| number as i64)
        }
        Op::BroadcastInDim(_) | Op::Convert { .. } | Op::Reshape { .. } => splat(program, operation.operands[0]),
        // All others are no constants.
        _ => None,
    }
}

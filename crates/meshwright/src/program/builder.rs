//! Writing programs by hand: one method per op, shapes inferred.
//!
//! What does not fit is an error that the builder holds until [`finish`](Builder::finish), so that a
//! forward pass reads as the formulas it is made of. From then on methods give a stand-in for every
//! value, whose shape can be asked for anything.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{
    Algorithm, Argument, Attention, Binary, BroadcastInDim, Convolution, DType, Definition, Dims, Direction,
    DotGeneral, Gather, Literal, Location, LocationId, Op, OpId, Order, Pad, Program, RegionId, ResultInfo, Scatter,
    Shape, Slice, Type, Unary, Value, ValueId, Values,
};

/// A program under construction, and the place where ops are added.
#[derive(Debug)]
pub struct Builder {
    pub program: Program,
    region: RegionId,
    /// The path of scopes, such as `layers.0/attn`.
    scope: String,
    /// The location of the scope itself.
    location: LocationId,
    locations: FxHashMap<String, LocationId>,
    /// Where ops stand, by where their scope does and by what they are called.
    op_locations: FxHashMap<LocationId, Vec<(Box<str>, LocationId)>>,
    /// The other way round: the location of the scope of ops.
    scope_locations: FxHashMap<LocationId, LocationId>,
    /// Scalar constants of the region by type and bits, so that each is there once.
    constants: FxHashMap<(Type, u128), ValueId>,
    /// Runs of ops of the body that are recomputed in the backward pass.
    blocks: Vec<Range<usize>>,
    /// Values that no gradient goes through.
    stopped: FxHashSet<ValueId>,
    /// Where ops of the backward pass stand, by where those of the forward pass stand.
    backward: FxHashMap<LocationId, LocationId>,
    /// The size of all arguments together.
    argument_bits: usize,
    /// The first error, with the scope where it happened.
    error: Option<String>,
    /// What stands for values once there is an error.
    stand_in: Option<ValueId>,
}

/// Dimensions of a value that stands for others: no op has a dimension above it.
const STAND_IN_RANK: usize = 64;

/// The region that a builder was in before it entered another.
#[derive(Debug)]
pub struct OuterRegion {
    region: RegionId,
    constants: FxHashMap<(Type, u128), ValueId>,
}

impl Builder {
    pub fn new(name: &str) -> Builder {
        Builder::on(Program::new(name))
    }

    /// Goes on with a program at the end of its body.
    pub fn on(program: Program) -> Builder {
        let region = program.body;
        Builder {
            program,
            region,
            scope: String::new(),
            location: Program::UNKNOWN_LOCATION,
            locations: FxHashMap::default(),
            op_locations: FxHashMap::default(),
            scope_locations: FxHashMap::default(),
            constants: FxHashMap::default(),
            blocks: Vec::new(),
            stopped: FxHashSet::default(),
            backward: FxHashMap::default(),
            argument_bits: 0,
            error: None,
            stand_in: None,
        }
    }

    /// The program, or the first error.
    pub fn finish(self) -> Result<Program, String> {
        self.error.map_or(Ok(self.program), Err)
    }

    /// The first error so far.
    pub fn check(&self) -> Result<(), String> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Holds an error, unless there is one already; gives what stands for the value that is missing.
    pub fn fail(&mut self, message: &str) -> ValueId {
        if self.error.is_none() {
            let place = if self.scope.is_empty() { String::new() } else { format!(" (in `{}`)", self.scope) };
            self.error = Some(format!("{message}{place}"));
        }
        self.stand_in()
    }

    fn stand_in(&mut self) -> ValueId {
        if let Some(value) = self.stand_in {
            return value;
        }
        let ty = Type::new(DType::F32, &[1; STAND_IN_RANK]);
        // It belongs to no region: nobody will see the program.
        let definition = Definition::Argument { region: self.program.body, index: u32::MAX };
        let value = self.program.values.push(Value { ty, definition });
        self.stand_in = Some(value);
        value
    }

    pub fn argument(&mut self, name: impl Into<String>, ty: Type) -> ValueId {
        let bits = ty.checked_elements().map(|elements| elements * ty.dtype.bits());
        let total = bits.and_then(|bits| self.argument_bits.checked_add(bits));
        let Some(total) = total.filter(|&total| total <= i64::MAX as usize) else {
            return self
                .fail(&format!("with `{}` of type `{ty}`, arguments are more than 63 bits can count", name.into()));
        };
        self.argument_bits = total;
        self.program.add_argument(Argument { name: name.into(), ..Argument::default() }, ty)
    }

    pub fn result(&mut self, name: impl Into<String>, value: ValueId) {
        self.program.add_result(value, ResultInfo { name: name.into() });
    }

    /// Everything that `build` adds stands in the scope `name` inside the present one.
    pub fn scoped<T>(&mut self, name: &str, build: impl FnOnce(&mut Builder) -> T) -> T {
        let outer = self.enter(name);
        let made = build(self);
        self.leave(outer);
        made
    }

    /// Enters a scope inside the present one; what it gives is for [`leave`](Builder::leave).
    pub fn enter(&mut self, name: &str) -> (usize, LocationId) {
        let outer = (self.scope.len(), self.location);
        if !self.scope.is_empty() {
            self.scope.push('/');
        }
        self.scope.push_str(name);
        self.location = self.locate(None);
        outer
    }

    pub fn leave(&mut self, (length, location): (usize, LocationId)) {
        self.scope.truncate(length);
        self.location = location;
    }

    /// The location of the present scope, or of another one.
    pub fn locate(&mut self, scope: Option<&str>) -> LocationId {
        let scope = scope.unwrap_or(&self.scope);
        if let Some(&location) = self.locations.get(scope) {
            return location;
        }
        let location = Location { scope: scope.into(), ..Location::unknown() };
        let id = self.program.locations.push(location);
        self.locations.insert(scope.to_owned(), id);
        id
    }

    /// What `build` adds to the body is recomputed in the backward pass instead of kept.
    pub fn recomputed<T>(&mut self, build: impl FnOnce(&mut Builder) -> T) -> T {
        let start = self.start_block();
        let made = build(self);
        self.end_block(start);
        made
    }

    /// Starts a run of ops that is recomputed; what it gives is for [`end_block`](Builder::end_block).
    pub fn start_block(&mut self) -> usize {
        // A constant made outside would be one of the values that are held back.
        self.constants.clear();
        self.program.body().ops.len()
    }

    pub fn end_block(&mut self, start: usize) {
        self.constants.clear();
        self.blocks.push(start..self.program.body().ops.len());
    }

    pub(crate) fn blocks(&self) -> Vec<Range<usize>> {
        self.blocks.clone()
    }

    /// The location of an op in the present scope: its own name comes last, as in programs from JAX.
    fn op_location(&mut self, op: &Op) -> LocationId {
        let name = op.name();
        let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
        let known = self.op_locations.entry(self.location).or_default();
        if let Some((_, location)) = known.iter().find(|(known, _)| **known == *name) {
            return *location;
        }
        let outer = self.program.locations[self.location].clone();
        let scope = if outer.scope.is_empty() { name.to_owned() } else { format!("{}/{name}", outer.scope) };
        let location = self.program.locations.push(Location { scope: scope.into(), ..outer });
        known.push((name.into(), location));
        self.scope_locations.insert(location, self.location);
        location
    }

    /// The location of the scope of what belongs to the gradient of an op, as JAX writes it.
    pub(crate) fn backward_location(&mut self, forward: LocationId) -> LocationId {
        let forward = self.scope_locations.get(&forward).copied().unwrap_or(forward);
        if let Some(&location) = self.backward.get(&forward) {
            return location;
        }
        let scope = format!("transpose({})", self.program.locations[forward].scope);
        let location = self.locate(Some(&scope));
        self.backward.insert(forward, location);
        // The gradient of a gradient would be a second order; it stays where it is.
        self.backward.insert(location, location);
        location
    }

    /// Adds ops at another location until `build` is done.
    pub fn located<T>(&mut self, location: LocationId, build: impl FnOnce(&mut Builder) -> T) -> T {
        let outer = std::mem::replace(&mut self.location, location);
        let made = build(self);
        self.location = outer;
        made
    }

    /// Adds ops to another region until `build` is done.
    pub fn inside<T>(&mut self, region: RegionId, build: impl FnOnce(&mut Builder) -> T) -> T {
        let outer = self.enter_region(region);
        let made = build(self);
        self.leave_region(outer);
        made
    }

    /// Enters another region; what it gives is for [`leave_region`](Builder::leave_region).
    pub fn enter_region(&mut self, region: RegionId) -> OuterRegion {
        // A constant of this region cannot be seen from the one around it.
        OuterRegion {
            region: std::mem::replace(&mut self.region, region),
            constants: std::mem::take(&mut self.constants),
        }
    }

    pub fn leave_region(&mut self, outer: OuterRegion) {
        self.region = outer.region;
        self.constants = outer.constants;
    }

    /// Makes a value in front of an op of the present region.
    pub(crate) fn made_before(&mut self, op: OpId, build: impl FnOnce(&mut Builder) -> ValueId) -> ValueId {
        let region = self.region_of(op);
        let before = self.program.regions[region].ops.len();
        // A constant that stands behind the op would be used before it is made.
        let value = self.inside(region, build);
        let ops = &mut self.program.regions[region].ops;
        let made = ops.split_off(before);
        let place = ops.iter().position(|&other| other == op).unwrap_or(ops.len());
        ops.splice(place..place, made);
        value
    }

    /// The region that an op stands in: this one or, from inside a block, the body.
    fn region_of(&self, op: OpId) -> RegionId {
        if self.program.regions[self.region].ops.contains(&op) { self.region } else { self.program.body }
    }

    /// The same values under other names, behind a barrier.
    pub(crate) fn told_apart(&mut self, values: &[ValueId]) -> Values {
        self.op(Op::OptimizationBarrier, values, &[])
    }

    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Adds any op.
    pub fn op(&mut self, op: Op, operands: &[ValueId], regions: &[RegionId]) -> Values {
        self.add(op, operands, regions).1
    }

    /// Adds any op. There is none where there is an error, but there are values for its results.
    pub(crate) fn add(&mut self, op: Op, operands: &[ValueId], regions: &[RegionId]) -> (Option<OpId>, Values) {
        let count = result_count(&self.program, &op, operands, regions);
        if self.error.is_some() {
            return (None, std::iter::repeat_n(self.stand_in(), count).collect());
        }
        let location = self.op_location(&op);
        match self.program.add_op(self.region, op, operands, regions, location) {
            Ok(id) => (Some(id), self.program.ops[id].results.clone()),
            Err(message) => {
                let value = self.fail(&message);
                (None, std::iter::repeat_n(value, count).collect())
            }
        }
    }

    fn one(&mut self, op: Op, operands: &[ValueId]) -> ValueId {
        self.op(op, operands, &[])[0]
    }

    pub fn ty(&self, value: ValueId) -> Type {
        self.program.ty(value).clone()
    }

    pub fn shape(&self, value: ValueId) -> Shape {
        Shape::from_slice(self.program.shape(value))
    }

    pub fn dtype(&self, value: ValueId) -> DType {
        self.program.dtype(value)
    }

    // Constants.

    pub fn literal(&mut self, literal: Literal) -> ValueId {
        let ty = literal.ty.clone();
        let op = Op::Constant(Box::new(literal));
        let location = self.op_location(&op);
        let id = self.program.add_op_with_types(self.region, op, &[], &[], [ty], location);
        self.program.ops[id].results[0]
    }

    /// A scalar.
    pub fn scalar(&mut self, dtype: DType, number: f64) -> ValueId {
        let literal = Literal::splat_number(Type::scalar(dtype), number);
        let key = (literal.ty.clone(), literal.as_splat().unwrap_or(0));
        if let Some(&constant) = self.constants.get(&key) {
            return constant;
        }
        let constant = self.literal(literal);
        self.constants.insert(key, constant);
        constant
    }

    /// A tensor of one number.
    pub fn full(&mut self, ty: &Type, number: f64) -> ValueId {
        let scalar = self.scalar(ty.dtype, number);
        self.broadcast(scalar, &ty.shape, &[])
    }

    pub fn full_like(&mut self, value: ValueId, number: f64) -> ValueId {
        let ty = self.ty(value);
        self.full(&ty, number)
    }

    pub fn iota(&mut self, ty: &Type, dim: usize) -> ValueId {
        self.one(Op::Iota { dim, ty: Box::new(ty.clone()) }, &[])
    }

    // Element by element.

    pub fn unary(&mut self, unary: Unary, value: ValueId) -> ValueId {
        self.one(Op::Unary(unary), &[value])
    }

    pub fn binary(&mut self, binary: Binary, left: ValueId, right: ValueId) -> ValueId {
        self.one(Op::Binary(binary), &[left, right])
    }

    pub fn plus(&mut self, left: ValueId, right: ValueId) -> ValueId {
        self.binary(Binary::Add, left, right)
    }

    pub fn minus(&mut self, left: ValueId, right: ValueId) -> ValueId {
        self.binary(Binary::Subtract, left, right)
    }

    pub fn times(&mut self, left: ValueId, right: ValueId) -> ValueId {
        self.binary(Binary::Multiply, left, right)
    }

    pub fn over(&mut self, left: ValueId, right: ValueId) -> ValueId {
        self.binary(Binary::Divide, left, right)
    }

    pub fn negate(&mut self, value: ValueId) -> ValueId {
        self.unary(Unary::Negate, value)
    }

    /// The value with a number added to every element.
    pub fn plus_number(&mut self, value: ValueId, number: f64) -> ValueId {
        let number = self.full_like(value, number);
        self.plus(value, number)
    }

    pub fn times_number(&mut self, value: ValueId, number: f64) -> ValueId {
        let number = self.full_like(value, number);
        self.times(value, number)
    }

    pub fn compare(&mut self, direction: Direction, left: ValueId, right: ValueId) -> ValueId {
        self.one(Op::Compare { direction, order: Order::Natural }, &[left, right])
    }

    pub fn select(&mut self, predicate: ValueId, on_true: ValueId, on_false: ValueId) -> ValueId {
        self.one(Op::Select, &[predicate, on_true, on_false])
    }

    pub fn convert(&mut self, value: ValueId, dtype: DType) -> ValueId {
        if self.dtype(value) == dtype { value } else { self.one(Op::Convert { dtype }, &[value]) }
    }

    pub fn barrier(&mut self, values: &[ValueId]) -> Values {
        self.op(Op::OptimizationBarrier, values, &[])
    }

    /// The same value, which no gradient goes through.
    pub fn without_gradient(&mut self, value: ValueId) -> ValueId {
        self.stopped.insert(value);
        value
    }

    pub(crate) fn is_stopped(&self, value: ValueId) -> bool {
        self.stopped.contains(&value)
    }

    /// Random bits of `u32` from a key of two `u64`.
    pub fn random_bits(&mut self, key: ValueId, shape: &[usize]) -> ValueId {
        let ty = Box::new(Type::new(DType::U32, shape));
        self.op(Op::RngBitGenerator { algorithm: Algorithm::Philox, ty }, &[key], &[])[1]
    }

    // Shapes.

    pub fn broadcast(&mut self, value: ValueId, shape: &[usize], dims: &[usize]) -> ValueId {
        if self.program.shape(value) == shape {
            return value;
        }
        let broadcast = BroadcastInDim { shape: Shape::from_slice(shape), dims: Dims::from_slice(dims) };
        self.one(Op::BroadcastInDim(Box::new(broadcast)), &[value])
    }

    /// Broadcasts along the first dimensions: the last ones are aligned.
    pub fn broadcast_last(&mut self, value: ValueId, shape: &[usize]) -> ValueId {
        let rank = self.program.shape(value).len();
        let dims: Dims = (shape.len().saturating_sub(rank)..shape.len()).collect();
        self.broadcast(value, shape, &dims)
    }

    /// Broadcasts along dimension `dim`, which the value does not have.
    pub fn broadcast_along(&mut self, value: ValueId, shape: &[usize], dim: usize) -> ValueId {
        let dims: Dims = (0..shape.len()).filter(|&kept| kept != dim).collect();
        self.broadcast(value, shape, &dims)
    }

    pub fn reshape(&mut self, value: ValueId, shape: &[usize]) -> ValueId {
        if self.program.shape(value) == shape {
            return value;
        }
        self.one(Op::Reshape { shape: Shape::from_slice(shape) }, &[value])
    }

    pub fn transpose(&mut self, value: ValueId, permutation: &[usize]) -> ValueId {
        if permutation.iter().enumerate().all(|(index, &dim)| index == dim) {
            return value;
        }
        self.one(Op::Transpose { permutation: Dims::from_slice(permutation) }, &[value])
    }

    pub fn slice(&mut self, value: ValueId, start: &[usize], limit: &[usize], strides: &[usize]) -> ValueId {
        let slice = Slice {
            start: Shape::from_slice(start),
            limit: Shape::from_slice(limit),
            strides: Shape::from_slice(strides),
        };
        self.one(Op::Slice(Box::new(slice)), &[value])
    }

    /// Positions `start..limit` of one dimension.
    pub fn slice_dim(&mut self, value: ValueId, dim: usize, start: usize, limit: usize) -> ValueId {
        let mut limits = self.shape(value);
        if dim >= limits.len() {
            return self.fail(&format!("dimension {dim} of `{}` cannot be cut", self.program.ty(value)));
        }
        let mut starts: Shape = limits.iter().map(|_| 0).collect();
        let strides: Shape = limits.iter().map(|_| 1).collect();
        starts[dim] = start;
        limits[dim] = limit;
        self.slice(value, &starts, &limits, &strides)
    }

    pub fn concatenate(&mut self, values: &[ValueId], dim: usize) -> ValueId {
        self.one(Op::Concatenate { dim }, values)
    }

    pub fn pad(&mut self, value: ValueId, padding: ValueId, low: &[i64], high: &[i64], interior: &[i64]) -> ValueId {
        let pad = Pad {
            low: SmallVec::from_slice(low),
            high: SmallVec::from_slice(high),
            interior: SmallVec::from_slice(interior),
        };
        self.one(Op::Pad(Box::new(pad)), &[value, padding])
    }

    // Reductions.

    /// A region that applies `binary` to two scalars.
    pub fn reducer(&mut self, binary: Binary, dtype: DType) -> RegionId {
        let region = self.program.add_region();
        let left = self.program.add_region_argument(region, Type::scalar(dtype));
        let right = self.program.add_region_argument(region, Type::scalar(dtype));
        let result = self.inside(region, |builder| builder.binary(binary, left, right));
        self.program.regions[region].results = vec![result];
        region
    }

    pub fn reduce(&mut self, binary: Binary, value: ValueId, initial: f64, dims: &[usize]) -> ValueId {
        let dtype = self.dtype(value);
        let initial = self.scalar(dtype, initial);
        let region = self.reducer(binary, dtype);
        self.op(Op::Reduce { dims: Dims::from_slice(dims) }, &[value, initial], &[region])[0]
    }

    pub fn sum(&mut self, value: ValueId, dims: &[usize]) -> ValueId {
        if dims.is_empty() { value } else { self.reduce(Binary::Add, value, 0.0, dims) }
    }

    pub fn maximum(&mut self, value: ValueId, dims: &[usize]) -> ValueId {
        self.reduce(Binary::Maximum, value, f64::NEG_INFINITY, dims)
    }

    /// The mean over dimensions.
    pub fn mean(&mut self, value: ValueId, dims: &[usize]) -> ValueId {
        let shape = self.program.shape(value);
        let count: usize = dims.iter().filter_map(|&dim| shape.get(dim)).product();
        let sum = self.sum(value, dims);
        self.times_number(sum, 1.0 / count as f64)
    }

    // Contractions.

    pub fn dot(
        &mut self,
        left: ValueId,
        right: ValueId,
        batch: [&[usize]; 2],
        contract: [&[usize]; 2],
        dtype: DType,
    ) -> ValueId {
        let dot = DotGeneral {
            lhs_batch: Dims::from_slice(batch[0]),
            rhs_batch: Dims::from_slice(batch[1]),
            lhs_contract: Dims::from_slice(contract[0]),
            rhs_contract: Dims::from_slice(contract[1]),
            precision: SmallVec::new(),
            dtype,
        };
        self.one(Op::DotGeneral(Box::new(dot)), &[left, right])
    }

    /// The last dimension of `left` with the first of `right`.
    pub fn matmul(&mut self, left: ValueId, right: ValueId) -> ValueId {
        let last = self.program.shape(left).len().saturating_sub(1);
        let dtype = self.dtype(left);
        self.dot(left, right, [&[], &[]], [&[last], &[0]], dtype)
    }

    pub fn convolution(&mut self, input: ValueId, kernel: ValueId, convolution: Convolution) -> ValueId {
        self.one(Op::Convolution(Box::new(convolution)), &[input, kernel])
    }

    pub fn attention(&mut self, operands: &[ValueId], attention: Attention) -> Values {
        self.op(Op::Attention(Box::new(attention)), operands, &[])
    }

    // Indices.

    pub fn gather(&mut self, operand: ValueId, indices: ValueId, gather: Gather) -> ValueId {
        self.one(Op::Gather(Box::new(gather)), &[operand, indices])
    }

    /// Whole rows of a table, one per index.
    pub fn take_rows(&mut self, table: ValueId, indices: ValueId) -> ValueId {
        let index_rank = self.program.shape(indices).len();
        let mut slice_sizes = self.shape(table);
        let Some(row) = slice_sizes.first_mut() else { return self.fail("a scalar has no rows") };
        *row = 1;
        let gather = Gather {
            offset_dims: (index_rank..index_rank + slice_sizes.len() - 1).collect(),
            collapsed_slice_dims: Dims::from_slice(&[0]),
            operand_batching_dims: Dims::new(),
            start_indices_batching_dims: Dims::new(),
            start_index_map: Dims::from_slice(&[0]),
            index_vector_dim: index_rank,
            slice_sizes,
            indices_are_sorted: false,
        };
        self.scoped("embedding", |builder| builder.gather(table, indices, gather))
    }

    /// Adds updates into a tensor.
    pub fn scatter_add(&mut self, operand: ValueId, indices: ValueId, updates: ValueId, scatter: Scatter) -> ValueId {
        let dtype = self.dtype(operand);
        let region = self.reducer(Binary::Add, dtype);
        self.op(Op::Scatter(Box::new(scatter)), &[operand, indices, updates], &[region])[0]
    }
}

/// How many results an op would have if its operands did fit.
fn result_count(program: &Program, op: &Op, operands: &[ValueId], regions: &[RegionId]) -> usize {
    match op {
        Op::Attention(attention) => 1 + usize::from(attention.statistics),
        Op::AttentionGrad(gradient) => 3 + usize::from(gradient.bias_gradient),
        Op::BatchNormGrad(_) | Op::BatchNormTraining(_) => 3,
        Op::Case | Op::If => regions.first().map_or(0, |&region| program.regions[region].results.len()),
        Op::OptimizationBarrier | Op::Sort { .. } | Op::While => operands.len(),
        Op::Reduce { .. } | Op::ReduceWindow(_) | Op::Scatter(_) => (operands.len() / 2).max(1),
        Op::RngBitGenerator { .. } | Op::TopK { .. } => 2,
        // Of the others that models are made of, every one has one result.
        _ => 1,
    }
}

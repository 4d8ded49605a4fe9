//! Ops whose attributes say something about shapes or positions, as each device runs them.

use smallvec::SmallVec;

use super::emit::Emitter;
use crate::program::{
    Attention, AttentionGrad, Binary, BroadcastInDim, Convolution, CustomCall, DType, Direction, Gather, Literal, Op,
    OpId, RegionId, Scatter, Shape, Slice, Type, ValueId, Values,
};
use crate::shard::{Reduction, Sharding};

impl Emitter<'_, '_, '_> {
    /// Emits an op on local operands that lie as `wanted`; its results lie as `made`.
    pub(super) fn local_op(
        &mut self,
        op: OpId,
        operands: &[ValueId],
        wanted: &[Sharding],
        made: &[Sharding],
    ) -> Result<Values, String> {
        let operation = &self.old.ops[op];
        let shapes = self.local_shapes(&operation.results, made);
        let localized = match &operation.op {
            Op::Attention(attention) => return self.attention(attention, operands, wanted),
            Op::AttentionGrad(grad) => return self.attention_grad(grad, operands, wanted),
            Op::BroadcastInDim(broadcast) => {
                Op::BroadcastInDim(Box::new(BroadcastInDim { shape: shapes[0].clone(), dims: broadcast.dims.clone() }))
            }
            Op::Constant(literal) => Op::Constant(Box::new(match literal.as_splat() {
                Some(bits) => Literal::splat(literal.ty.with_shape(&shapes[0]), bits),
                None => literal.as_ref().clone(),
            })),
            Op::Convolution(convolution) => {
                Op::Convolution(Box::new(self.convolution(convolution, operands, &shapes[0])))
            }
            Op::CustomCall(call) => {
                let types = call.result_types.iter().zip(&shapes).map(|(ty, shape)| ty.with_shape(shape)).collect();
                Op::CustomCall(Box::new(CustomCall { result_types: types, ..call.as_ref().clone() }))
            }
            Op::DynamicSlice { .. } => Op::DynamicSlice { sizes: shapes[0].clone() },
            Op::Gather(gather) => return self.gather(gather, operands, wanted, op),
            Op::Iota { dim, ty } => return self.iota(*dim, &ty.with_shape(&shapes[0]), &made[0]),
            Op::Reshape { .. } => Op::Reshape { shape: shapes[0].clone() },
            Op::Scatter(scatter) => return self.scatter(scatter, operands, wanted, op),
            Op::Slice(slice) => Op::Slice(Box::new(local_slice(slice, self.new.shape(operands[0]), &made[0]))),
            // All others say nothing about sizes, or work on whole values only.
            other => other.clone(),
        };
        let mut regions: SmallVec<[RegionId; 2]> = SmallVec::new();
        for &region in &operation.regions {
            regions.push(self.copy_region(region)?);
        }
        self.apply_all(localized, operands, &regions)
    }

    /// Positions along a dimension: a device's begin where its part begins.
    fn iota(&mut self, dim: usize, ty: &Type, made: &Sharding) -> Result<Values, String> {
        let iota = self.apply_all(Op::Iota { dim, ty: Box::new(ty.clone()) }, &[], &[])?;
        let pieces = &made.dims[dim];
        if pieces.is_empty() {
            return Ok(iota);
        }
        let offset = self.offset(pieces, ty.shape[dim])?;
        let offset = self.converted(offset, ty.dtype)?;
        let offset = self.broadcast(offset, &ty.shape, &[])?;
        Ok(Values::from_slice(&[self.binary(Binary::Add, iota[0], offset)?]))
    }

    fn converted(&mut self, value: ValueId, dtype: DType) -> Result<ValueId, String> {
        if self.new.dtype(value) == dtype { Ok(value) } else { self.apply(Op::Convert { dtype }, &[value]) }
    }

    /// As many groups as are left on a device.
    fn convolution(&self, conv: &Convolution, operands: &[ValueId], result: &[usize]) -> Convolution {
        let (input, kernel) = (self.new.shape(operands[0]), self.new.shape(operands[1]));
        let mut local = conv.clone();
        if conv.feature_groups > 1 {
            local.feature_groups = input[conv.input_feature] / kernel[conv.kernel_input_feature];
        }
        if conv.batch_groups > 1 {
            local.batch_groups = input[conv.input_batch] / result[conv.output_batch];
        }
        local
    }

    /// Where an indexed dimension is cut, a device answers for its own part and gives zeros for the
    /// rest.
    fn gather(
        &mut self,
        gather: &Gather,
        operands: &[ValueId],
        wanted: &[Sharding],
        op: OpId,
    ) -> Result<Values, String> {
        let operand = self.old.ops[op].operands[0];
        let mut local = gather.clone();
        let local_operand = Shape::from_slice(self.new.shape(operands[0]));
        for (dim, size) in local.slice_sizes.iter_mut().enumerate() {
            if !gather.collapsed_slice_dims.contains(&dim) && *size == self.old.shape(operand)[dim] {
                *size = local_operand[dim];
            }
        }
        // Slices of a whole dimension begin with its first element in every part of it.
        let mut looked_up = wanted[0].clone();
        for (dim, pieces) in looked_up.dims.iter_mut().enumerate() {
            if !gather.collapsed_slice_dims.contains(&dim) || !gather.start_index_map.contains(&dim) {
                pieces.clear();
            }
        }
        if looked_up.is_whole() {
            return self.apply_all(Op::Gather(Box::new(local)), operands, &[]);
        }
        let limits: Vec<usize> =
            gather.start_index_map.iter().map(|&dim| self.old.shape(operand)[dim] - gather.slice_sizes[dim]).collect();
        let map = &gather.start_index_map;
        let indices = self.wide_indices(operands[1])?;
        let indices = self.clamped(indices, gather.index_vector_dim, &limits)?;
        let shifted = self.shifted(indices, gather.index_vector_dim, map, &looked_up, &local_operand)?;
        let here = self.in_part(shifted, gather.index_vector_dim, map, &local_operand)?;
        let results = self.apply_all(Op::Gather(Box::new(local)), &[operands[0], shifted], &[])?;
        let ty = self.new.ty(results[0]).clone();
        let batch: Vec<usize> = (0..ty.rank()).filter(|dim| !gather.offset_dims.contains(dim)).collect();
        let here = self.broadcast(here, &ty.shape, &batch)?;
        let zero = self.splat(&ty, 0)?;
        Ok(Values::from_slice(&[self.apply(Op::Select, &[here, results[0], zero])?]))
    }

    /// Where a written dimension is cut, positions count from a device's own part; what falls
    /// outside of it is dropped, as a scatter does anyway.
    fn scatter(
        &mut self,
        scatter: &Scatter,
        operands: &[ValueId],
        wanted: &[Sharding],
        op: OpId,
    ) -> Result<Values, String> {
        let inputs = (operands.len() - 1) / 2;
        let map = &scatter.scatter_dims_to_operand_dims;
        let mut operands = Values::from_slice(operands);
        if map.iter().any(|&dim| !wanted[0].dims[dim].is_empty()) {
            let local = Shape::from_slice(self.new.shape(operands[0]));
            let indices = self.wide_indices(operands[inputs])?;
            operands[inputs] = self.shifted(indices, scatter.index_vector_dim, map, &wanted[0], &local)?;
        }
        let region = self.copy_region(self.old.ops[op].regions[0])?;
        self.apply_all(Op::Scatter(Box::new(scatter.clone())), &operands, &[region])
    }

    /// Indices in a type that holds differences of positions.
    fn wide_indices(&mut self, indices: ValueId) -> Result<ValueId, String> {
        match self.new.dtype(indices) {
            DType::I32 | DType::I64 => Ok(indices),
            DType::U32 | DType::U64 => self.converted(indices, DType::I64),
            _ => self.converted(indices, DType::I32),
        }
    }

    /// One number per component of the index vectors, as large as the indices.
    fn per_component(&mut self, indices: ValueId, vector_dim: usize, numbers: &[ValueId]) -> Result<ValueId, String> {
        let ty = self.new.ty(indices).clone();
        if vector_dim == ty.rank() {
            let number = self.converted(numbers[0], ty.dtype)?;
            return self.broadcast(number, &ty.shape, &[]);
        }
        let mut parts = Vec::new();
        for &number in numbers {
            let number = self.converted(number, ty.dtype)?;
            parts.push(self.broadcast(number, &[1], &[])?);
        }
        let vector = if parts.len() == 1 { parts[0] } else { self.apply(Op::Concatenate { dim: 0 }, &parts)? };
        self.broadcast(vector, &ty.shape, &[vector_dim])
    }

    /// Indices moved into the range that lookups are clamped to.
    fn clamped(&mut self, indices: ValueId, vector_dim: usize, limits: &[usize]) -> Result<ValueId, String> {
        let limits = limits.iter().map(|&limit| self.integer(limit)).collect::<Result<Vec<_>, _>>()?;
        let high = self.per_component(indices, vector_dim, &limits)?;
        let ty = self.new.ty(indices).clone();
        let low = self.splat(&ty, 0)?;
        self.apply(Op::Clamp, &[low, indices, high])
    }

    /// Indices that count from where a device's part begins.
    fn shifted(
        &mut self,
        indices: ValueId,
        vector_dim: usize,
        map: &[usize],
        lies: &Sharding,
        local: &[usize],
    ) -> Result<ValueId, String> {
        let mut offsets = Vec::new();
        for &dim in map {
            offsets.push(if lies.dims[dim].is_empty() {
                self.integer(0)?
            } else {
                self.offset(&lies.dims[dim], local[dim])?
            });
        }
        let offsets = self.per_component(indices, vector_dim, &offsets)?;
        self.binary(Binary::Subtract, indices, offsets)
    }

    /// Whether all components of an index lie in a device's part.
    fn in_part(
        &mut self,
        indices: ValueId,
        vector_dim: usize,
        map: &[usize],
        local: &[usize],
    ) -> Result<ValueId, String> {
        let ty = self.new.ty(indices).clone();
        let zero = self.splat(&ty, 0)?;
        let from_start = self.compare(Direction::GreaterOrEqual, indices, zero)?;
        let sizes = map.iter().map(|&dim| self.integer(local[dim])).collect::<Result<Vec<_>, _>>()?;
        let sizes = self.per_component(indices, vector_dim, &sizes)?;
        let to_end = self.compare(Direction::Less, indices, sizes)?;
        let both = self.binary(Binary::And, from_start, to_end)?;
        if vector_dim == ty.rank() {
            return Ok(both);
        }
        let region = self.reducer(Reduction::And, DType::Bool)?;
        let yes = self.splat(&Type::scalar(DType::Bool), 1)?;
        Ok(self.apply_all(Op::Reduce { dims: [vector_dim].as_slice().into() }, &[both, yes], &[region])?[0])
    }

    fn attention(
        &mut self,
        attention: &Attention,
        operands: &[ValueId],
        wanted: &[Sharding],
    ) -> Result<Values, String> {
        let mut local = attention.clone();
        let mut operands = Values::from_slice(operands);
        if attention.causal && !wanted[0].dims[2].is_empty() {
            self.spell_causality(&mut operands, attention.bias, &wanted[0])?;
            (local.causal, local.bias) = (false, true);
        }
        self.apply_all(Op::Attention(Box::new(local)), &operands, &[])
    }

    fn attention_grad(
        &mut self,
        grad: &AttentionGrad,
        operands: &[ValueId],
        wanted: &[Sharding],
    ) -> Result<Values, String> {
        let mut local = grad.clone();
        let mut operands = Values::from_slice(operands);
        if grad.causal && !wanted[0].dims[2].is_empty() {
            self.spell_causality(&mut operands, grad.bias, &wanted[0])?;
            (local.causal, local.bias) = (false, true);
        }
        self.apply_all(Op::AttentionGrad(Box::new(local)), &operands, &[])
    }

    /// Says which keys a device's queries see in the bias, because they do not begin with the first.
    fn spell_causality(&mut self, operands: &mut Values, has_bias: bool, query: &Sharding) -> Result<(), String> {
        let (queries, keys) = (self.new.shape(operands[0])[2], self.new.shape(operands[1])[2]);
        let whole_queries = self.old.shape(self.old.ops[self.op].operands[0])[2];
        let grid = Type::new(DType::I32, &[queries, keys]);
        let key = self.apply(Op::Iota { dim: 1, ty: Box::new(grid.clone()) }, &[])?;
        let here = self.apply(Op::Iota { dim: 0, ty: Box::new(grid.clone()) }, &[])?;
        let begin = self.offset(&query.dims[2], queries)?;
        // Query `q` sees keys up to `q + keys - queries`; there may be fewer keys than queries.
        let shift = Literal::splat_integer(Type::scalar(DType::I32), keys as i64 - whole_queries as i64);
        let shift = self.apply(Op::Constant(Box::new(shift)), &[])?;
        let begin = self.binary(Binary::Add, begin, shift)?;
        let begin = self.broadcast(begin, &grid.shape, &[])?;
        let last = self.binary(Binary::Add, here, begin)?;
        let sees = self.compare(Direction::LessOrEqual, key, last)?;
        if !has_bias {
            let mask = self.apply(Op::Reshape { shape: [1, 1, queries, keys].as_slice().into() }, &[sees])?;
            operands.insert(3, mask);
            return Ok(());
        }
        let bias = operands[3];
        let ty = self.new.ty(bias).clone();
        let shape = [ty.shape[0], ty.shape[1], queries, keys];
        let bias = self.stretched(bias, &shape)?;
        let sees = self.broadcast(sees, &shape, &[2, 3])?;
        operands[3] = if ty.dtype == DType::Bool {
            self.binary(Binary::And, bias, sees)?
        } else {
            let never = self.splat(&Type::new(ty.dtype, &shape), Reduction::Max.neutral(ty.dtype))?;
            self.apply(Op::Select, &[sees, bias, never])?
        };
        Ok(())
    }

    /// Repeats dimensions of size 1.
    fn stretched(&mut self, value: ValueId, shape: &[usize]) -> Result<ValueId, String> {
        let dims: Vec<usize> = (0..shape.len()).collect();
        self.broadcast(value, shape, &dims)
    }
}

/// Dimensions that are cut are not sliced, so their limit is their size.
fn local_slice(slice: &Slice, operand: &[usize], made: &Sharding) -> Slice {
    let mut local = slice.clone();
    for (dim, pieces) in made.dims.iter().enumerate() {
        if !pieces.is_empty() {
            local.limit[dim] = operand[dim];
        }
    }
    local
}

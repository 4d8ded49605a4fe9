//! The steps of reshards as ops.

use std::sync::Arc;

use super::emit::Emitter;
use super::reshard::Step;
use crate::program::{
    AllGather, AllToAll, Binary, Collective, CollectivePermute, DType, Direction, Op, Pad, ReduceScatter, Shape, Slice,
    Type, ValueId,
};
use crate::shard::{Piece, Pieces, Reduction, Sharding};

impl Emitter<'_, '_, '_> {
    /// Takes one step with a value whose global type is `ty`.
    pub(super) fn step(
        &mut self,
        value: ValueId,
        ty: &Type,
        from: &Sharding,
        step: &Step,
        to: &Sharding,
    ) -> Result<ValueId, String> {
        match step {
            Step::AllGather { dim, pieces } => {
                let gather =
                    AllGather { dim: *dim, factor: self.mesh.product(pieces), collective: self.collective(pieces) };
                let gathered = self.apply(Op::AllGather(Box::new(gather)), &[value])?;
                self.trim(gathered, *dim, to.local_type(self.mesh, ty).shape[*dim])
            }
            Step::AllReduce { pieces, reduction } => {
                let region = self.reducer(*reduction, ty.dtype)?;
                let collective = self.collective(pieces);
                Ok(self.apply_all(Op::AllReduce(Box::new(collective)), &[value], &[region])?[0])
            }
            Step::AllToAll { from: gathered, to: split, pieces } => {
                let padded = self.fill(value, ty, *split, to)?;
                let exchange = AllToAll {
                    split_dim: *split,
                    concat_dim: *gathered,
                    split_count: self.mesh.product(pieces),
                    collective: self.collective(pieces),
                };
                let exchanged = self.apply(Op::AllToAll(Box::new(exchange)), &[padded])?;
                self.trim(exchanged, *gathered, to.local_type(self.mesh, ty).shape[*gathered])
            }
            Step::Permute => {
                let permute = CollectivePermute { pairs: self.pairs(from, to), channel: self.next_channel() };
                self.apply(Op::CollectivePermute(Box::new(permute)), &[value])
            }
            Step::ReduceScatter { dim, pieces, reduction } => {
                let padded = self.fill(value, ty, *dim, to)?;
                let region = self.reducer(*reduction, ty.dtype)?;
                let scatter =
                    ReduceScatter { dim: *dim, factor: self.mesh.product(pieces), collective: self.collective(pieces) };
                Ok(self.apply_all(Op::ReduceScatter(Box::new(scatter)), &[padded], &[region])?[0])
            }
            Step::Slice { dim, pieces } => {
                let padded = self.fill(value, ty, *dim, to)?;
                self.slice(padded, *dim, pieces, to.local_type(self.mesh, ty).shape[*dim])
            }
            Step::Spread { pieces, reduction } => self.spread(value, pieces, *reduction),
        }
    }

    fn collective(&mut self, pieces: &[Piece]) -> Collective {
        let mesh = self.mesh;
        let groups = self.groups.entry(pieces.into()).or_insert_with(|| mesh.groups(pieces).into());
        Collective { groups: Arc::clone(groups), channel: self.next_channel(), global_ids: true }
    }

    /// Every device's own part along pieces, of `size`.
    fn slice(&mut self, value: ValueId, dim: usize, pieces: &[Piece], size: usize) -> Result<ValueId, String> {
        let mut sizes = Shape::from_slice(self.new.shape(value));
        sizes[dim] = size;
        let start = self.offset(pieces, size)?;
        let zero = self.integer(0)?;
        let mut operands = vec![zero; sizes.len() + 1];
        operands[0] = value;
        operands[dim + 1] = start;
        self.apply(Op::DynamicSlice { sizes }, &operands)
    }

    /// Where a device's part begins, along pieces that cut into parts of `size`.
    pub(super) fn offset(&mut self, pieces: &[Piece], size: usize) -> Result<ValueId, String> {
        let position = self.position(pieces)?;
        let size = self.integer(size)?;
        self.binary(Binary::Multiply, position, size)
    }

    /// Pads a dimension so that it can be cut as `to` cuts it.
    fn fill(&mut self, value: ValueId, ty: &Type, dim: usize, to: &Sharding) -> Result<ValueId, String> {
        if !to.is_padded(self.mesh, dim, ty.shape[dim]) {
            return Ok(value);
        }
        let parts = self.mesh.product(&to.dims[dim]);
        let rank = ty.rank();
        let mut pad = Pad { low: vec![0; rank].into(), high: vec![0; rank].into(), interior: vec![0; rank].into() };
        pad.high[dim] = (ty.shape[dim].next_multiple_of(parts) - ty.shape[dim]) as i64;
        let zero = self.splat(&Type::scalar(ty.dtype), 0)?;
        self.apply(Op::Pad(Box::new(pad)), &[value, zero])
    }

    /// Cuts the padding off.
    fn trim(&mut self, value: ValueId, dim: usize, size: usize) -> Result<ValueId, String> {
        let shape = Shape::from_slice(self.new.shape(value));
        if shape[dim] == size {
            return Ok(value);
        }
        let mut slice = Slice { start: vec![0; shape.len()].into(), limit: shape, strides: Shape::new() };
        slice.strides = vec![1; slice.limit.len()].into();
        slice.limit[dim] = size;
        self.apply(Op::Slice(Box::new(slice)), &[value])
    }

    /// Keeps a value on the first device along pieces; the others get what changes nothing.
    fn spread(&mut self, value: ValueId, pieces: &[Piece], reduction: Reduction) -> Result<ValueId, String> {
        let ty = self.new.ty(value).clone();
        let neutral = reduction.neutral(ty.dtype);
        if self.is_splat_of(value, neutral) {
            return Ok(value);
        }
        let position = self.position(pieces)?;
        let zero = self.integer(0)?;
        let is_first = self.compare(Direction::Equal, position, zero)?;
        let neutral = self.splat(&ty, neutral)?;
        self.apply(Op::Select, &[is_first, value, neutral])
    }

    /// Whether every element of a value of the new program is known to have these bits.
    fn is_splat_of(&self, value: ValueId, bits: u128) -> bool {
        let Some(op) = self.new.producer(value) else { return false };
        let operation = &self.new.ops[op];
        match &operation.op {
            Op::Constant(literal) => literal.as_splat() == Some(bits),
            Op::BroadcastInDim(_) | Op::Reshape { .. } => self.is_splat_of(operation.operands[0], bits),
            _ => false,
        }
    }

    /// Who sends to whom so that parts cut one way lie another way. Among devices that have the same
    /// part, the first sends to the first that needs it, and so on.
    fn pairs(&self, from: &Sharding, to: &Sharding) -> Vec<(i64, i64)> {
        let place = |sharding: &Sharding, device: usize| -> Vec<usize> {
            let lists: Vec<&Pieces> = sharding.dims.iter().chain([&sharding.partial]).collect();
            lists.into_iter().map(|pieces| self.mesh.position(device, pieces)).collect()
        };
        let sorted = |sharding: &Sharding| {
            let mut devices: Vec<usize> = (0..self.mesh.devices()).collect();
            devices.sort_by_key(|&device| place(sharding, device));
            devices
        };
        let mut pairs: Vec<(i64, i64)> =
            sorted(from).into_iter().zip(sorted(to)).map(|(source, target)| (source as i64, target as i64)).collect();
        pairs.sort_unstable();
        pairs
    }

    /// Where a device's part of a dimension of `size` is no padding: booleans of `shape`, which has
    /// that dimension cut by `pieces`.
    pub(super) fn inside(
        &mut self,
        shape: &[usize],
        dim: usize,
        pieces: &[Piece],
        size: usize,
    ) -> Result<ValueId, String> {
        let line = Type::new(DType::I32, &shape[dim..=dim]);
        let here = self.apply(Op::Iota { dim: 0, ty: Box::new(line.clone()) }, &[])?;
        let offset = self.offset(pieces, shape[dim])?;
        let offset = self.broadcast(offset, &line.shape, &[])?;
        let index = self.binary(Binary::Add, here, offset)?;
        let size = self.splat(&line, size as u128)?;
        let is_inside = self.compare(Direction::Less, index, size)?;
        self.broadcast(is_inside, shape, &[dim])
    }
}

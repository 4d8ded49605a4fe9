//! A region as a compiler sees it: what each op is to fusion, and who reads whom.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::fuse::SMALLEST_FOR_LIBRARIES;
use super::make::Processor;
use crate::program::{Binary, DType, Dims, DotGeneral, Op, OpId, Program, Type, Unary, ValueId};

/// The place of a node in its graph, and in program order.
pub(super) type NodeId = usize;

pub(super) type Operands = SmallVec<[NodeId; 4]>;

/// Nodes in program order, arguments first.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The nodes that the region gives back.
    pub(super) results: Vec<NodeId>,
    /// The node of each value.
    pub(super) values: FxHashMap<ValueId, NodeId>,
    /// What it is compiled for.
    pub(super) processor: Processor,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// `None` for an argument of the region, and for what is read from outside of it.
    pub(super) op: Option<OpId>,
    pub(super) kind: Kind,
    pub(super) operands: Operands,
    /// Of all results.
    pub(super) bytes: usize,
    pub(super) elements: usize,
    /// Dimensions that are larger than one.
    pub(super) rank: usize,
    /// Whether each element is made of those that stand in the same place in its operands.
    pub(super) is_elementwise: bool,
}

/// What an op is to fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Argument,
    /// A number, which costs nothing anywhere.
    Number,
    /// A tensor that is part of the program.
    Literal,
    /// One element of the result needs few of each operand, so it can be computed inside of whoever
    /// needs it.
    Loop(Cost),
    /// The same elements in another shape.
    Reshape,
    /// A product or a sum that libraries compute, together with simple ops around it.
    Library,
    /// Anything else.
    Kernel,
    /// Waits for all of its operands, and does nothing.
    Barrier,
    /// An operand of a barrier, behind it.
    Passed,
    /// An argument, copied so that its place is free.
    Copy,
}

/// What it takes to compute an element again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It is the element of another tensor.
    Broadcast,
    Cheap,
    /// It is an element of one of several tensors, which is not found out twice for readers element by element.
    Joined,
    Expensive,
}

impl Node {
    /// A node that is not an op of the program, of some type.
    pub(super) fn new(op: Option<OpId>, kind: Kind, operands: &[NodeId], ty: &Type) -> Node {
        Node {
            op,
            kind,
            operands: SmallVec::from_slice(operands),
            bytes: ty.bytes(),
            elements: ty.elements(),
            rank: ty.shape.iter().filter(|&&size| size > 1).count(),
            is_elementwise: false,
        }
    }

    /// A node of the same size.
    pub(super) fn like(&self, op: OpId, kind: Kind, operands: &[NodeId]) -> Node {
        Node {
            op: Some(op),
            kind,
            operands: SmallVec::from_slice(operands),
            bytes: self.bytes,
            elements: self.elements,
            rank: self.rank,
            is_elementwise: false,
        }
    }
}

/// What an op is to fusion.
pub(super) fn kind(program: &Program, op: OpId) -> Kind {
    let operation = &program.ops[op];
    let cost = |expensive: bool| Kind::Loop(if expensive { Cost::Expensive } else { Cost::Cheap });
    let result = operation.results.first().map(|&result| program.ty(result));
    let dtype = result.map_or(DType::F32, |ty| ty.dtype);
    if only_reshapes(program, op) {
        return Kind::Reshape;
    }
    match &operation.op {
        Op::Binary(binary) => cost(match binary {
            Binary::Divide | Binary::Remainder => dtype.is_float(),
            Binary::Atan2 | Binary::NextAfter | Binary::Polygamma | Binary::Power | Binary::Zeta => true,
            _ => false,
        }),
        Op::BroadcastInDim(_) | Op::Iota { .. } => Kind::Loop(Cost::Broadcast),
        Op::Concatenate { dim } if is_copied_in_rows(program, op, *dim) => Kind::Kernel,
        Op::Concatenate { .. } => Kind::Loop(Cost::Joined),
        Op::Constant(_) if result.is_some_and(|ty| ty.elements() == 1) => Kind::Number,
        Op::Constant(literal) if literal.as_splat().is_some() => Kind::Loop(Cost::Broadcast),
        Op::Constant(_) => Kind::Literal,
        Op::Convert { dtype } => cost(*dtype == DType::BF16 && program.dtype(operation.operands[0]) == DType::F32),
        Op::DotGeneral(dot) if is_library_product(program, op, dot) => Kind::Library,
        Op::Gather(_) => cost(true),
        Op::Reduce { .. } if is_library_sum(program, op) => Kind::Library,
        Op::Map | Op::Reduce { .. } => cost(true),
        Op::Reshape { .. } => Kind::Reshape,
        Op::Transpose { .. } if swaps_product(program, op) => Kind::Reshape,
        Op::Unary(unary) => cost(!is_cheap(*unary)),
        Op::BitcastConvert { .. }
        | Op::Clamp
        | Op::Compare { .. }
        | Op::Complex
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::Pad(_)
        | Op::ReducePrecision { .. }
        | Op::Reverse { .. }
        | Op::Select
        | Op::Slice(_)
        | Op::Transpose { .. } => cost(false),
        Op::OptimizationBarrier => Kind::Barrier,
        Op::PartitionId | Op::ReplicaId => Kind::Number,
        // All others are computed on their own.
        _ => Kind::Kernel,
    }
}

/// Whether an op gives the elements of its operand as they are, but for dimensions of one element in front. Those behind
/// are what sums are spread through, and fused as that.
fn only_reshapes(program: &Program, op: OpId) -> bool {
    let operation = &program.ops[op];
    match &operation.op {
        Op::BroadcastInDim(broadcast) => {
            let [from, to] = [operation.operands[0], operation.results[0]].map(|value| program.ty(value));
            let is_in_front = |(index, &dim): (usize, &usize)| dim + from.rank() == to.rank() + index;
            from.elements() == to.elements() && broadcast.dims.iter().enumerate().all(is_in_front)
        }
        Op::Concatenate { .. } => operation.operands.len() == 1,
        _ => false,
    }
}

/// Whether tensors are put side by side in rows so long, or so many of them, that each is copied as it is.
fn is_copied_in_rows(program: &Program, op: OpId, dim: usize) -> bool {
    let operation = &program.ops[op];
    let shape = program.shape(operation.results[0]);
    let is_row = shape.len() > 1 && dim + 1 == shape.len() && shape[dim] >= 128;
    is_row || operation.operands.len() > 8
}

fn is_cheap(unary: Unary) -> bool {
    matches!(
        unary,
        Unary::Abs
            | Unary::Ceil
            | Unary::Cosine
            | Unary::CountLeadingZeros
            | Unary::Floor
            | Unary::Imag
            | Unary::IsFinite
            | Unary::IsInf
            | Unary::IsNegInf
            | Unary::IsPosInf
            | Unary::Negate
            | Unary::Not
            | Unary::PopulationCount
            | Unary::Real
            | Unary::RoundNearestAfz
            | Unary::RoundNearestEven
            | Unary::Sign
            | Unary::Sine
            | Unary::Square
            | Unary::Tan
    )
}

/// Whether a sum, a maximum or a minimum is one that libraries compute.
fn is_library_sum(program: &Program, op: OpId) -> bool {
    let operation = &program.ops[op];
    let binary = operation.regions.first().and_then(|&region| program.applied_binary(region));
    let is_simple = matches!(binary, Some(Binary::Add | Binary::Maximum | Binary::Minimum));
    let is_large = program.ty(operation.operands[0]).elements() >= SMALLEST_FOR_LIBRARIES;
    is_simple && is_large && operation.operands.len() == 2 && program.dtype(operation.results[0]).is_float()
}

/// Whether a product is one of matrices, stored so that rows of the first meet columns of the second.
fn is_library_product(program: &Program, op: OpId, dot: &DotGeneral) -> bool {
    let operation = &program.ops[op];
    let lhs = program.shape(operation.operands[0]);
    let size = |dims: &[usize]| dims.iter().map(|&dim| lhs[dim]).product::<usize>();
    let contracted = size(&dot.lhs_contract);
    let rows = lhs.iter().product::<usize>() / (contracted * size(&dot.lhs_batch)).max(1);
    let columns = program.ty(operation.results[0]).elements() / (rows * size(&dot.lhs_batch)).max(1);
    let is_canonical = matches!(arrangement(program, op, dot, 0), Arrangement::Transposed(_))
        || dot.lhs_contract.iter().all(|&dim| dim + dot.lhs_contract.len() >= lhs.len());
    rows > 1 && columns > 1 && is_canonical && rows.max(columns).max(contracted) >= 8
}

/// Whether a transpose makes a product of matrices the product of the others in reverse, which costs
/// nothing.
fn swaps_product(program: &Program, op: OpId) -> bool {
    let operand = program.ops[op].operands[0];
    let maker = program.producer(operand).map(|maker| &program.ops[maker].op);
    matches!(maker, Some(Op::DotGeneral(dot)) if dot.lhs_batch.is_empty()) && program.shape(operand).len() == 2
}

/// How an operand of a product is laid out for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    AsItIs,
    /// Some dimensions are taken as one.
    Flat,
    /// Its dimensions are brought into this order first.
    Transposed(Dims),
}

/// How an operand of a product is laid out: as batches of matrices, which may lie either way.
pub(super) fn arrangement(program: &Program, op: OpId, dot: &DotGeneral, side: usize) -> Arrangement {
    let shape = program.shape(program.ops[op].operands[side]);
    let [batch, contract] =
        if side == 0 { [&dot.lhs_batch, &dot.lhs_contract] } else { [&dot.rhs_batch, &dot.rhs_contract] };
    let is_large = |dim: &usize| shape[*dim] > 1;
    let rest = |dim: &usize| !batch.contains(dim) && !contract.contains(dim);
    let large = |dims: &[usize]| -> Dims { dims.iter().copied().filter(is_large).collect() };
    let [batch, contract] = [large(batch), large(contract)];
    let free: Dims = (0..shape.len()).filter(rest).filter(is_large).collect();
    let is_matrix = free.len() <= 1 && contract.len() <= 1;
    let [rows, columns] = if side == 0 { [&free, &contract] } else { [&contract, &free] };
    let order: Dims = batch.iter().chain(rows).chain(columns).copied().collect();
    let is_in_order = |dims: &[usize]| dims.windows(2).all(|pair| pair[0] < pair[1]);
    let is_batch_first = is_in_order(&batch) && batch.last() < free.iter().chain(&contract).min();
    if !(is_in_order(&order) || is_matrix && is_batch_first) {
        Arrangement::Transposed(order)
    } else if is_matrix && order.len() == shape.len() {
        Arrangement::AsItIs
    } else {
        Arrangement::Flat
    }
}

/// Whether the result of a product has more dimensions than batches of matrices.
pub(super) fn is_flat_product(program: &Program, op: OpId, dot: &DotGeneral) -> bool {
    let lhs = program.shape(program.ops[op].operands[0]);
    let batch = dot.lhs_batch.iter().filter(|&&dim| lhs[dim] > 1).count();
    program.shape(program.ops[op].results[0]).len() != batch + 2
}

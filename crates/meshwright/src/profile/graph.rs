//! A region as a compiler sees it: what each op is to fusion, and who reads whom.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::fuse::SMALLEST_FOR_LIBRARIES;
use crate::program::{Binary, DType, DotGeneral, Op, OpId, Operation, Program, RegionId, Type, Unary, ValueId};

/// The place of a node in its graph, and in program order.
pub(super) type NodeId = usize;

/// Nodes in program order, arguments first.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The nodes that the region gives back.
    pub(super) results: Vec<NodeId>,
    /// What the op of a node reads, before it is arranged for its kernel.
    inputs: FxHashMap<NodeId, SmallVec<[NodeId; 4]>>,
    /// Results that are put in order after their kernel.
    arranged_results: FxHashMap<NodeId, NodeId>,
    /// Broadcast values that are divided by, and what is multiplied by instead.
    reciprocals: FxHashMap<NodeId, NodeId>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// `None` for an argument of the region, and for what is read from outside of it.
    pub(super) op: Option<OpId>,
    pub(super) kind: Kind,
    pub(super) operands: SmallVec<[NodeId; 4]>,
    /// Of all results.
    pub(super) bytes: usize,
    pub(super) elements: usize,
    /// Dimensions that are larger than one.
    pub(super) rank: usize,
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
    /// An operand of a barrier, behind it.
    Passed,
}

/// What it takes to compute an element again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It is the element of another tensor.
    Broadcast,
    Cheap,
    Expensive,
}

impl Graph {
    pub(super) fn new(program: &Program, region: RegionId) -> Graph {
        let content = &program.regions[region];
        let mut graph = Graph {
            nodes: Vec::with_capacity(content.ops.len() * 2),
            results: Vec::new(),
            inputs: FxHashMap::default(),
            arranged_results: FxHashMap::default(),
            reciprocals: FxHashMap::default(),
        };
        let mut known: FxHashMap<ValueId, NodeId> = FxHashMap::default();
        let mut twins: FxHashMap<u64, SmallVec<[NodeId; 2]>> = FxHashMap::default();
        for &argument in &content.arguments {
            graph.add_argument(program, argument, &mut known);
        }
        for &op in &content.ops {
            let mut operands: SmallVec<[NodeId; 4]> = SmallVec::new();
            for value in program.reads(op) {
                // What is made inside of the op is no operand.
                if is_inside(program, op, value) {
                    continue;
                }
                let node = match known.get(&value) {
                    Some(&node) => node,
                    None => graph.add_argument(program, value, &mut known),
                };
                operands.push(node);
            }
            let operation = &program.ops[op];
            let twins = twins.entry(key(&operation.op, &operands)).or_default();
            let twin = twins.iter().copied().find(|&twin| graph.is_twin(program, twin, op, &operands));
            if let Some(twin) = twin {
                let twin = graph.arranged_results.get(&twin).copied().unwrap_or(twin);
                known.extend(operation.results.iter().map(|&result| (result, twin)));
                continue;
            }
            let before = operands.clone();
            let operands = graph.arranged(program, op, operands);
            let divides = before[..] != operands[..] && matches!(operation.op, Op::Binary(_));
            twins.push(graph.nodes.len());
            graph.inputs.insert(graph.nodes.len(), before);
            let first = operation.results.first().map(|&result| program.ty(result));
            let node = Node {
                op: Some(op),
                kind: if divides { Kind::Loop(Cost::Cheap) } else { kind(program, op) },
                operands,
                bytes: made_bytes(program, op),
                elements: first.map_or(0, Type::elements),
                rank: first.map_or(0, |ty| ty.shape.iter().filter(|&&size| size > 1).count()),
            };
            graph.nodes.push(node);
            if operation.op == Op::OptimizationBarrier {
                graph.pass(program, op, &mut known);
                continue;
            }
            graph.arrange_result(program, op);
            known.extend(operation.results.iter().map(|&result| (result, graph.nodes.len() - 1)));
        }
        graph.results = content
            .results
            .iter()
            .map(|&value| match known.get(&value) {
                Some(&node) => node,
                None => graph.add_argument(program, value, &mut known),
            })
            .collect();
        graph
    }

    /// The operands of an op as its kernel wants them: convolutions have features last, and kernels the
    /// way they are laid over the input.
    fn arranged(&mut self, program: &Program, op: OpId, operands: SmallVec<[NodeId; 4]>) -> SmallVec<[NodeId; 4]> {
        let mut arranged = operands;
        let convolution = match &program.ops[op].op {
            Op::Binary(Binary::Divide) => {
                arranged[1] = self.reciprocal(op, arranged[1]);
                return arranged;
            }
            Op::Convolution(convolution) => convolution,
            Op::DotGeneral(dot) => {
                if sums_over_rows(dot) {
                    arranged[0] = self.rearrange(op, arranged[0]);
                }
                return arranged;
            }
            _ => return arranged,
        };
        if !is_features_last(convolution.input_batch, &convolution.input_spatial, convolution.input_feature) {
            arranged[0] = self.rearrange(op, arranged[0]);
        }
        if convolution.reversal.contains(&true) {
            arranged[1] = self.rearrange(op, arranged[1]);
        }
        let (input, output) = (convolution.kernel_input_feature, convolution.kernel_output_feature);
        let is_plain = output == input + 1 && convolution.kernel_spatial.iter().enumerate().all(|(at, &dim)| at == dim);
        if !is_plain {
            arranged[1] = self.rearrange(op, arranged[1]);
        }
        arranged
    }

    /// What to multiply by instead of dividing by a broadcast value, which is the same for many elements.
    fn reciprocal(&mut self, op: OpId, divisor: NodeId) -> NodeId {
        let Node { kind, bytes, elements, rank, .. } = self.nodes[divisor];
        let Some(&small) = self.nodes[divisor].operands.first() else { return divisor };
        if kind != Kind::Loop(Cost::Broadcast) || self.nodes[small].elements <= 1 {
            return divisor;
        }
        if let Some(&known) = self.reciprocals.get(&divisor) {
            return known;
        }
        let one = Node {
            op: Some(op),
            kind: Kind::Loop(Cost::Expensive),
            operands: SmallVec::from_slice(&[small]),
            ..self.nodes[small].clone()
        };
        self.nodes.push(one);
        let operands = SmallVec::from_slice(&[self.nodes.len() - 1]);
        self.nodes.push(Node { op: Some(op), kind, operands, bytes, elements, rank });
        self.reciprocals.insert(divisor, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// What a barrier, added last, lets through: the same buffers, but nobody reads them before.
    fn pass(&mut self, program: &Program, op: OpId, known: &mut FxHashMap<ValueId, NodeId>) {
        let barrier = self.nodes.len() - 1;
        self.nodes[barrier].bytes = 0;
        for (index, &result) in program.ops[op].results.iter().enumerate() {
            let operand = self.nodes[barrier].operands[index];
            let operands = SmallVec::from_slice(&[operand, barrier]);
            known.insert(result, self.nodes.len());
            self.nodes.push(Node { kind: Kind::Passed, operands, op: Some(op), ..self.nodes[operand].clone() });
        }
    }

    /// Puts the result of the op added last as the program has it.
    fn arrange_result(&mut self, program: &Program, op: OpId) {
        let Op::Convolution(convolution) = &program.ops[op].op else { return };
        if !is_features_last(convolution.output_batch, &convolution.output_spatial, convolution.output_feature) {
            let made = self.nodes.len() - 1;
            let arranged = self.rearrange(op, made);
            self.arranged_results.insert(made, arranged);
        }
    }

    /// Adds a node that has the elements of another in another order.
    fn rearrange(&mut self, op: OpId, node: NodeId) -> NodeId {
        let Node { bytes, elements, rank, .. } = self.nodes[node];
        let operands = SmallVec::from_slice(&[node]);
        self.nodes.push(Node { op: Some(op), kind: Kind::Loop(Cost::Cheap), operands, bytes, elements, rank });
        self.nodes.len() - 1
    }

    /// Whether a node computes the same as an op does on operands.
    fn is_twin(&self, program: &Program, node: NodeId, op: OpId, operands: &[NodeId]) -> bool {
        let Some(other) = self.nodes[node].op else { return false };
        let (left, right) = (&program.ops[other], &program.ops[op]);
        let region = |op: &Operation| op.regions.first().and_then(|&region| program.applied_binary(region));
        let is_pure = !matches!(left.op, Op::CustomCall(_) | Op::Opaque(_) | Op::OptimizationBarrier | Op::Rng { .. });
        let is_function = left.regions.is_empty() || region(left).is_some() && region(left) == region(right);
        is_pure && is_function && self.inputs[&node][..] == *operands && left.op == right.op
    }

    fn add_argument(&mut self, program: &Program, value: ValueId, known: &mut FxHashMap<ValueId, NodeId>) -> NodeId {
        let ty = program.ty(value);
        known.insert(value, self.nodes.len());
        self.nodes.push(Node {
            op: None,
            kind: Kind::Argument,
            operands: SmallVec::new(),
            bytes: ty.bytes(),
            elements: ty.elements(),
            rank: ty.shape.iter().filter(|&&size| size > 1).count(),
        });
        self.nodes.len() - 1
    }
}

/// Whether both operands of a product are summed over several leading dimensions, as in the gradient of
/// a weight. One of them is then transposed first.
fn sums_over_rows(dot: &DotGeneral) -> bool {
    let leading = |dims: &[usize]| dims.len() > 1 && dims.iter().enumerate().all(|(at, &dim)| at == dim);
    dot.lhs_batch.is_empty() && leading(&dot.lhs_contract) && leading(&dot.rhs_contract)
}

fn is_features_last(batch: usize, spatial: &[usize], feature: usize) -> bool {
    batch == 0 && feature == spatial.len() + 1 && spatial.iter().enumerate().all(|(at, &dim)| dim == at + 1)
}

/// Bytes of the results of an op that are not the same as an operand.
fn made_bytes(program: &Program, op: OpId) -> usize {
    let operation = &program.ops[op];
    let is_made = |(index, _): &(usize, &ValueId)| !program.carries_unchanged(op, *index);
    operation.results.iter().enumerate().filter(is_made).map(|(_, &result)| program.ty(result).bytes()).sum()
}

/// Equal for ops that could be the same.
fn key(op: &Op, operands: &[NodeId]) -> u64 {
    let mut hasher = FxHasher::default();
    std::mem::discriminant(op).hash(&mut hasher);
    operands.hash(&mut hasher);
    if let Op::Constant(literal) = op {
        (literal.as_splat(), &literal.ty).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a value is made by, or an argument of, a region of an op.
fn is_inside(program: &Program, op: OpId, value: ValueId) -> bool {
    use crate::program::Definition;
    program.ops[op].regions.iter().any(|&region| {
        let region_of = |other: OpId| program.regions[region].ops.contains(&other);
        let is_own = match program.values[value].definition {
            Definition::Argument { region: of, .. } => of == region,
            Definition::Result { op: maker, .. } => region_of(maker),
        };
        is_own || program.regions[region].ops.iter().any(|&inner| is_inside(program, inner, value))
    })
}

fn kind(program: &Program, op: OpId) -> Kind {
    let operation = &program.ops[op];
    let cost = |expensive: bool| Kind::Loop(if expensive { Cost::Expensive } else { Cost::Cheap });
    let result = operation.results.first().map(|&result| program.ty(result));
    let dtype = result.map_or(DType::F32, |ty| ty.dtype);
    match &operation.op {
        Op::Binary(binary) => cost(match binary {
            Binary::Divide | Binary::Remainder => dtype.is_float(),
            Binary::Atan2 | Binary::NextAfter | Binary::Polygamma | Binary::Power | Binary::Zeta => true,
            _ => false,
        }),
        Op::BroadcastInDim(_) => Kind::Loop(Cost::Broadcast),
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
        | Op::Concatenate { .. }
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::Iota { .. }
        | Op::Pad(_)
        | Op::ReducePrecision { .. }
        | Op::Reverse { .. }
        | Op::Select
        | Op::Slice(_)
        | Op::Transpose { .. } => cost(false),
        Op::PartitionId | Op::ReplicaId => Kind::Number,
        // All others are computed on their own.
        _ => Kind::Kernel,
    }
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
    let is_canonical =
        sums_over_rows(dot) || dot.lhs_contract.iter().all(|&dim| dim + dot.lhs_contract.len() >= lhs.len());
    rows > 1 && columns > 1 && is_canonical && rows.max(columns).max(contracted) >= 8
}

/// Whether a transpose makes a product of matrices the product of the others in reverse, which costs
/// nothing.
fn swaps_product(program: &Program, op: OpId) -> bool {
    let operand = program.ops[op].operands[0];
    let maker = program.producer(operand).map(|maker| &program.ops[maker].op);
    matches!(maker, Some(Op::DotGeneral(dot)) if dot.lhs_batch.is_empty()) && program.shape(operand).len() == 2
}

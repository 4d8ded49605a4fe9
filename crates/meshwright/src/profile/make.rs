//! The graph of a region, with what XLA makes of ops before it fuses them: equal ops once, operands in the
//! order that kernels want, quotients as products.

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::graph::{Arrangement, Cost, Graph, Kind, Node, NodeId, Operands, arrangement, is_flat_product, kind};
use super::memory::device_bytes;
use crate::program::{
    Binary, Convolution, DType, Dims, MemoryKind, Op, OpId, Operation, Program, RegionId, Shape, Unary, ValueId,
    is_pure, twin_key,
};

/// Of an element of `f32`, and of a place along a dimension.
const WIDE_BYTES: usize = 4;

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    Accelerator,
    /// It has no narrow floats: operands are made `f32` first, and results narrow again. What is gathered or scattered
    /// lies part by part, and is put in order apart from that.
    Cpu,
}

pub(super) fn graph(program: &Program, region: RegionId, processor: Processor) -> Graph {
    let content = &program.regions[region];
    let mut maker = Maker {
        program,
        nodes: Vec::with_capacity(content.ops.len() * 2),
        known: FxHashMap::with_capacity_and_hasher(content.ops.len(), FxBuildHasher),
        twins: FxHashMap::with_capacity_and_hasher(content.ops.len(), FxBuildHasher),
        inputs: Vec::with_capacity(content.ops.len() * 2),
        outputs: FxHashMap::default(),
        reciprocals: FxHashMap::default(),
        factors: FxHashMap::default(),
        positions: FxHashMap::default(),
        processor,
        widened: FxHashMap::default(),
        complements: FxHashMap::default(),
    };
    let on_host = program.on_host();
    for &argument in &content.arguments {
        let node = maker.node(argument);
        maker.nodes[node].bytes = device_bytes(program, &on_host, argument);
    }
    for &op in &content.ops {
        maker.add(op);
    }
    let results = content.results.iter().map(|&value| maker.node(value)).collect();
    Graph { nodes: maker.nodes, results, values: maker.known, processor }
}

struct Maker<'p> {
    program: &'p Program,
    nodes: Vec<Node>,
    /// The node of each value.
    known: FxHashMap<ValueId, NodeId>,
    /// Nodes of ops that could be the same.
    twins: FxHashMap<u64, SmallVec<[NodeId; 2]>>,
    /// What the op of each node reads, before it is arranged for its kernel; nothing for what is added to
    /// arrange it.
    inputs: Vec<Operands>,
    /// What stands for the result of a node, where it is arranged after its kernel.
    outputs: FxHashMap<NodeId, NodeId>,
    /// Broadcast values that are divided by, and what is multiplied by instead.
    reciprocals: FxHashMap<NodeId, NodeId>,
    /// Operands of products, laid out for them: flat, or with dimensions in some order.
    factors: FxHashMap<(NodeId, Dims), NodeId>,
    /// Where elements of some shape stand along each dimension.
    positions: FxHashMap<(Shape, usize), NodeId>,
    processor: Processor,
    /// Narrow values, and the same as `f32`.
    widened: FxHashMap<NodeId, NodeId>,
    /// Operands of complementary error functions, and the exponentials of their negated squares.
    complements: FxHashMap<NodeId, NodeId>,
}

impl Maker<'_> {
    /// The node of a value; what nothing in the region makes is an argument.
    fn node(&mut self, value: ValueId) -> NodeId {
        if let Some(&node) = self.known.get(&value) {
            return node;
        }
        let node = self.push(Node::new(None, Kind::Argument, &[], self.program.ty(value)));
        self.known.insert(value, node);
        node
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn add(&mut self, op: OpId) {
        let operation = &self.program.ops[op];
        let operands: Operands = if operation.regions.is_empty() {
            operation.operands.iter().map(|&value| self.node(value)).collect()
        } else {
            self.program.outer_reads(op).into_iter().map(|value| self.node(value)).collect()
        };
        let key = twin_key(&operation.op, &operands);
        let twin = self
            .twins
            .get(&key)
            .and_then(|twins| twins.iter().copied().find(|&twin| self.is_twin(twin, op, &operands)));
        let node = twin.unwrap_or_else(|| {
            let node = self.make(op, &operands);
            self.twins.entry(key).or_default().push(node);
            self.inputs.resize(self.nodes.len(), Operands::new());
            self.inputs[node] = operands;
            node
        });
        if operation.op == Op::OptimizationBarrier {
            self.pass(op, node);
            return;
        }
        let output = self.outputs.get(&node).copied().unwrap_or(node);
        self.known.extend(operation.results.iter().map(|&result| (result, output)));
    }

    /// Whether a node computes the same as an op does on operands.
    fn is_twin(&self, node: NodeId, op: OpId, operands: &[NodeId]) -> bool {
        let Some(other) = self.nodes[node].op else { return false };
        let (left, right) = (&self.program.ops[other], &self.program.ops[op]);
        let region = |op: &Operation| op.regions.first().and_then(|&region| self.program.applied_binary(region));
        let is_function = left.regions.is_empty() || region(left).is_some() && region(left) == region(right);
        is_pure(&left.op) && is_function && self.inputs[node][..] == *operands && left.op == right.op
    }

    fn make(&mut self, op: OpId, operands: &[NodeId]) -> NodeId {
        let operation = &self.program.ops[op];
        let mut kind = kind(self.program, op);
        if self.processor == Processor::Accelerator {
            kind = match (&operation.op, kind) {
                // What accelerators run for a sum is compiled for it, with all that leads to it.
                (Op::Reduce { .. }, _) => Kind::Loop(Cost::Expensive),
                // Memory is what they wait for, not functions of single elements.
                (Op::Unary(_) | Op::Binary(_) | Op::Convert { .. }, Kind::Loop(_)) => Kind::Loop(Cost::Cheap),
                (_, kind) => kind,
            };
        }
        let mut arranged: Operands = SmallVec::from_slice(operands);
        match &operation.op {
            Op::Binary(Binary::Add) => {
                if let Some(sum) = self.scattered_sum(operands) {
                    return self.push(sum);
                }
            }
            Op::Binary(Binary::Divide) => {
                if let Some(reciprocal) = self.reciprocal(op, arranged[1]) {
                    arranged[1] = reciprocal;
                    kind = Kind::Loop(Cost::Cheap);
                }
            }
            // Kernels of accelerators read operands as they lie, also for gradients.
            Op::Convolution(convolution) if self.processor == Processor::Cpu => {
                self.arrange(op, convolution, &mut arranged);
            }
            Op::SelectAndScatter(_) => self.find_selected(op, &mut arranged),
            other if other.is_collective() => {
                arranged.iter_mut().enumerate().for_each(|(side, operand)| *operand = self.wide(op, side, *operand));
                if self.is_out_of_order(op) && matches!(other, Op::ReduceScatter(_)) {
                    arranged[0] = self.rearrange(op, arranged[0]);
                }
            }
            Op::Unary(Unary::Erfc) => self.expand_complement(op, &mut arranged),
            Op::Unary(Unary::Exponential) => {
                if let Some(&known) = self.squared(operands[0]).and_then(|root| self.complements.get(&root)) {
                    return known;
                }
            }
            Op::DotGeneral(dot) => {
                for (side, operand) in arranged.iter_mut().enumerate() {
                    let factor = self.unswapped(*operand).unwrap_or(*operand);
                    let factor = self.wide(op, side, factor);
                    *operand = self.arrange_factor(op, factor, arrangement(self.program, op, dot, side));
                }
            }
            _ => {}
        }
        if matches!(kind, Kind::Loop(_)) && operation.op.is_elementwise() && self.is_widened(operation.results[0]) {
            // What makes it narrow again is not done twice.
            kind = Kind::Loop(Cost::Expensive);
        }
        let mut node = match operation.results.first() {
            Some(&result) => Node::new(Some(op), kind, &arranged, self.program.ty(result)),
            None => {
                Node { op: Some(op), kind, operands: arranged, bytes: 0, elements: 0, rank: 0, is_elementwise: false }
            }
        };
        // What is overwritten in part is read as it is.
        node.is_elementwise = operation.op.is_elementwise() || operation.op == Op::DynamicUpdateSlice;
        node.bytes = self.made_bytes(op);
        let is_wide = is_computed_wide(&operation.op) && self.is_widened(operation.results[0]);
        if is_wide {
            node.bytes = node.elements * WIDE_BYTES;
        }
        let node = self.push(node);
        if let Op::Convolution(convolution) = &operation.op
            && !is_features_last(convolution.output_batch, &convolution.output_spatial, convolution.output_feature)
        {
            let output = self.rearrange(op, node);
            self.outputs.insert(node, output);
        }
        if let Op::DotGeneral(dot) = &operation.op
            && is_flat_product(self.program, op, dot)
        {
            let output = self.push(self.nodes[node].like(op, Kind::Reshape, &[node]));
            self.outputs.insert(node, output);
        }
        if self.is_out_of_order(op) {
            let output = self.rearrange(op, node);
            self.outputs.insert(node, output);
        }
        if is_wide {
            let wide = self.outputs.get(&node).copied().unwrap_or(node);
            let narrow = self.convert(op, wide, self.made_bytes(op), Cost::Expensive);
            self.outputs.insert(node, narrow);
        }
        node
    }

    /// Whether a value is narrow, and computed as `f32`.
    fn is_widened(&self, value: ValueId) -> bool {
        self.processor == Processor::Cpu && matches!(self.program.dtype(value), DType::BF16 | DType::F16)
    }

    /// An operand as `f32` where it is computed with so, once for all who want it.
    fn wide(&mut self, op: OpId, side: usize, operand: NodeId) -> NodeId {
        if !self.is_widened(self.program.ops[op].operands[side]) {
            return operand;
        }
        if let Some(&known) = self.widened.get(&operand) {
            return known;
        }
        let bytes = self.nodes[operand].elements * WIDE_BYTES;
        let wide = self.convert(op, operand, bytes, Cost::Cheap);
        self.widened.insert(operand, wide);
        wide
    }

    /// Whether parts of several devices lie one after the other in the result of a collective, or have to in its
    /// operand, while they stand side by side in its value.
    fn is_out_of_order(&self, op: OpId) -> bool {
        let operation = &self.program.ops[op];
        let dim = match &operation.op {
            Op::AllGather(gather) => gather.dim,
            Op::ReduceScatter(scatter) => scatter.dim,
            _ => return false,
        };
        let rows = &self.program.shape(operation.results[0])[..dim];
        self.processor == Processor::Cpu && rows.iter().any(|&size| size > 1)
    }

    /// Adds a node that has the elements of another in another type.
    fn convert(&mut self, op: OpId, node: NodeId, bytes: usize, cost: Cost) -> NodeId {
        let converted = self.nodes[node].like(op, Kind::Loop(cost), &[node]);
        self.push(Node { bytes, is_elementwise: true, ..converted })
    }

    /// The node whose negated square another is.
    fn squared(&self, node: NodeId) -> Option<NodeId> {
        let op = |node: NodeId| self.nodes[node].op.map(|op| &self.program.ops[op].op);
        let square = *self.nodes[node].operands.first().filter(|_| op(node) == Some(&Op::Unary(Unary::Negate)))?;
        match (op(square)?, &self.nodes[square].operands[..]) {
            (Op::Unary(Unary::Square), &[root]) => Some(root),
            (Op::Binary(Binary::Multiply), &[root, other]) if root == other => Some(root),
            _ => None,
        }
    }

    /// One minus the error function has two ways to be computed, of which one needs an exponential twice; its gradient
    /// is made of the same.
    fn expand_complement(&mut self, op: OpId, operands: &mut Operands) {
        let exponential = self.nodes[operands[0]].like(op, Kind::Loop(Cost::Expensive), operands);
        let exponential = self.push(Node { is_elementwise: true, ..exponential });
        self.complements.insert(operands[0], exponential);
        // Broadcasts are what elements are read several times through.
        let repeated = self.nodes[exponential].like(op, Kind::Loop(Cost::Broadcast), &[exponential]);
        operands.push(self.push(repeated));
    }

    /// Bytes of the results of an op that are not the same as an operand.
    fn made_bytes(&self, op: OpId) -> usize {
        let operation = &self.program.ops[op];
        if operation.op == Op::OptimizationBarrier || operation.op.copies_to() == Some(MemoryKind::Host) {
            return 0;
        }
        let is_made = |(index, _): &(usize, &ValueId)| !self.program.carries_unchanged(op, *index);
        let made = operation.results.iter().enumerate().filter(is_made);
        made.map(|(_, &result)| self.program.ty(result).bytes()).sum()
    }

    /// A sum with what was scattered into zeros: the same is scattered into the other term.
    fn scattered_sum(&self, operands: &[NodeId]) -> Option<Node> {
        let &[left, right] = operands else { return None };
        let is_scattered = |(node, _): &(NodeId, NodeId)| self.is_scattered_into_zeros(*node);
        let (scattered, other) = [(left, right), (right, left)].into_iter().find(is_scattered)?;
        let mut sum = self.nodes[scattered].clone();
        sum.operands[0] = other;
        Some(sum)
    }

    fn is_scattered_into_zeros(&self, node: NodeId) -> bool {
        let Some(op) = self.nodes[node].op else { return false };
        let operation = &self.program.ops[op];
        let region = operation.regions.first();
        let adds = region.and_then(|&region| self.program.applied_binary(region)) == Some(Binary::Add);
        matches!(operation.op, Op::Scatter(_)) && adds && self.program.is_zero(operation.operands[0])
    }

    /// What to multiply by instead of dividing by a broadcast value, which is the same for many elements.
    fn reciprocal(&mut self, op: OpId, divisor: NodeId) -> Option<NodeId> {
        let &small = self.nodes[divisor].operands.first()?;
        let broadcast = Kind::Loop(Cost::Broadcast);
        if self.nodes[divisor].kind != broadcast || self.nodes[small].elements <= 1 {
            return None;
        }
        if let Some(&known) = self.reciprocals.get(&divisor) {
            return Some(known);
        }
        let one = self.push(self.nodes[small].like(op, Kind::Loop(Cost::Expensive), &[small]));
        let many = self.push(self.nodes[divisor].like(op, broadcast, &[one]));
        self.reciprocals.insert(divisor, many);
        Some(many)
    }

    /// What a selection needs besides: the place of each element along each dimension, to know which of
    /// them is selected, and a tensor to scatter into. Selecting does not wait for what is scattered.
    fn find_selected(&mut self, op: OpId, operands: &mut Operands) {
        let operation = &self.program.ops[op];
        let [ty, source] = [0, 1].map(|side| self.program.ty(operation.operands[side]));
        let mut places = Operands::new();
        for dimension in 0..=ty.rank() {
            let node = match self.positions.get(&(ty.shape.clone(), dimension)) {
                Some(&known) => known,
                None => {
                    let place = ty.with_dtype(if dimension < ty.rank() { DType::I32 } else { ty.dtype });
                    let node = self.push(Node::new(Some(op), Kind::Loop(Cost::Broadcast), &[], &place));
                    self.positions.insert((ty.shape.clone(), dimension), node);
                    node
                }
            };
            places.push(node);
        }
        let target = places.pop();
        places.push(operands[0]);
        let selected = Node::new(Some(op), Kind::Kernel, &places, source);
        let bytes = source.bytes() + ty.rank() * source.elements() * WIDE_BYTES;
        operands[0] = self.push(Node { bytes, ..selected });
        operands.extend(target);
    }

    /// The matrix that a node swaps rows and columns of: products read matrices either way.
    fn unswapped(&self, node: NodeId) -> Option<NodeId> {
        let op = self.nodes[node].op?;
        let is_swap = matches!(&self.program.ops[op].op, Op::Transpose { permutation } if permutation[..] == [1, 0]);
        self.nodes[node].operands.first().copied().filter(|_| is_swap)
    }

    /// An operand of a product as it is laid out for it, once for all who want it so.
    fn arrange_factor(&mut self, op: OpId, operand: NodeId, arrangement: Arrangement) -> NodeId {
        let (kind, order) = match arrangement {
            Arrangement::AsItIs => return operand,
            Arrangement::Flat => (Kind::Reshape, Dims::new()),
            Arrangement::Transposed(order) => (Kind::Loop(Cost::Cheap), order),
        };
        if let Some(&known) = self.factors.get(&(operand, order.clone())) {
            return known;
        }
        let factor = self.push(self.nodes[operand].like(op, kind, &[operand]));
        self.factors.insert((operand, order), factor);
        factor
    }

    /// The operands of a convolution as kernels want them: features last, and the kernel the way it is laid
    /// over the input.
    fn arrange(&mut self, op: OpId, convolution: &Convolution, operands: &mut Operands) {
        if !is_features_last(convolution.input_batch, &convolution.input_spatial, convolution.input_feature) {
            operands[0] = self.rearrange(op, operands[0]);
        }
        if convolution.reversal.contains(&true) {
            operands[1] = self.rearrange(op, operands[1]);
        }
        let (input, output) = (convolution.kernel_input_feature, convolution.kernel_output_feature);
        let is_plain = output == input + 1 && convolution.kernel_spatial.iter().enumerate().all(|(at, &dim)| at == dim);
        if !is_plain {
            operands[1] = self.rearrange(op, operands[1]);
        }
    }

    /// Adds a node that has the elements of another in another order.
    fn rearrange(&mut self, op: OpId, node: NodeId) -> NodeId {
        self.push(self.nodes[node].like(op, Kind::Loop(Cost::Cheap), &[node]))
    }

    /// What a barrier lets through: the same buffers, but nobody reads them before.
    fn pass(&mut self, op: OpId, barrier: NodeId) {
        for (index, &result) in self.program.ops[op].results.iter().enumerate() {
            let operand = self.nodes[barrier].operands[index];
            let passed = self.push(self.nodes[operand].like(op, Kind::Passed, &[operand, barrier]));
            self.known.insert(result, passed);
        }
    }
}

/// Whether a processor without narrow floats has only `f32` for an op, and its operands and result are in memory so.
fn is_computed_wide(op: &Op) -> bool {
    matches!(op, Op::DotGeneral(_)) || op.is_collective()
}

fn is_features_last(batch: usize, spatial: &[usize], feature: usize) -> bool {
    batch == 0 && feature == spatial.len() + 1 && spatial.iter().enumerate().all(|(at, &dim)| dim == at + 1)
}

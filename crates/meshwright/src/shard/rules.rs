//! The sharding rules: one row per op, in alphabetical order.
//!
//! Propagation, strategies, lowering, tiling in time and the reference all read this table.

use smallvec::{SmallVec, smallvec};

use super::attention;
use super::reshape::reshape;
use super::rule::{Carry, Factor, FactorId, Kind, Labels, Rule};
use super::sharding::Reduction;
use crate::program::{
    BatchNorm, Binary, BroadcastInDim, Convolution, DType, DotGeneral, Gather, Op, OpId, Operation, Pad, Program,
    Scatter, SelectAndScatter, Slice, TriangularSolve, Unary, ValueId, Window,
};

/// The rule of an op. Ops that only pass values on (barriers, branches, loops) tie each operand to
/// its result instead and have none; see `ties`.
pub fn rule(program: &Program, op: OpId) -> Rule {
    let operation = &program.ops[op];
    let draft = Draft::new(program, operation);
    match &operation.op {
        Op::AfterAll => draft.rule,
        Op::AllGather(_) => draft.rule,
        Op::AllReduce(_) => draft.rule,
        Op::AllToAll(_) => draft.rule,
        Op::Attention(attention) => attention::attention(draft, attention),
        Op::AttentionGrad(grad) => attention::attention_grad(draft, grad),
        Op::BatchNormGrad(norm) => batch_norm(draft, *norm),
        Op::BatchNormInference(norm) => batch_norm_inference(draft, *norm),
        Op::BatchNormTraining(norm) => batch_norm(draft, *norm),
        Op::Binary(binary) => self::binary(draft, *binary),
        Op::BitcastConvert { .. } => bitcast_convert(draft),
        Op::BroadcastInDim(broadcast) => broadcast_in_dim(draft, broadcast),
        Op::Case => draft.rule,
        Op::Check(_) => draft.rule,
        Op::Cholesky { .. } => leading(draft, 2),
        Op::Clamp => elementwise(draft),
        Op::CollectiveBroadcast(_) => draft.rule,
        Op::CollectivePermute(_) => draft.rule,
        Op::Compare { .. } => elementwise(draft),
        Op::Complex => elementwise(draft).carry_together(Some(Reduction::Sum)),
        Op::Concatenate { dim } => except(draft, &[*dim]).carry_together(None),
        Op::Constant(_) => elementwise(draft),
        Op::Convert { .. } => convert(draft),
        Op::Convolution(convolution) => self::convolution(draft, convolution),
        Op::CustomCall(call) => match &call.rule {
            Some(text) => super::custom::rule(draft.rule, program, operation, text),
            None => draft.rule,
        },
        Op::DotGeneral(dot) => dot_general(draft, dot),
        Op::DynamicSlice { .. } => dynamic_slice(draft),
        Op::DynamicUpdateSlice => dynamic_update_slice(draft),
        Op::Fft { lengths, .. } => leading(draft, lengths.len()),
        Op::Gather(gather) => self::gather(draft, gather),
        Op::If => draft.rule,
        Op::Infeed(_) => draft.rule,
        Op::Iota { .. } => elementwise(draft),
        Op::Map => elementwise(draft),
        Op::Opaque(_) => draft.rule,
        Op::OptimizationBarrier => draft.rule,
        Op::Outfeed(_) => draft.rule,
        Op::Pad(pad) => self::pad(draft, pad),
        Op::PartitionId => draft.rule,
        Op::Recv(_) => draft.rule,
        Op::Reduce { dims } => reduce(draft, dims),
        Op::ReducePrecision { .. } => elementwise(draft),
        Op::ReduceScatter(_) => draft.rule,
        Op::ReduceWindow(window) => reduce_window(draft, window),
        Op::ReplicaId => draft.rule,
        Op::Reshape { .. } => reshape(draft).carry_each(&[0], None),
        Op::Reverse { dims } => except(draft, dims).carry_each(&[0], None),
        // Computed whole and sliced, so that every device draws the same numbers.
        Op::Rng { .. } => draft.rule,
        Op::RngBitGenerator { .. } => draft.rule,
        Op::Scatter(scatter) => self::scatter(draft, scatter),
        Op::Select => elementwise(draft).with_carry(&[1, 2], None),
        Op::SelectAndScatter(scatter) => select_and_scatter(draft, scatter),
        Op::Send(_) => draft.rule,
        Op::Slice(slice) => self::slice(draft, slice),
        Op::Sort { dim, .. } => except(draft, &[*dim]),
        Op::TopK { .. } => leading(draft, 1),
        Op::Transpose { permutation } => transpose(draft, permutation),
        Op::TriangularSolve(solve) => triangular_solve(draft, *solve),
        Op::Unary(unary) => self::unary(draft, *unary),
        Op::While => draft.rule,
    }
}

/// Statistics are over everything but features; what [`expand_batch_norm`](crate::program::expand_batch_norm)
/// makes can be cut more.
fn batch_norm(mut draft: Draft<'_>, norm: BatchNorm) -> Rule {
    let feature = draft.parallel(draft.operand_shape(0)[norm.feature_dim]);
    draft.label_where(|shape| if shape.len() == 1 { Some(0) } else { Some(norm.feature_dim) }, &feature);
    draft.rule
}

fn batch_norm_inference(mut draft: Draft<'_>, norm: BatchNorm) -> Rule {
    let shape = draft.operand_shape(0);
    for (dim, &size) in shape.iter().enumerate() {
        let part = draft.parallel(size);
        draft.rule.operands[0][dim] = part.clone();
        draft.rule.results[0][dim] = part.clone();
        if dim == norm.feature_dim {
            for statistic in &mut draft.rule.operands[1..] {
                statistic[0] = part.clone();
            }
        }
    }
    draft.rule
}

fn binary(draft: Draft<'_>, binary: Binary) -> Rule {
    let dtype = draft.result_dtype();
    let rule = elementwise(draft);
    match binary {
        Binary::Add | Binary::Subtract if dtype != DType::Bool => rule.carry_together(Some(Reduction::Sum)),
        Binary::Divide if dtype.is_float() => rule.carry_each(&[0], Some(Reduction::Sum)),
        Binary::Multiply if dtype != DType::Bool => {
            rule.carry_each(&[0, 1], Some(Reduction::Sum)).with_carry(&[0, 1], Some(Reduction::Product))
        }
        Binary::Add | Binary::And | Binary::Maximum | Binary::Minimum | Binary::Multiply | Binary::Or => {
            rule.carry_together(Reduction::of(binary, dtype))
        }
        _ => rule,
    }
}

fn bitcast_convert(mut draft: Draft<'_>) -> Rule {
    let shared = draft.operand_shape(0).len().min(draft.result_shape(0).len());
    for dim in 0..shared {
        let part = draft.parallel(draft.result_shape(0)[dim]);
        draft.label_where(|_| Some(dim), &part);
    }
    draft.rule
}

fn broadcast_in_dim(mut draft: Draft<'_>, broadcast: &BroadcastInDim) -> Rule {
    let operand = draft.operand_shape(0);
    for (dim, &size) in broadcast.shape.iter().enumerate() {
        let part = draft.parallel(size);
        draft.rule.results[0][dim] = part.clone();
        if let Some(from) = broadcast.dims.iter().position(|&to| to == dim)
            && operand[from] == size
        {
            draft.rule.operands[0][from] = part;
        }
    }
    draft.rule.carry_each(&[0], None)
}

fn convert(draft: Draft<'_>) -> Rule {
    let is_linear = draft.result_dtype().is_float() && draft.program.dtype(draft.operation.operands[0]).is_float();
    let rule = elementwise(draft);
    if is_linear { rule.carry_each(&[0], None) } else { rule }
}

fn convolution(mut draft: Draft<'_>, conv: &Convolution) -> Rule {
    let (input, kernel) = (draft.operand_shape(0), draft.operand_shape(1));
    let batch_groups = draft.parallel(conv.batch_groups);
    let batch = draft.parallel(input[conv.input_batch] / conv.batch_groups);
    let feature_groups = draft.parallel(conv.feature_groups);
    let features = draft.reduced(kernel[conv.kernel_input_feature], Reduction::Sum);
    // At most one kind of group is more than one.
    let groups = conv.batch_groups * conv.feature_groups;
    let outputs = draft.parallel(kernel[conv.kernel_output_feature] / groups);
    let join = |parts: &[&Part]| parts.iter().copied().flatten().copied().collect::<Part>();
    draft.rule.operands[0][conv.input_batch] = join(&[&batch_groups, &batch]);
    draft.rule.operands[0][conv.input_feature] = join(&[&feature_groups, &features]);
    draft.rule.operands[1][conv.kernel_input_feature] = features;
    let output_feature = join(&[&batch_groups, &feature_groups, &outputs]);
    draft.rule.operands[1][conv.kernel_output_feature] = output_feature.clone();
    draft.rule.results[0][conv.output_batch] = batch;
    draft.rule.results[0][conv.output_feature] = output_feature;
    draft.rule.carry_each(&[0, 1], Some(Reduction::Sum))
}

fn dot_general(mut draft: Draft<'_>, dot: &DotGeneral) -> Rule {
    let (lhs, rhs) = (draft.operand_shape(0), draft.operand_shape(1));
    let mut result = Labels::new();
    for (&left, &right) in dot.lhs_batch.iter().zip(&dot.rhs_batch) {
        let part = draft.parallel(lhs[left]);
        draft.rule.operands[0][left] = part.clone();
        draft.rule.operands[1][right] = part.clone();
        result.push(part);
    }
    let free = |rank: usize, batch: &[usize], contract: &[usize]| {
        (0..rank).filter(|dim| !batch.contains(dim) && !contract.contains(dim)).collect::<SmallVec<[usize; 4]>>()
    };
    for dim in free(lhs.len(), &dot.lhs_batch, &dot.lhs_contract) {
        let part = draft.parallel(lhs[dim]);
        draft.rule.operands[0][dim] = part.clone();
        result.push(part);
    }
    for dim in free(rhs.len(), &dot.rhs_batch, &dot.rhs_contract) {
        let part = draft.parallel(rhs[dim]);
        draft.rule.operands[1][dim] = part.clone();
        result.push(part);
    }
    for (&left, &right) in dot.lhs_contract.iter().zip(&dot.rhs_contract) {
        let part = draft.reduced(lhs[left], Reduction::Sum);
        draft.rule.operands[0][left] = part.clone();
        draft.rule.operands[1][right] = part;
    }
    draft.rule.results[0] = result;
    draft.rule.carry_each(&[0, 1], Some(Reduction::Sum))
}

/// Dimensions that are not sliced at all can be cut.
fn dynamic_slice(mut draft: Draft<'_>) -> Rule {
    let (from, to) = (draft.operand_shape(0), draft.result_shape(0));
    for dim in 0..from.len() {
        if from[dim] == to[dim] {
            let part = draft.parallel(from[dim]);
            draft.rule.operands[0][dim] = part.clone();
            draft.rule.results[0][dim] = part;
        }
    }
    draft.rule.carry_each(&[0], None)
}

fn dynamic_update_slice(mut draft: Draft<'_>) -> Rule {
    let (whole, update) = (draft.operand_shape(0), draft.operand_shape(1));
    for dim in 0..whole.len() {
        if whole[dim] == update[dim] {
            let part = draft.parallel(whole[dim]);
            draft.rule.operands[0][dim] = part.clone();
            draft.rule.operands[1][dim] = part.clone();
            draft.rule.results[0][dim] = part;
        }
    }
    draft.rule.with_carry(&[0, 1], None)
}

/// A dimension that is indexed can be cut: each device looks up what it has, the rest is zero.
fn gather(mut draft: Draft<'_>, gather: &Gather) -> Rule {
    let (operand, indices) = (draft.operand_shape(0), draft.operand_shape(1));
    let (result_rank, dtype) = (draft.result_shape(0).len(), draft.result_dtype());
    let batch_dims: SmallVec<[usize; 4]> = (0..result_rank).filter(|dim| !gather.offset_dims.contains(dim)).collect();
    let index_dims = (0..indices.len()).filter(|&dim| dim != gather.index_vector_dim);
    for (dim, to) in index_dims.zip(batch_dims) {
        let part = draft.parallel(indices[dim]);
        draft.rule.operands[1][dim] = part.clone();
        draft.rule.results[0][to] = part.clone();
        if let Some(position) = gather.start_indices_batching_dims.iter().position(|&batching| batching == dim) {
            draft.rule.operands[0][gather.operand_batching_dims[position]] = part;
        }
    }
    let mut offsets = gather.offset_dims.iter();
    for (dim, &size) in operand.iter().enumerate() {
        if gather.operand_batching_dims.contains(&dim) {
            continue;
        }
        if gather.collapsed_slice_dims.contains(&dim) {
            let reduction = if dtype == DType::Bool { Reduction::Or } else { Reduction::Sum };
            if gather.start_index_map.contains(&dim) {
                draft.rule.operands[0][dim] = draft.reduced(size, reduction);
            }
        } else if let Some(&to) = offsets.next()
            && gather.slice_sizes[dim] == size
        {
            let part = draft.parallel(size);
            draft.rule.operands[0][dim] = part.clone();
            draft.rule.results[0][to] = part;
        }
    }
    draft.rule.carry_each(&[0], None)
}

fn pad(draft: Draft<'_>, pad: &Pad) -> Rule {
    let padded: SmallVec<[usize; 4]> =
        (0..pad.low.len()).filter(|&dim| (pad.low[dim], pad.high[dim], pad.interior[dim]) != (0, 0, 0)).collect();
    except(draft, &padded).with_carry(&[0, 1], None)
}

fn reduce(mut draft: Draft<'_>, dims: &[usize]) -> Rule {
    let shape = draft.operand_shape(0);
    let inputs = draft.operation.operands.len() / 2;
    let reduction = match inputs {
        1 => draft.region_reduction(),
        // Several values reduced together, such as a maximum with its position.
        _ => None,
    };
    let mut kept = 0;
    for (dim, &size) in shape.iter().enumerate() {
        if dims.contains(&dim) {
            let part = match reduction {
                Some(reduction) => draft.reduced(size, reduction),
                None => draft.whole(size),
            };
            for input in 0..inputs {
                draft.rule.operands[input][dim] = part.clone();
            }
        } else {
            let part = draft.parallel(size);
            for input in 0..inputs {
                draft.rule.operands[input][dim] = part.clone();
                draft.rule.results[input][kept] = part.clone();
            }
            kept += 1;
        }
    }
    match reduction {
        Some(reduction) => draft.rule.with_carry(&[0, 1], Some(reduction)),
        None => draft.rule,
    }
}

fn reduce_window(draft: Draft<'_>, window: &Window) -> Rule {
    let windowed: SmallVec<[usize; 4]> = (0..window.sizes.len())
        .filter(|&dim| {
            window.sizes[dim] != 1
                || window.strides[dim] != 1
                || window.base_dilation[dim] != 1
                || window.padding[dim] != (0, 0)
        })
        .collect();
    except(draft, &windowed)
}

/// Positions that are written can be cut: each device writes what falls into its part. Updates can
/// be cut where their order does not matter: each device adds its own.
fn scatter(mut draft: Draft<'_>, scatter: &Scatter) -> Rule {
    let inputs = (draft.operation.operands.len() - 1) / 2;
    let (input, indices, updates) =
        (draft.operand_shape(0), draft.operand_shape(inputs), draft.operand_shape(inputs + 1));
    let reduction = if inputs == 1 { draft.region_reduction() } else { None };
    let scatter_dims: SmallVec<[usize; 4]> =
        (0..updates.len()).filter(|dim| !scatter.update_window_dims.contains(dim)).collect();
    let index_dims = (0..indices.len()).filter(|&dim| dim != scatter.index_vector_dim);
    for (dim, to) in index_dims.zip(scatter_dims) {
        let batching = scatter.scatter_indices_batching_dims.iter().position(|&batching| batching == dim);
        let part = match (batching, reduction) {
            (Some(_), _) => draft.parallel(indices[dim]),
            (None, Some(reduction)) => draft.reduced(indices[dim], reduction),
            (None, None) => draft.whole(indices[dim]),
        };
        draft.rule.operands[inputs][dim] = part.clone();
        for update in 0..inputs {
            draft.rule.operands[inputs + 1 + update][to] = part.clone();
        }
        if let Some(position) = batching {
            draft.label_inputs(inputs, scatter.input_batching_dims[position], &part);
        }
    }
    let mut windows = scatter.update_window_dims.iter();
    for (dim, &size) in input.iter().enumerate() {
        if scatter.input_batching_dims.contains(&dim) {
            continue;
        }
        let is_indexed = scatter.scatter_dims_to_operand_dims.contains(&dim);
        if scatter.inserted_window_dims.contains(&dim) {
            // Without an index everything is written at the first position.
            let part = if is_indexed { draft.parallel(size) } else { draft.whole(size) };
            draft.label_inputs(inputs, dim, &part);
        } else if let Some(&to) = windows.next()
            && updates[to] == size
            && !is_indexed
        {
            let part = draft.parallel(size);
            draft.label_inputs(inputs, dim, &part);
            for update in 0..inputs {
                draft.rule.operands[inputs + 1 + update][to] = part.clone();
            }
        }
    }
    match reduction {
        Some(reduction) => draft.rule.with_carry(&[0, 2], Some(reduction)),
        None => draft.rule,
    }
}

fn select_and_scatter(mut draft: Draft<'_>, scatter: &SelectAndScatter) -> Rule {
    let shape = draft.operand_shape(0);
    for (dim, &size) in shape.iter().enumerate() {
        let part = match (scatter.window[dim], scatter.strides[dim], scatter.padding[dim]) {
            (1, 1, (0, 0)) => draft.parallel(size),
            _ => continue,
        };
        draft.label_where(|of| (of.len() == shape.len()).then_some(dim), &part);
    }
    draft.rule
}

fn slice(draft: Draft<'_>, slice: &Slice) -> Rule {
    let shape = draft.operand_shape(0);
    let sliced: SmallVec<[usize; 4]> = (0..shape.len())
        .filter(|&dim| (slice.start[dim], slice.limit[dim], slice.strides[dim]) != (0, shape[dim], 1))
        .collect();
    except(draft, &sliced).carry_each(&[0], None)
}

fn transpose(mut draft: Draft<'_>, permutation: &[usize]) -> Rule {
    for (to, &from) in permutation.iter().enumerate() {
        let part = draft.parallel(draft.operand_shape(0)[from]);
        draft.rule.operands[0][from] = part.clone();
        draft.rule.results[0][to] = part;
    }
    draft.rule.carry_each(&[0], None)
}

fn triangular_solve(mut draft: Draft<'_>, solve: TriangularSolve) -> Rule {
    let shape = draft.operand_shape(1);
    let rank = shape.len();
    for (dim, &size) in shape.iter().enumerate().take(rank - 2) {
        let part = draft.parallel(size);
        draft.label_where(|_| Some(dim), &part);
    }
    let free = if solve.left_side { rank - 1 } else { rank - 2 };
    let part = draft.parallel(shape[free]);
    draft.rule.operands[1][free] = part.clone();
    draft.rule.results[0][free] = part;
    draft.rule.carry_each(&[1], Some(Reduction::Sum))
}

fn unary(draft: Draft<'_>, unary: Unary) -> Rule {
    let rule = elementwise(draft);
    match unary {
        Unary::Imag | Unary::Negate | Unary::Real => rule.carry_each(&[0], Some(Reduction::Sum)),
        _ => rule,
    }
}

/// Every dimension is a factor of its own, the same in all tensors of the result's rank.
fn elementwise(draft: Draft<'_>) -> Rule {
    except(draft, &[])
}

/// As `elementwise`, but for dimensions that stay whole.
fn except(mut draft: Draft<'_>, whole: &[usize]) -> Rule {
    let shape = draft.result_shape(0);
    for (dim, &size) in shape.iter().enumerate() {
        if !whole.contains(&dim) {
            let part = draft.parallel(size);
            draft.label_where(|of| (of.len() == shape.len()).then_some(dim), &part);
        }
    }
    draft.rule
}

/// Leading dimensions are batches; the last `inner` are worked on as a whole.
fn leading(draft: Draft<'_>, inner: usize) -> Rule {
    let rank = draft.result_shape(0).len();
    let whole: SmallVec<[usize; 4]> = (rank.saturating_sub(inner)..rank).collect();
    except(draft, &whole)
}

/// One factor, or none where a dimension has size 1 and there is nothing to cut.
pub(super) type Part = SmallVec<[FactorId; 4]>;

/// A rule under way. At first all dimensions are whole.
pub(super) struct Draft<'p> {
    pub(super) program: &'p Program,
    pub(super) operation: &'p Operation,
    pub(super) rule: Rule,
}

impl<'p> Draft<'p> {
    fn new(program: &'p Program, operation: &'p Operation) -> Draft<'p> {
        let labels = |&value: &ValueId| smallvec![Part::new(); program.shape(value).len()];
        let rule = Rule {
            operands: operation.operands.iter().map(labels).collect(),
            results: operation.results.iter().map(labels).collect(),
            ..Rule::default()
        };
        Draft { program, operation, rule }
    }

    pub(super) fn operand_shape(&self, operand: usize) -> &'p [usize] {
        self.program.shape(self.operation.operands[operand])
    }

    pub(super) fn result_shape(&self, result: usize) -> &'p [usize] {
        self.program.shape(self.operation.results[result])
    }

    fn result_dtype(&self) -> DType {
        self.program.dtype(self.operation.results[0])
    }

    fn region_reduction(&self) -> Option<Reduction> {
        let binary = self.program.applied_binary(self.operation.regions[0])?;
        Reduction::of(binary, self.result_dtype())
    }

    pub(super) fn parallel(&mut self, size: usize) -> Part {
        self.factor(size, Kind::Parallel)
    }

    fn reduced(&mut self, size: usize, reduction: Reduction) -> Part {
        self.factor(size, Kind::Reduced(reduction))
    }

    pub(super) fn whole(&mut self, size: usize) -> Part {
        self.factor(size, Kind::Whole)
    }

    fn factor(&mut self, size: usize, kind: Kind) -> Part {
        if size <= 1 {
            return Part::new();
        }
        self.rule.factors.push(Factor { size, kind, even: false });
        smallvec![(self.rule.factors.len() - 1) as FactorId]
    }

    pub(super) fn label_operand<const RANK: usize>(&mut self, operand: usize, parts: [&Part; RANK]) {
        self.rule.operands[operand] = parts.into_iter().cloned().collect();
    }

    pub(super) fn label_result<const RANK: usize>(&mut self, result: usize, parts: [&Part; RANK]) {
        self.rule.results[result] = parts.into_iter().cloned().collect();
    }

    /// Labels a dimension of the first `inputs` operands and of all results.
    fn label_inputs(&mut self, inputs: usize, dim: usize, part: &Part) {
        for labels in self.rule.operands.iter_mut().take(inputs).chain(&mut self.rule.results) {
            labels[dim] = part.clone();
        }
    }

    /// Labels the dimension that `place` gives for the shape of each tensor.
    fn label_where(&mut self, place: impl Fn(&[usize]) -> Option<usize>, part: &Part) {
        let values = self.operation.operands.iter().chain(&self.operation.results);
        for (labels, &value) in self.rule.operands.iter_mut().chain(&mut self.rule.results).zip(values) {
            if let Some(dim) = place(self.program.shape(value)) {
                labels[dim] = part.clone();
            }
        }
    }
}

impl Rule {
    /// Each of these operands alone may be partial.
    fn carry_each(mut self, operands: &[u16], reduction: Option<Reduction>) -> Rule {
        self.carries.extend(operands.iter().map(|&operand| Carry { operands: smallvec![operand], reduction }));
        self
    }

    /// These operands may be partial together.
    fn with_carry(mut self, operands: &[u16], reduction: Option<Reduction>) -> Rule {
        self.carries.push(Carry { operands: operands.into(), reduction });
        self
    }

    /// All operands may be partial together.
    fn carry_together(self, reduction: Option<Reduction>) -> Rule {
        let operands: SmallVec<[u16; 4]> = (0..self.operands.len() as u16).collect();
        self.with_carry(&operands, reduction)
    }
}

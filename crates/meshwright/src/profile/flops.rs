//! The work of each op.

use crate::program::{Binary, Convolution, DotGeneral, Op, OpId, Program, Unary, ValueId};

/// Floating-point operations of one run of an op. A multiply-add is two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// In products of matrices and convolutions.
    pub matrix: f64,
    /// The same as if what convolutions read of padding were data, which most kernels do not know and
    /// most papers do not say.
    pub padded_matrix: f64,
    /// In everything else, one per element and operation.
    pub elementwise: f64,
}

impl Work {
    fn matrix(flops: f64) -> Work {
        Work { matrix: flops, padded_matrix: flops, elementwise: 0.0 }
    }

    fn elementwise(flops: f64) -> Work {
        Work { elementwise: flops, ..Work::default() }
    }

    pub fn total(self) -> f64 {
        self.matrix + self.elementwise
    }

    pub fn times(self, count: f64) -> Work {
        Work {
            matrix: self.matrix * count,
            padded_matrix: self.padded_matrix * count,
            elementwise: self.elementwise * count,
        }
    }

    pub fn plus(self, other: Work) -> Work {
        Work {
            matrix: self.matrix + other.matrix,
            padded_matrix: self.padded_matrix + other.padded_matrix,
            elementwise: self.elementwise + other.elementwise,
        }
    }
}

/// What one run of an op computes, without what its regions do where it is a branch or a loop.
pub fn work(program: &Program, op: OpId) -> Work {
    let operation = &program.ops[op];
    let elements = |value: ValueId| program.ty(value).elements() as f64;
    let operand = |index: usize| operation.operands.get(index).map_or(0.0, |&value| elements(value));
    let result = operation.results.first().map_or(0.0, |&value| elements(value));
    match &operation.op {
        // Each element arrives added to all others.
        Op::AllReduce(_) | Op::ReduceScatter(_) => Work::elementwise(operand(0)),
        Op::Attention(_) => attention_work(program, op, 2.0),
        Op::AttentionGrad(_) => attention_work(program, op, 5.0),
        // Mean, variance and their gradients are a few sums over all elements.
        Op::BatchNormGrad(_) => Work::elementwise(8.0 * operand(0)),
        Op::BatchNormInference(_) => Work::elementwise(4.0 * operand(0)),
        Op::BatchNormTraining(_) => Work::elementwise(7.0 * operand(0)),
        Op::Binary(binary) => Work::elementwise(if is_counted(*binary) { result } else { 0.0 }),
        Op::Cholesky { .. } => {
            let size = program.shape(operation.operands[0]).last().copied().unwrap_or(1) as f64;
            Work::matrix(operand(0) * size / 3.0)
        }
        Op::Clamp => Work::elementwise(2.0 * result),
        Op::Compare { .. } | Op::Select => Work::elementwise(result),
        Op::Convolution(convolution) => convolution_work(program, op, convolution),
        Op::DotGeneral(dot) => Work::matrix(2.0 * result * contracted(program, op, dot)),
        Op::Fft { lengths, .. } => {
            let length = lengths.iter().product::<usize>() as f64;
            Work::elementwise(5.0 * result * length.log2().max(0.0))
        }
        Op::Map => Work::elementwise(result * region_ops(program, op)),
        Op::Reduce { .. } => {
            let inputs = operation.operands.len() / 2;
            let read: f64 = (0..inputs).map(operand).sum();
            let made: f64 = operation.results.iter().map(|&value| elements(value)).sum();
            Work::elementwise((read - made).max(0.0) * region_ops(program, op) / inputs.max(1) as f64)
        }
        Op::ReduceWindow(window) => {
            let size = window.sizes.iter().product::<usize>() as f64;
            Work::elementwise(result * (size - 1.0).max(0.0) * region_ops(program, op))
        }
        Op::Scatter(_) => {
            let updates = operation.operands.last().map_or(0.0, |&value| elements(value));
            Work::elementwise(updates * region_ops(program, op))
        }
        Op::SelectAndScatter(select) => {
            let size = select.window.iter().product::<usize>() as f64;
            Work::elementwise(operand(1) * size)
        }
        Op::Sort { .. } => Work::elementwise(operand(0) * operand(0).max(2.0).log2()),
        Op::TriangularSolve(_) => {
            let size = program.shape(operation.operands[0]).last().copied().unwrap_or(1) as f64;
            Work::matrix(result * size)
        }
        Op::Unary(unary) => Work::elementwise(if is_cheap(*unary) { result } else { 0.0 }),
        Op::AfterAll
        | Op::AllGather(_)
        | Op::AllToAll(_)
        | Op::BitcastConvert { .. }
        | Op::BroadcastInDim(_)
        | Op::Case
        | Op::Check(_)
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute(_)
        | Op::Complex
        | Op::Concatenate { .. }
        | Op::Constant(_)
        | Op::Convert { .. }
        | Op::CustomCall(_)
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::Gather(_)
        | Op::If
        | Op::Infeed(_)
        | Op::Iota { .. }
        | Op::Opaque(_)
        | Op::OptimizationBarrier
        | Op::Outfeed(_)
        | Op::Pad(_)
        | Op::PartitionId
        | Op::Recv(_)
        | Op::ReducePrecision { .. }
        | Op::ReplicaId
        | Op::Reshape { .. }
        | Op::Reverse { .. }
        | Op::Rng { .. }
        | Op::RngBitGenerator { .. }
        | Op::Send(_)
        | Op::Slice(_)
        | Op::TopK { .. }
        | Op::Transpose { .. }
        | Op::While => Work::default(),
    }
}

/// XLA counts powers and the like as transcendental functions, apart from operations.
fn is_counted(binary: Binary) -> bool {
    !matches!(binary, Binary::Atan2 | Binary::Power)
}

/// Whether a function takes one operation. Transcendental ones are counted by XLA apart from these.
fn is_cheap(unary: Unary) -> bool {
    matches!(
        unary,
        Unary::Abs
            | Unary::Ceil
            | Unary::Floor
            | Unary::Negate
            | Unary::Not
            | Unary::RoundNearestAfz
            | Unary::RoundNearestEven
            | Unary::Sign
            | Unary::Square
    )
}

/// How many ops the scalar function of an op has.
fn region_ops(program: &Program, op: OpId) -> f64 {
    let regions = &program.ops[op].regions;
    regions.iter().map(|&region| program.regions[region].ops.len()).sum::<usize>().max(1) as f64
}

fn contracted(program: &Program, op: OpId, dot: &DotGeneral) -> f64 {
    let shape = program.shape(program.ops[op].operands[0]);
    dot.lhs_contract.iter().map(|&dim| shape[dim]).product::<usize>() as f64
}

/// So many products of queries with keys. Half of the scores are masked where attention is causal, but
/// kernels that know it are the exception where attention is written out, and all count them.
fn attention_work(program: &Program, op: OpId, products: f64) -> Work {
    let operands = &program.ops[op].operands;
    let (queries, keys) = (program.shape(operands[0]), program.shape(operands[1]));
    let [batch, heads, length, depth] = queries[..] else { return Work::default() };
    let scores = (batch * heads * length) as f64 * keys.get(2).copied().unwrap_or(1) as f64;
    let matrix = products * 2.0 * scores * depth as f64;
    // A maximum, a difference, a sum and a quotient for each score.
    Work { elementwise: 4.0 * scores, ..Work::matrix(matrix) }
}

/// Products of a kernel with what it is laid over.
fn convolution_work(program: &Program, op: OpId, convolution: &Convolution) -> Work {
    let operation = &program.ops[op];
    let (input, kernel) = (program.shape(operation.operands[0]), program.shape(operation.operands[1]));
    let result = program.shape(operation.results[0]);
    let per_position = result[convolution.output_batch] as f64
        * result[convolution.output_feature] as f64
        * kernel[convolution.kernel_input_feature] as f64;
    let (mut touched, mut padded) = (1.0, 1.0);
    for dim in 0..convolution.strides.len() {
        let axis = Axis {
            input: input[convolution.input_spatial[dim]],
            kernel: kernel[convolution.kernel_spatial[dim]],
            output: result[convolution.output_spatial[dim]],
            stride: convolution.strides[dim],
            before: convolution.padding[dim].0,
            lhs_dilation: convolution.lhs_dilation[dim],
            rhs_dilation: convolution.rhs_dilation[dim],
        };
        touched *= axis.touched() as f64;
        padded *= axis.padded(convolution.reversal[dim]) as f64;
    }
    Work { matrix: 2.0 * per_position * touched, padded_matrix: 2.0 * per_position * padded, elementwise: 0.0 }
}

/// One dimension of a convolution.
struct Axis {
    input: usize,
    kernel: usize,
    output: usize,
    stride: usize,
    before: i64,
    lhs_dilation: usize,
    rhs_dilation: usize,
}

impl Axis {
    /// How many pairs of an output and a place of the kernel meet an element of the input, and neither
    /// padding nor a hole.
    fn touched(&self) -> usize {
        let dilated = (self.input.max(1) - 1) * self.lhs_dilation + 1;
        let hits = |place: usize| {
            let meets = |output: &usize| {
                let at = (output * self.stride + place * self.rhs_dilation) as i64 - self.before;
                at >= 0 && (at as usize) < dilated && (at as usize).is_multiple_of(self.lhs_dilation)
            };
            (0..self.output).filter(meets).count()
        };
        (0..self.kernel).map(hits).sum()
    }

    /// The same as if padding were data. A convolution that is the gradient of another one, or is spread, counts as that
    /// other: every element of the input once for every place of the kernel or, where the kernel's gradient is made,
    /// of the result.
    fn padded(&self, is_reversed: bool) -> usize {
        match (is_reversed, self.lhs_dilation > 1) {
            (true, _) => self.input * self.kernel,
            (false, true) => self.input * self.kernel.min(self.output),
            (false, false) => self.output * self.kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(axis: &Axis, touched: usize, padded: usize) {
        assert_eq!((axis.touched(), axis.padded(false)), (touched, padded));
    }

    #[test]
    fn gradients_of_few_inputs_count_as_what_they_are_the_gradient_of() {
        // Two outputs of four inputs by a kernel of five: each is made of five places, some of them padding.
        let axis = Axis { input: 2, kernel: 5, output: 4, stride: 1, before: 2, lhs_dilation: 2, rhs_dilation: 1 };
        assert_eq!((axis.touched(), axis.padded(true)), (7, 10));
    }

    #[test]
    fn places_in_padding_and_in_holes_are_told_apart() {
        let plain = Axis { input: 8, kernel: 3, output: 8, stride: 1, before: 1, lhs_dilation: 1, rhs_dilation: 1 };
        check(&plain, 22, 24);
        // One that doubles its input: forwards, and for the gradient of its kernel.
        check(&Axis { kernel: 2, output: 16, lhs_dilation: 2, ..plain }, 16, 16);
        check(&Axis { kernel: 16, output: 2, lhs_dilation: 2, ..plain }, 16, 16);
        // More outputs than the input has room for meet padding.
        check(&Axis { output: 17, before: 2, lhs_dilation: 2, ..plain }, 24, 24);
    }
}

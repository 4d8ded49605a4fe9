//! Products of matrices, as the units for them see an op.

use smallvec::SmallVec;

use crate::profile::work;
use crate::program::{DType, DotGeneral, Op, OpId, Program};

/// `count` products of a `rows` x `depth` with a `depth` x `columns` matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    pub count: f64,
    pub rows: f64,
    pub columns: f64,
    pub depth: f64,
    pub dtype: DType,
}

impl Product {
    pub fn flops(&self) -> f64 {
        2.0 * self.count * self.rows * self.columns * self.depth
    }
}

/// The products that an op is; none for ops that are not of that kind.
pub(super) fn products(program: &Program, op: OpId) -> SmallVec<[Product; 1]> {
    let operation = &program.ops[op];
    let Some(&first) = operation.operands.first() else { return SmallVec::new() };
    let dtype = program.dtype(first);
    let flops = work(program, op).padded_matrix;
    let product = match &operation.op {
        Op::DotGeneral(dot) => dot_product(program, op, dot),
        Op::Convolution(convolution) => {
            // Positions times features, as the convolution's kernels unfold it.
            let shape = program.shape(operation.results[0]);
            let features = shape[convolution.output_feature] as f64;
            let groups = (convolution.feature_groups * convolution.batch_groups) as f64;
            let rows = program.ty(operation.results[0]).elements() as f64 / features.max(1.0);
            let columns = (features / groups).max(1.0);
            let depth = flops / (2.0 * rows * columns * groups).max(1.0);
            Product { count: groups, rows, columns, depth, dtype }
        }
        // Factorizations work on blocks of the size of a tile.
        _ => {
            let size = program.shape(first).last().copied().unwrap_or(1) as f64;
            let count = flops / (2.0 * size * size * size).max(1.0);
            Product { count, rows: size, columns: size, depth: size, dtype }
        }
    };
    SmallVec::from_slice(&[product])
}

fn dot_product(program: &Program, op: OpId, dot: &DotGeneral) -> Product {
    let operands = &program.ops[op].operands;
    let (left, right) = (program.shape(operands[0]), program.shape(operands[1]));
    let size = |shape: &[usize], dims: &[usize]| dims.iter().map(|&dim| shape[dim]).product::<usize>() as f64;
    let count = size(left, &dot.lhs_batch);
    let depth = size(left, &dot.lhs_contract);
    let elements = |shape: &[usize]| shape.iter().product::<usize>() as f64;
    let inner = (count * depth).max(1.0);
    Product {
        count,
        rows: elements(left) / inner,
        columns: elements(right) / inner,
        depth,
        dtype: program.dtype(operands[0]),
    }
}

//! Dimensions that PyTorch put together for a product of matrices, as they were before.
//!
//! A layer reads a batch of sequences, or a sequence of batches; its product is one of matrices, whose rows are both. Of rows
//! that are both, a cut along the dimension that varies faster has no words. So products, and the sums of their gradients,
//! are taken of what was put together.

use super::call::Call;
use crate::program::{Op, Shape, ValueId};

/// A matrix whose rows were several dimensions.
pub(super) struct Rows {
    /// With these dimensions, and the columns last.
    pub(super) value: ValueId,
    /// The dimensions.
    pub(super) sizes: Shape,
}

/// The rows of a matrix as they were before a reshape put them together.
pub(super) fn rows(call: &mut Call<'_>, matrix: ValueId) -> Option<Rows> {
    let program = &call.builder.program;
    let operation = &program.ops[program.producer(matrix)?];
    let &[count, width] = program.shape(matrix) else { return None };
    if !matches!(operation.op, Op::Reshape { .. }) {
        return None;
    }
    let source = operation.operands[0];
    let sizes = parted(program.shape(source), count).filter(|sizes| sizes.len() > 1)?;
    let mut apart = sizes.clone();
    apart.push(width);
    Some(Rows { value: call.builder.reshape(source, &apart), sizes })
}

/// The first dimensions of a shape that have so many elements together. Where the last of them has more, as heads that were
/// put together with samples do, its first part.
fn parted(shape: &[usize], count: usize) -> Option<Shape> {
    let (mut sizes, mut product) = (Shape::new(), 1);
    for &size in shape {
        if product == count {
            break;
        }
        let left = count / product;
        let part = size.min(left);
        if part == 0 || !count.is_multiple_of(product) || !size.is_multiple_of(part) {
            return None;
        }
        sizes.push(part);
        product *= part;
    }
    (product == count).then_some(sizes)
}

/// The columns of a matrix as they were, where it is the transpose of one with such rows. Of the value they stand first.
pub(super) fn columns(call: &mut Call<'_>, matrix: ValueId) -> Option<Rows> {
    let program = &call.builder.program;
    let operation = &program.ops[program.producer(matrix)?];
    let is_turned = matches!(&operation.op, Op::Transpose { permutation } if permutation[..] == [1, 0]);
    let source = operation.operands[0];
    if is_turned { rows(call, source) } else { None }
}

/// The matrix of a stack that has no other, made of what the stack was made of.
pub(super) fn single(call: &mut Call<'_>, stack: ValueId) -> ValueId {
    let program = &call.builder.program;
    let shape = program.shape(stack)[1..].to_vec();
    let Some(producer) = program.producer(stack) else { return call.builder.reshape(stack, &shape) };
    let operation = &program.ops[producer];
    match &operation.op {
        Op::Reshape { .. } => {
            let source = operation.operands[0];
            call.builder.reshape(source, &shape)
        }
        Op::Transpose { permutation } if permutation[..] == [0, 2, 1] => {
            let source = operation.operands[0];
            let matrix = single(call, source);
            call.builder.transpose(matrix, &[1, 0])
        }
        // What is no other form of something is a stack to begin with.
        _ => call.builder.reshape(stack, &shape),
    }
}

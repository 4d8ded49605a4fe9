//! Products with matrices that rows choose, as of experts. Written out, every row has a matrix of its own, which is far more
//! than the matrices that it was chosen from: a product and the choice, or a product and the sum of where it was chosen,
//! are one piece of work.

use super::{Binary, DotGeneral, Gather, Op, OpId, Program, Scatter, ValueId};

/// The op that makes a matrix of every row for another one: the choice of a matrix that a product reads, or the product that
/// a scatter adds up.
pub(crate) fn chosen_maker(program: &Program, op: OpId) -> Option<OpId> {
    let operation = &program.ops[op];
    match &operation.op {
        Op::DotGeneral(_) => {
            program.producer(operation.operands[1]).filter(|&maker| is_chosen_product(program, maker, op))
        }
        Op::Scatter(_) => {
            program.producer(*operation.operands.get(2)?).filter(|&maker| is_summed_product(program, maker, op))
        }
        // All others read what rows have.
        _ => None,
    }
}

fn is_chosen_product(program: &Program, maker: OpId, op: OpId) -> bool {
    let (Op::Gather(gather), Op::DotGeneral(dot)) = (&program.ops[maker].op, &program.ops[op].op) else { return false };
    let table = program.shape(program.ops[maker].operands[0]);
    are_rows(program, program.ops[maker].operands[1]) && are_whole_matrices(gather, table) && is_plain(program, op, dot)
}

fn is_summed_product(program: &Program, maker: OpId, op: OpId) -> bool {
    let (Op::DotGeneral(dot), Op::Scatter(scatter)) = (&program.ops[maker].op, &program.ops[op].op) else {
        return false;
    };
    let operands = &program.ops[op].operands;
    if operands.len() != 3 {
        return false;
    }
    let is_sum = program.applied_binary(program.ops[op].regions[0]) == Some(Binary::Add);
    let fits = program.shape(operands[0]).get(1..) == program.shape(operands[2]).get(1..);
    is_sum && fits && are_rows(program, operands[1]) && adds_matrices(scatter) && is_plain(program, maker, dot)
}

/// Indices of rows, one for each.
fn are_rows(program: &Program, indices: ValueId) -> bool {
    program.shape(indices).len() == 1
}

fn are_whole_matrices(gather: &Gather, table: &[usize]) -> bool {
    table.len() == 3
        && gather.start_index_map[..] == [0]
        && gather.collapsed_slice_dims[..] == [0]
        && gather.operand_batching_dims.is_empty()
        && gather.offset_dims[..] == [1, 2]
        && gather.index_vector_dim == 1
        && gather.slice_sizes[1..] == table[1..]
}

fn adds_matrices(scatter: &Scatter) -> bool {
    scatter.update_window_dims[..] == [1, 2]
        && scatter.inserted_window_dims[..] == [0]
        && scatter.input_batching_dims.is_empty()
        && scatter.scatter_dims_to_operand_dims[..] == [0]
        && scatter.index_vector_dim == 1
}

/// A product of one matrix with another in every row, in the type of both.
fn is_plain(program: &Program, op: OpId, dot: &DotGeneral) -> bool {
    let operands = &program.ops[op].operands;
    let is_matrix = |value: ValueId| program.shape(value).len() == 3 && program.dtype(value) == dot.dtype;
    is_matrix(operands[0])
        && is_matrix(operands[1])
        && dot.lhs_batch[..] == [0]
        && dot.rhs_batch[..] == [0]
        && dot.lhs_contract.len() == 1
        && dot.rhs_contract.len() == 1
}

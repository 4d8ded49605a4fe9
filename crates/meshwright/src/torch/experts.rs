//! Products with matrices that rows choose, as of experts: written out, every row would get a matrix of its own.

use rustc_hash::{FxHashMap, FxHashSet};

use super::values::Form;
use super::writer::Writer;
use crate::program::{Binary, DotGeneral, Gather, Op, OpId, Program, Scatter, ValueId};

/// Groups in which what is made for one reader alone, to choose matrices or to add them up where they were chosen, stands
/// with that reader.
pub(super) fn with_experts(writer: &Writer<'_>, groups: Vec<Vec<OpId>>, kept: &FxHashSet<ValueId>) -> Vec<Vec<OpId>> {
    let program = writer.program;
    let mut readers: FxHashMap<ValueId, usize> = FxHashMap::default();
    for &op in groups.iter().flatten() {
        program.outer_reads(op).into_iter().for_each(|value| *readers.entry(value).or_default() += 1);
    }
    let mut joined: FxHashMap<OpId, OpId> = FxHashMap::default();
    let mut gone: FxHashSet<OpId> = FxHashSet::default();
    for &op in groups.iter().flatten() {
        if let Some(maker) = joins(writer, op) {
            let made = program.ops[maker].results[0];
            let is_here = groups.iter().any(|group| group.as_slice() == [maker]);
            let is_once = program.ops[op].operands.iter().filter(|&&operand| operand == made).count() == 1;
            if readers[&made] == 1 && is_once && is_here && !kept.contains(&made) {
                joined.insert(op, maker);
                gone.insert(maker);
            }
        }
    }
    let with = |op: OpId| joined.get(&op).map_or_else(|| vec![op], |&maker| vec![maker, op]);
    let is_gone = |group: &[OpId]| matches!(group, [maker] if gone.contains(maker));
    groups
        .into_iter()
        .filter(|group| !is_gone(group))
        .map(|group| if let &[op] = group.as_slice() { with(op) } else { group })
        .collect()
}

/// The op whose result an op can do without.
fn joins(writer: &Writer<'_>, op: OpId) -> Option<OpId> {
    let program = writer.program;
    let operation = &program.ops[op];
    match &operation.op {
        Op::DotGeneral(_) => {
            program.producer(operation.operands[1]).filter(|&maker| is_chosen_product(writer, maker, op))
        }
        Op::Scatter(_) => {
            program.producer(*operation.operands.get(2)?).filter(|&maker| is_summed_product(writer, maker, op))
        }
        _ => None,
    }
}

/// The expression of two ops that stand together.
pub(super) fn experts(writer: &Writer<'_>, maker: OpId, op: OpId) -> Option<String> {
    let program = writer.program;
    let (first, last) = (&program.ops[maker], &program.ops[op]);
    let turned = |text: String, is_turned: bool| if is_turned { format!("{text}.mT") } else { text };
    match (&first.op, &last.op) {
        (Op::Gather(_), Op::DotGeneral(dot)) => {
            let left = turned(writer.tensor(last.operands[0]), dot.lhs_contract[0] == 1);
            let table = turned(writer.tensor(first.operands[0]), dot.rhs_contract[0] == 2);
            Some(format!("chosen_products({left}, {table}, {})", writer.tensor(first.operands[1])))
        }
        (Op::DotGeneral(dot), Op::Scatter(_)) => {
            let left = turned(writer.tensor(first.operands[0]), dot.lhs_contract[0] == 1);
            let right = turned(writer.tensor(first.operands[1]), dot.rhs_contract[0] == 2);
            let count = program.shape(last.operands[0])[0];
            Some(format!("summed_products({left}, {right}, {}, {count})", writer.tensor(last.operands[1])))
        }
        _ => None,
    }
}

fn is_chosen_product(writer: &Writer<'_>, maker: OpId, op: OpId) -> bool {
    let program = writer.program;
    let (Op::Gather(gather), Op::DotGeneral(dot)) = (&program.ops[maker].op, &program.ops[op].op) else { return false };
    let table = program.shape(program.ops[maker].operands[0]);
    are_rows(program, program.ops[maker].operands[1]) && are_whole_matrices(gather, table) && is_plain(program, op, dot)
}

fn is_summed_product(writer: &Writer<'_>, maker: OpId, op: OpId) -> bool {
    let program = writer.program;
    let (Op::DotGeneral(dot), Op::Scatter(scatter)) = (&program.ops[maker].op, &program.ops[op].op) else {
        return false;
    };
    let operands = &program.ops[op].operands;
    if operands.len() != 3 {
        return false;
    }
    let is_zero = matches!(writer.form(operands[0]), Form::Number { known: Some(number), .. } if *number == 0.0);
    let is_sum = program.applied_binary(program.ops[op].regions[0]) == Some(Binary::Add);
    let fits = program.shape(operands[0]).get(1..) == program.shape(operands[2]).get(1..);
    is_zero
        && is_sum
        && fits
        && are_rows(program, operands[1])
        && adds_matrices(scatter)
        && is_plain(program, maker, dot)
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

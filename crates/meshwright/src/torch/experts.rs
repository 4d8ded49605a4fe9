//! Products with matrices that rows choose, as of experts: written out, every row would get a matrix of its own.

use rustc_hash::{FxHashMap, FxHashSet};

use super::values::Form;
use super::writer::Writer;
use crate::program::{Op, OpId, ValueId, chosen_maker};

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
    let maker = chosen_maker(writer.program, op)?;
    let operation = &writer.program.ops[op];
    let adds = matches!(operation.op, Op::Scatter(_));
    let is_zero =
        || matches!(writer.form(operation.operands[0]), Form::Number { known: Some(number), .. } if *number == 0.0);
    (!adds || is_zero()).then_some(maker)
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

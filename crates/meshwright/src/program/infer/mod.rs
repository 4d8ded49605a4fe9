//! Result types from operand types: one row per op.

use smallvec::SmallVec;

use super::{Op, Program, RegionId, Type, ValueId};

/// Types of the results of an op.
pub type Types = SmallVec<[Type; 1]>;

/// The result types of `op` on these operands and regions, or what is wrong with them.
pub fn infer(
    program: &Program,
    op: &Op,
    operands: &[ValueId],
    regions: &[RegionId],
) -> Result<Types, String> {
    let _ = (program, op, operands, regions);
    Err("not inferred yet".to_owned())
}

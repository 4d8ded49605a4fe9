//! What stands between the scores and the softmax of an attention.

use super::splat;
use crate::program::{Binary, Direction, Op, Program, ValueId};

/// How scores are masked.
#[derive(Clone, Debug)]
pub(super) enum Mask {
    None,
    /// A query sees the keys up to its own position.
    Causal,
    /// True keeps the score, false makes it minus infinity.
    Keep(ValueId),
    /// True keeps the score, false makes it a large negative number.
    Fill {
        keep: ValueId,
        value: f64,
    },
}

/// A number at least this far below the scores leaves nothing of them after the softmax.
const LARGE: f64 = 1e8;

/// The mask of `select(keep, scores, fill)`.
pub(super) fn read_select(program: &Program, operands: &[ValueId]) -> Option<Mask> {
    let &[keep, _, fill] = operands else { return None };
    let fill = splat(program, fill)?;
    if program.shape(keep) != program.shape(operands[1]) || fill > -LARGE {
        return None;
    }
    Some(if fill == f64::NEG_INFINITY { Mask::Keep(keep) } else { Mask::Fill { keep, value: fill } })
}

impl Mask {
    /// The mask for scores of that rank, where `queries` is the dimension of the product that the
    /// queries are; a mask that depends on positions alone becomes causal where it is.
    pub(super) fn fitted(
        &self,
        program: &Program,
        rank: usize,
        order: &[usize],
        queries: usize,
        query_count: usize,
        key_count: usize,
    ) -> Option<Mask> {
        let (Mask::Keep(keep) | Mask::Fill { keep, .. }) = self else { return Some(self.clone()) };
        let query_dim = order.iter().position(|&dim| dim == queries)?;
        let offset = key_count as i64 - query_count as i64;
        match positions_kept(program, *keep, 0) {
            Some(kept) if offset >= 0 && is_causal(&kept, rank, query_dim, offset) => Some(Mask::Causal),
            _ => Some(self.clone()),
        }
    }
}

/// A sum of positions along dimensions, each times a factor, plus an offset.
#[derive(Clone, Debug, PartialEq)]
struct Positions {
    factors: Vec<i64>,
    offset: i64,
}

/// `query + offset >= key` and nothing else.
fn is_causal(kept: &Positions, rank: usize, query_dim: usize, offset: i64) -> bool {
    kept.offset == offset
        && (0..rank).all(|dim| {
            kept.factors[dim]
                == match dim {
                    dim if dim == query_dim => 1,
                    dim if dim == rank - 1 => -1,
                    _ => 0,
                }
        })
}

/// How deep expressions are followed.
const MAXIMUM_DEPTH: usize = 24;

/// A mask of positions alone, as the sum that must not be negative.
fn positions_kept(program: &Program, value: ValueId, depth: usize) -> Option<Positions> {
    let operation = &program.ops[program.producer(value)?];
    let operands = operation.operands.as_slice();
    if depth > MAXIMUM_DEPTH {
        return None;
    }
    match &operation.op {
        Op::Compare { direction, .. } => {
            let left = positions(program, operands[0], depth + 1)?;
            let right = positions(program, operands[1], depth + 1)?;
            let (mut kept, slack) = match direction {
                Direction::GreaterOrEqual => (combine(&left, &right, -1)?, 0),
                Direction::Greater => (combine(&left, &right, -1)?, 1),
                Direction::LessOrEqual => (combine(&right, &left, -1)?, 0),
                Direction::Less => (combine(&right, &left, -1)?, 1),
                Direction::Equal | Direction::NotEqual => return None,
            };
            kept.offset -= slack;
            Some(kept)
        }
        // `tril` of a matrix of trues.
        Op::Select if splat(program, operands[1])? == 1.0 && splat(program, operands[2])? == 0.0 => {
            positions_kept(program, operands[0], depth + 1)
        }
        Op::Binary(Binary::And) => {
            let everything = operands.iter().position(|&side| splat(program, side) == Some(1.0))?;
            positions_kept(program, operands[1 - everything], depth + 1)
        }
        Op::BroadcastInDim(_) | Op::Reshape { .. } | Op::Transpose { .. } => {
            let inner = positions_kept(program, operands[0], depth + 1)?;
            moved(program, &operation.op, operands[0], &inner)
        }
        _ => None,
    }
}

/// An integer tensor of positions alone.
fn positions(program: &Program, value: ValueId, depth: usize) -> Option<Positions> {
    if depth > MAXIMUM_DEPTH {
        return None;
    }
    let rank = program.shape(value).len();
    let operation = &program.ops[program.producer(value)?];
    let operands = operation.operands.as_slice();
    match &operation.op {
        Op::Constant(literal) => Some(Positions { factors: vec![0; rank], offset: literal.as_splat_integer()? }),
        Op::Iota { dim, ty } if ty.dtype.is_integer() => {
            let factors = (0..rank).map(|of| i64::from(of == *dim)).collect();
            Some(Positions { factors, offset: 0 })
        }
        Op::Convert { dtype } if dtype.is_integer() => positions(program, operands[0], depth + 1),
        Op::Binary(kind @ (Binary::Add | Binary::Subtract)) => {
            let left = positions(program, operands[0], depth + 1)?;
            let right = positions(program, operands[1], depth + 1)?;
            combine(&left, &right, if *kind == Binary::Add { 1 } else { -1 })
        }
        Op::BroadcastInDim(_) | Op::Reshape { .. } | Op::Transpose { .. } => {
            let inner = positions(program, operands[0], depth + 1)?;
            moved(program, &operation.op, operands[0], &inner)
        }
        _ => None,
    }
}

fn combine(left: &Positions, right: &Positions, sign: i64) -> Option<Positions> {
    let factors = left.factors.iter().zip(&right.factors);
    let factors = factors.map(|(left, right)| left.checked_add(right.checked_mul(sign)?)).collect::<Option<_>>()?;
    Some(Positions { factors, offset: left.offset.checked_add(right.offset.checked_mul(sign)?)? })
}

/// The sum after its dimensions were moved. Along a dimension of size 1 the position is always 0.
fn moved(program: &Program, op: &Op, operand: ValueId, inner: &Positions) -> Option<Positions> {
    let shape = program.shape(operand);
    let factors = match op {
        Op::BroadcastInDim(broadcast) => {
            let mut factors = vec![0; broadcast.shape.len()];
            for (dim, &to) in broadcast.dims.iter().enumerate() {
                if shape[dim] != 1 {
                    factors[to] = inner.factors[dim];
                }
            }
            factors
        }
        Op::Reshape { shape: to } => {
            let mut large = shape.iter().zip(&inner.factors).filter(|(size, _)| **size != 1);
            let factors = to.iter().map(|&size| match size {
                1 => Some(0),
                _ => large.next().filter(|(of, _)| **of == size).map(|(_, factor)| *factor),
            });
            factors.collect::<Option<_>>()?
        }
        Op::Transpose { permutation } => permutation.iter().map(|&dim| inner.factors[dim]).collect(),
        _ => return None,
    };
    Some(Positions { factors, offset: inner.offset })
}

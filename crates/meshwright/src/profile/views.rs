//! Views: values that lie in the storage of others, as strides say.

use smallvec::SmallVec;

use crate::program::{Op, OpId, Program, ValueId};

/// How many elements further the next one of each dimension lies.
pub(super) type Strides = SmallVec<[usize; 6]>;

pub(super) fn contiguous(shape: &[usize]) -> Strides {
    in_order(shape, (0..shape.len()).rev())
}

/// Dense strides with dimensions in the order of others, as elementwise ops give their results.
pub(super) fn dense_like(shape: &[usize], strides: &[usize]) -> Strides {
    let mut dims: SmallVec<[usize; 6]> = (0..shape.len()).rev().collect();
    // A stable sort keeps dimensions alike in their own order.
    dims.sort_by_key(|&dim| strides[dim]);
    in_order(shape, dims.into_iter())
}

/// Strides of dimensions given from the innermost to the outermost.
fn in_order(shape: &[usize], dims: impl Iterator<Item = usize>) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut next = 1;
    for dim in dims {
        strides[dim] = next;
        next *= shape[dim].max(1);
    }
    strides
}

/// The strides of an op's result in the storage of its first operand, where it can be there.
pub(super) fn view(program: &Program, op: OpId, strides: &[usize]) -> Option<Strides> {
    let operation = &program.ops[op];
    let shape = program.shape(*operation.operands.first()?);
    match &operation.op {
        Op::BroadcastInDim(broadcast) => {
            let mut spread: Strides = SmallVec::from_elem(0, broadcast.shape.len());
            for (dim, &to) in broadcast.dims.iter().enumerate() {
                spread[to] = if shape[dim] == 1 { 0 } else { strides[dim] };
            }
            Some(spread)
        }
        Op::Reshape { shape: new } => reshaped(shape, strides, new),
        Op::Slice(slice) => Some(strides.iter().zip(&slice.strides).map(|(stride, step)| stride * step).collect()),
        Op::Transpose { permutation } => Some(permutation.iter().map(|&dim| strides[dim]).collect()),
        // All others make something new.
        _ => None,
    }
}

/// Another shape for the same elements, where every new dimension lies within old ones that follow each
/// other without gaps.
fn reshaped(shape: &[usize], strides: &[usize], new: &[usize]) -> Option<Strides> {
    // Of no element or of one, there is nothing to follow.
    if shape.contains(&0) || shape.is_empty() {
        return Some(contiguous(new));
    }
    let mut found: Strides = SmallVec::from_elem(0, new.len());
    let mut unfilled = new.len();
    let mut inner_stride = *strides.last().unwrap_or(&1);
    let mut elements = 1;
    for dim in (0..shape.len()).rev() {
        elements *= shape[dim];
        // The run of old dimensions ends where the next one outside does not go on with it.
        let goes_on = dim > 0 && (shape[dim - 1] == 1 || strides[dim - 1] == elements * inner_stride);
        if goes_on {
            continue;
        }
        let mut filled = 1;
        while unfilled > 0 && (filled < elements || new[unfilled - 1] == 1) {
            unfilled -= 1;
            found[unfilled] = filled * inner_stride;
            filled *= new[unfilled];
        }
        if filled != elements {
            return None;
        }
        if dim > 0 {
            inner_stride = strides[dim - 1];
            elements = 1;
        }
    }
    (unfilled == 0).then_some(found)
}

/// The strides of something new that an op makes.
pub(super) fn made(program: &Program, op: OpId, result: ValueId, strides_of: impl Fn(ValueId) -> Strides) -> Strides {
    let operation = &program.ops[op];
    let shape = program.shape(result);
    let alike = |value: &&ValueId| program.shape(**value) == shape;
    let model = match operation.op {
        Op::Attention(_) => operation.operands.first(),
        Op::AttentionGrad(_) => {
            let place = operation.results.iter().position(|&other| other == result);
            place.and_then(|place| operation.operands.get(place))
        }
        _ if operation.op.is_elementwise() => operation.operands.iter().find(alike),
        // Products, sums and copies are written in order.
        _ => None,
    };
    match model.filter(alike) {
        Some(&model) => dense_like(shape, &strides_of(model)),
        None => contiguous(shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_are_views_where_dimensions_follow_each_other() {
        #[track_caller]
        fn check(shape: &[usize], strides: &[usize], new: &[usize], expected: Option<&[usize]>) {
            assert_eq!(reshaped(shape, strides, new).as_deref(), expected, "{shape:?} {strides:?} to {new:?}");
        }
        check(&[2, 3, 4], &[12, 4, 1], &[6, 4], Some(&[4, 1]));
        check(&[2, 3, 4], &[12, 4, 1], &[2, 12], Some(&[12, 1]));
        check(&[6, 4], &[4, 1], &[2, 3, 2, 2], Some(&[12, 4, 2, 1]));
        // Heads that were moved forward cannot be merged with the width.
        check(&[2, 3, 4], &[4, 8, 1], &[2, 12], None);
        check(&[2, 3, 4], &[4, 8, 1], &[2, 3, 2, 2], Some(&[4, 8, 2, 1]));
        check(&[2, 1, 4], &[4, 99, 1], &[8], Some(&[1]));
        check(&[2, 4], &[0, 1], &[8], None);
        check(&[], &[], &[1, 1], Some(&[1, 1]));
    }

    #[test]
    fn dense_strides_keep_the_order_of_others() {
        assert_eq!(contiguous(&[2, 3, 4])[..], [12, 4, 1]);
        assert_eq!(dense_like(&[2, 3, 4], &[100, 5, 50])[..], [12, 1, 3]);
    }
}

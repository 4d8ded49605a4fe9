//! Views: values that lie in the storage of others, as strides say.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::program::{Op, OpId, Program, ValueId};

/// How many elements further the next one of each dimension lies.
pub(crate) type Strides = SmallVec<[usize; 6]>;

pub(crate) fn contiguous(shape: &[usize]) -> Strides {
    in_order(shape, (0..shape.len()).rev())
}

/// Dense strides with dimensions in the order of others, as elementwise ops give their results: as PyTorch does, by the
/// first of the operands that tells two dimensions apart. What is repeated along a dimension says nothing of it.
pub(super) fn dense_like(shape: &[usize], operands: &[Strides]) -> Strides {
    let mut dims: SmallVec<[usize; 6]> = (0..shape.len()).rev().collect();
    // Not all pairs can be compared, so how dimensions are sorted matters.
    for end in 1..dims.len() {
        let mut moved = end;
        for place in (0..end).rev() {
            match compare(shape, operands, dims[place], dims[moved]) {
                Ordering::Greater => {
                    dims.swap(place, moved);
                    moved = place;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    in_order(shape, dims.into_iter())
}

/// Which of two dimensions lies farther outside.
fn compare(shape: &[usize], operands: &[Strides], left: usize, right: usize) -> Ordering {
    for strides in operands.iter().filter(|strides| strides[left] > 0 && strides[right] > 0) {
        match strides[left].cmp(&strides[right]) {
            Ordering::Equal if shape[left] > shape[right] => return Ordering::Greater,
            Ordering::Equal => {}
            told => return told,
        }
    }
    Ordering::Equal
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
pub(crate) fn view(program: &Program, op: OpId, strides: &[usize]) -> Option<Strides> {
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
pub(crate) fn reshaped(shape: &[usize], strides: &[usize], new: &[usize]) -> Option<Strides> {
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
pub(crate) fn made(program: &Program, op: OpId, result: ValueId, strides_of: impl Fn(ValueId) -> Strides) -> Strides {
    let operation = &program.ops[op];
    let shape = program.shape(result);
    let alike = |value: &&ValueId| program.shape(**value) == shape;
    let models = match operation.op {
        Op::Attention(_) => operation.operands.get(..1),
        Op::AttentionGrad(_) => {
            let place = operation.results.iter().position(|&other| other == result);
            place.and_then(|place| operation.operands.get(place..=place))
        }
        _ if operation.op.is_elementwise() => Some(&operation.operands[..]),
        // Products, sums and copies are written in order.
        _ => None,
    };
    let models = models.unwrap_or_default().iter().filter(alike);
    dense_like(shape, &models.map(|&model| strides_of(model)).collect::<SmallVec<[Strides; 3]>>())
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
        #[track_caller]
        fn check(operands: &[[usize; 3]], expected: [usize; 3]) {
            let operands: Vec<Strides> = operands.iter().map(|strides| Strides::from_slice(strides)).collect();
            assert_eq!(dense_like(&[2, 3, 4], &operands)[..], expected, "{operands:?}");
        }
        check(&[], [12, 4, 1]);
        check(&[[100, 5, 50]], [12, 1, 3]);
        // A weight that is repeated for all places, and a tensor whose first two dimensions are swapped.
        check(&[[0, 0, 1], [12, 4, 1]], [12, 4, 1]);
        check(&[[0, 0, 1], [4, 8, 1]], [4, 8, 1]);
    }
}

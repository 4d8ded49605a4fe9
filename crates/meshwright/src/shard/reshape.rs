//! The factors that two shapes of the same elements share.

use std::collections::VecDeque;

use super::rule::Rule;
use super::rules::Draft;

/// Walks both shapes from the outside, taking off the largest part that a dimension of one and a
/// dimension of the other have in common. Where they have none in common, what is left of both, up
/// to where the shapes meet again, stays whole.
pub(super) fn reshape(mut draft: Draft<'_>) -> Rule {
    let (from, to) = (draft.operand_shape(0), draft.result_shape(0));
    // An empty tensor has nothing to cut.
    if from.contains(&0) {
        return draft.rule;
    }
    let mut left = remaining(from);
    let mut right = remaining(to);
    while let (Some(first), Some(second)) = (left.front_mut(), right.front_mut()) {
        let common = greatest_common_divisor(first.size, second.size);
        if common == 1 {
            skip_until_equal(&mut draft, &mut left, &mut right);
            continue;
        }
        let part = draft.parallel(common);
        draft.rule.operands[0][first.dim].extend(part.iter().copied());
        draft.rule.results[0][second.dim].extend(part);
        first.size /= common;
        second.size /= common;
        let (first_ends, second_ends) = (first.size == 1, second.size == 1);
        if first_ends {
            left.pop_front();
        }
        if second_ends {
            right.pop_front();
        }
    }
    draft.rule
}

/// What is left of a dimension.
struct Rest {
    dim: usize,
    size: usize,
}

fn remaining(shape: &[usize]) -> VecDeque<Rest> {
    shape.iter().enumerate().filter(|&(_, &size)| size > 1).map(|(dim, &size)| Rest { dim, size }).collect()
}

/// The shapes disagree: what follows is whole up to where as many elements have passed on both sides.
fn skip_until_equal(draft: &mut Draft<'_>, left: &mut VecDeque<Rest>, right: &mut VecDeque<Rest>) {
    let (mut passed_left, mut passed_right) = (1, 1);
    loop {
        let (passed, rests, is_left) = match passed_left <= passed_right {
            true => (&mut passed_left, &mut *left, true),
            false => (&mut passed_right, &mut *right, false),
        };
        let Some(Rest { dim, size }) = rests.pop_front() else { return };
        *passed *= size;
        let part = draft.whole(size);
        let labels = if is_left { &mut draft.rule.operands[0] } else { &mut draft.rule.results[0] };
        labels[dim].extend(part);
        if passed_left == passed_right {
            return;
        }
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

//! Losses: what training makes small. All are computed in `f32` or wider.

use super::layers::{ShiftedExponentials, shifted_exponentials};
use super::settings::Loss;
use super::step::Step;
use crate::program::{Binary, Dims, Gather, Unary, ValueId};

/// The mean over all elements of how far `x` is from numbers it should be.
pub(super) fn distance(step: &mut Step<'_>, x: ValueId, targets: ValueId) -> ValueId {
    let stored = step.stored_dtype();
    let [x, targets] = [x, targets].map(|value| step.builder.convert(value, stored));
    let difference = step.builder.minus(x, targets);
    let losses = match step.settings.loss {
        Loss::AbsoluteError => step.builder.unary(Unary::Abs, difference),
        Loss::Huber => huber(step, difference),
        Loss::SquaredError => step.builder.times(difference, difference),
        // A family refuses it before anything is built.
        Loss::CrossEntropy => step.builder.fail("cross-entropy has no meaning for numbers"),
    };
    mean_of_all(step, losses)
}

/// Half the square up to a difference of 1, from there on as steep as at 1.
fn huber(step: &mut Step<'_>, difference: ValueId) -> ValueId {
    let b = &mut step.builder;
    let size = b.unary(Unary::Abs, difference);
    let one = b.full_like(size, 1.0);
    let near = b.binary(Binary::Minimum, size, one);
    let far = b.minus(size, near);
    let square = b.times(near, near);
    let half = b.times_number(square, 0.5);
    b.plus(half, far)
}

/// The mean over all labels of minus the log of the probability of the right one. `logits` end in
/// the dimension of the classes, which `labels` do not have.
pub(super) fn cross_entropy(step: &mut Step<'_>, logits: ValueId, labels: ValueId) -> ValueId {
    let losses = label_losses(step, logits, labels);
    mean_of_all(step, losses)
}

/// Minus the log of the probability of the right one, for each label.
///
/// With `label_smoothing`, that share of a label is spread over all classes. With `z_loss`, the
/// square of the log of the sum of exponentials counts that much beside it, which keeps logits from
/// drifting off.
pub(super) fn label_losses(step: &mut Step<'_>, logits: ValueId, labels: ValueId) -> ValueId {
    step.scoped("cross_entropy", |step| {
        let (smoothing, z_weight) = (step.settings.label_smoothing, step.settings.z_loss);
        let stored = step.stored_dtype();
        let logits = step.builder.convert(logits, stored);
        let ShiftedExponentials { largest, shifted, sum, .. } = shifted_exponentials(step, logits);
        let logarithm = step.builder.unary(Unary::Log, sum);
        let mut right = take_last(step, shifted, labels);
        let b = &mut step.builder;
        if smoothing > 0.0 {
            let last = b.shape(shifted).len() - 1;
            let of_all = b.mean(shifted, &[last]);
            let of_all = b.times_number(of_all, smoothing);
            let of_right = b.times_number(right, 1.0 - smoothing);
            right = b.plus(of_right, of_all);
        }
        let losses = b.minus(logarithm, right);
        if z_weight == 0.0 {
            return losses;
        }
        let whole = b.plus(logarithm, largest);
        let square = b.times(whole, whole);
        let term = b.times_number(square, z_weight);
        b.plus(losses, term)
    })
}

fn mean_of_all(step: &mut Step<'_>, losses: ValueId) -> ValueId {
    let dims: Dims = (0..step.builder.shape(losses).len()).collect();
    step.builder.mean(losses, &dims)
}

/// For each label, the element of the last dimension that it names.
fn take_last(step: &mut Step<'_>, x: ValueId, labels: ValueId) -> ValueId {
    let shape = step.builder.shape(x);
    let last = shape.len() - 1;
    let mut index_shape = step.builder.shape(labels);
    index_shape.push(1);
    let indices = step.builder.reshape(labels, &index_shape);
    let batch: Dims = (0..last).collect();
    let gather = Gather {
        offset_dims: Dims::new(),
        collapsed_slice_dims: Dims::from_slice(&[last]),
        operand_batching_dims: batch.clone(),
        start_indices_batching_dims: batch,
        start_index_map: Dims::from_slice(&[last]),
        index_vector_dim: last,
        slice_sizes: shape.iter().map(|_| 1).collect(),
        indices_are_sorted: false,
    };
    step.builder.gather(x, indices, gather)
}

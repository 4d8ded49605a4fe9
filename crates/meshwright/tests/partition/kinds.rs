//! The table of what random programs are made of.

use crate::generator::Generator;
use crate::{carrying, contracting, control, elementwise, indexing, moving, reducing};

/// Adds an op of some kind; the number chooses among its forms.
type Add = fn(&mut Generator, usize);

/// The kinds of ops and how many forms each has.
const KINDS: [(Add, usize); 41] = [
    (carrying::chain, 48),
    (contracting::attention, 8),
    (contracting::attention_grad, 8),
    (contracting::batch_norm_grad, 1),
    (contracting::batch_norm_inference, 1),
    (contracting::batch_norm_training, 1),
    (contracting::cholesky, 2),
    (contracting::convolution, 6),
    (contracting::dot, 12),
    (contracting::triangular_solve, 2),
    (control::branch, 2),
    (control::repeat, 3),
    (elementwise::binary, 18),
    (elementwise::bitcast, 3),
    (elementwise::clamp, 2),
    (elementwise::compare, 6),
    (elementwise::complex, 2),
    (elementwise::convert, 3),
    (elementwise::map, 2),
    (elementwise::reduce_precision, 1),
    (elementwise::select, 2),
    (elementwise::unary, 44),
    (indexing::gather, 8),
    (indexing::scatter, 12),
    (indexing::sort, 2),
    (indexing::top_k, 2),
    (moving::barrier, 1),
    (moving::broadcast, 3),
    (moving::concatenate, 3),
    (moving::constant, 2),
    (moving::dynamic_slice, 3),
    (moving::dynamic_update_slice, 3),
    (moving::iota, 2),
    (moving::pad, 3),
    (moving::random_bits, 1),
    (moving::reshape, 13),
    (moving::reverse, 1),
    (moving::slice, 3),
    (moving::transpose, 2),
    (reducing::reduce, 18),
    (reducing::windows, 6),
];

/// Adds any op.
pub(crate) fn random_op(generator: &mut Generator) {
    let (add, forms) = generator.random.pick(&KINDS);
    let form = generator.random.below(forms);
    add(generator, form);
}

/// Adds the op whose turn it is, so that all forms of all kinds come up equally often.
pub(crate) fn op_in_turn(generator: &mut Generator, turn: u64) {
    let forms: usize = KINDS.iter().map(|(_, forms)| forms).sum();
    let mut turn = (turn % forms as u64) as usize;
    for (add, forms) in KINDS {
        if turn < forms {
            return add(generator, turn);
        }
        turn -= forms;
    }
}

//! What engines that run op by op have whole: functions that programs write out in small ops.

use crate::program::Location;

/// A function, known by the scope that its ops stand in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The last part of the scope, as PyTorch and JAX call it.
    pub(super) name: &'static str,
    /// What the forward pass keeps for the backward pass; `None` where it is what the program reads.
    pub(super) keeps: Option<&'static [Kept]>,
    /// Buffers of the size of the operand that the backward pass needs while it runs.
    pub(super) backward_scratch: usize,
}

/// What a function keeps for its backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The largest of its operands that is no argument of the step.
    Operand,
    Result,
    /// Something of the size and type of the operand.
    Alike,
    /// So many numbers of `f32` for each row of the operand's last dimension.
    PerRow(usize),
    /// So many bytes for each element of the result.
    PerElement(usize),
}

/// In the order of the alphabet. What is kept is what PyTorch's own functions keep (their derivatives are in
/// `tools/autograd/derivatives.yaml` of PyTorch), measured in `tests/profile/torch.json`.
pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "attention", keeps: None, backward_scratch: 0 },
    Function { name: "batch_norm", keeps: None, backward_scratch: 0 },
    Function { name: "chunk", keeps: Some(&[]), backward_scratch: 0 },
    Function { name: "convolution", keeps: None, backward_scratch: 0 },
    // A log-softmax, whose result is kept, and the choice of the right ones, whose gradient is as large.
    Function { name: "cross_entropy", keeps: Some(&[Kept::Alike]), backward_scratch: 1 },
    // A mask of bools.
    Function { name: "dropout", keeps: Some(&[Kept::PerElement(1)]), backward_scratch: 0 },
    Function { name: "embedding", keeps: None, backward_scratch: 0 },
    Function { name: "gelu", keeps: Some(&[Kept::Operand]), backward_scratch: 0 },
    Function { name: "layer_norm", keeps: Some(&[Kept::Operand, Kept::PerRow(2)]), backward_scratch: 0 },
    Function { name: "linear", keeps: None, backward_scratch: 0 },
    Function { name: "log_softmax", keeps: Some(&[Kept::Result]), backward_scratch: 0 },
    // The positions of the largest are numbers of 64 bits.
    Function { name: "max_pool", keeps: Some(&[Kept::Operand, Kept::PerElement(8)]), backward_scratch: 0 },
    Function { name: "relu", keeps: Some(&[Kept::Result]), backward_scratch: 0 },
    // Written out by PyTorch itself: the scaled operand is kept for the gradient of the scale.
    Function { name: "rms_norm", keeps: Some(&[Kept::Operand, Kept::Alike, Kept::PerRow(1)]), backward_scratch: 1 },
    Function { name: "sigmoid", keeps: Some(&[Kept::Result]), backward_scratch: 0 },
    Function { name: "silu", keeps: Some(&[Kept::Operand]), backward_scratch: 0 },
    Function { name: "softmax", keeps: Some(&[Kept::Result]), backward_scratch: 0 },
    Function { name: "tanh", keeps: Some(&[Kept::Result]), backward_scratch: 0 },
];

/// The function that an op is part of, and the path of the scope up to it, where there is one.
pub(super) fn function_of(location: &Location) -> Option<(&'static Function, String)> {
    let mut path = String::new();
    for part in location.scope.split('/') {
        // Tracing and differentiation put words around names: `transpose(jvp(gelu))`.
        let inner = part.rsplit('(').next().unwrap_or(part).trim_end_matches(')');
        path.push_str(inner);
        path.push('/');
        if let Ok(index) = FUNCTIONS.binary_search_by(|function| function.name.cmp(inner)) {
            return Some((&FUNCTIONS[index], path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_stand_in_the_order_of_the_alphabet() {
        assert!(FUNCTIONS.is_sorted_by(|left, right| left.name < right.name));
    }
}

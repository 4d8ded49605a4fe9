//! What engines that run op by op have whole: functions that programs write out in small ops.

use crate::program::{Location, bare};

/// What an engine that runs op by op has kernels of its own for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused {
    /// Norms and gates.
    pub(crate) functions: bool,
    pub(crate) losses: bool,
    /// Attention, whose scores are never in memory.
    pub(crate) attention: bool,
}

impl Fused {
    pub(crate) const NONE: Fused = Fused { functions: false, losses: false, attention: false };
}

/// A function, known by the scope that its ops stand in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The last part of the scope, as PyTorch and JAX call it.
    pub(super) name: &'static str,
    pub(super) keeps: Keeps,
    /// Buffers of the size of its largest value that it needs while it runs, but not in the forward pass.
    pub(super) scratch: usize,
}

/// What the forward pass of a function keeps for its backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// Whatever the program reads.
    AsRead,
    Only(&'static [Kept]),
    /// Its operand. Whoever reads its result in the backward pass makes that again.
    Again,
    /// There is no backward pass: it belongs to the update, and elementwise ops overwrite what they change.
    InPlace,
}

impl Keeps {
    /// What is kept, where that is another thing than the program says.
    pub(super) fn list(self) -> Option<&'static [Kept]> {
        match self {
            Keeps::Only(kept) => Some(kept),
            Keeps::Again => Some(&[Kept::Operand]),
            Keeps::AsRead | Keeps::InPlace => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The largest of its operands that is no argument of the step.
    Operand,
    Result,
    /// Something of the size and type of the operand.
    Alike,
    /// The same in `f32`, where the operand is narrower.
    Wide,
    /// So many numbers of `f32` for each row of the operand's last dimension.
    PerRow(usize),
    /// So many bytes for each element of the result.
    PerElement(usize),
}

/// In the order of the alphabet. What is kept is what PyTorch's own functions keep (their derivatives are in
/// `tools/autograd/derivatives.yaml` of PyTorch), measured in `tests/profile/torch.json`.
#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Function] = &[
    // The divisor and the change, for one parameter at a time.
    Function { name: "adam", keeps: Keeps::AsRead, scratch: 2 },
    Function { name: "batch_norm", keeps: Keeps::AsRead, scratch: 0 },
    Function { name: "chunk", keeps: Keeps::Only(&[]), scratch: 0 },
    Function { name: "clip", keeps: Keeps::InPlace, scratch: 0 },
    Function { name: "convolution", keeps: Keeps::AsRead, scratch: 0 },
    // A log-softmax, whose result is kept, and the choice of the right ones, whose gradient is as large.
    Function { name: "cross_entropy", keeps: Keeps::Only(&[Kept::Wide]), scratch: 1 },
    // A mask of bools.
    Function { name: "dropout", keeps: Keeps::Only(&[Kept::PerElement(1)]), scratch: 0 },
    Function { name: "embedding", keeps: Keeps::AsRead, scratch: 0 },
    Function { name: "gelu", keeps: Keeps::Only(&[Kept::Operand]), scratch: 0 },
    Function { name: "layer_norm", keeps: Keeps::Only(&[Kept::Operand, Kept::PerRow(2)]), scratch: 0 },
    Function { name: "linear", keeps: Keeps::AsRead, scratch: 0 },
    Function { name: "log_softmax", keeps: Keeps::Only(&[Kept::Result]), scratch: 0 },
    // The positions of the largest are numbers of 64 bits.
    Function { name: "max_pool", keeps: Keeps::Only(&[Kept::Operand, Kept::PerElement(8)]), scratch: 0 },
    Function { name: "relu", keeps: Keeps::Only(&[Kept::Result]), scratch: 0 },
    // Written out by PyTorch itself: the scaled operand is kept for the gradient of the scale.
    Function { name: "rms_norm", keeps: Keeps::Only(&[Kept::Operand, Kept::Alike, Kept::PerRow(1)]), scratch: 1 },
    Function { name: "sgd", keeps: Keeps::AsRead, scratch: 0 },
    Function { name: "sigmoid", keeps: Keeps::Only(&[Kept::Result]), scratch: 0 },
    Function { name: "silu", keeps: Keeps::Only(&[Kept::Operand]), scratch: 0 },
    Function { name: "softmax", keeps: Keeps::Only(&[Kept::Result]), scratch: 0 },
    Function { name: "tanh", keeps: Keeps::Only(&[Kept::Result]), scratch: 0 },
];

/// What engines with kernels of their own keep in another way. A norm is one kernel, and a gate is made again while it
/// is multiplied. In the order of the alphabet.
#[rustfmt::skip]
const FUSED: &[Function] = &[
    Function { name: "rms_norm", keeps: Keeps::Only(&[Kept::Operand, Kept::PerRow(1)]), scratch: 0 },
    Function { name: "silu", keeps: Keeps::Again, scratch: 0 },
];

/// Gradients of logits are made in their type, from the logarithms of sums.
#[rustfmt::skip]
const FUSED_LOSSES: &[Function] = &[
    Function { name: "cross_entropy", keeps: Keeps::Only(&[Kept::Operand, Kept::PerRow(1)]), scratch: 0 },
];

/// An op of PyTorch as it was recorded, which a program writes out in several: it runs at once, and what its gradient
/// reads is there in the program.
const RECORDED: Function = Function { name: "recorded", keeps: Keeps::AsRead, scratch: 0 };

/// Whether a part of a scope is an op of PyTorch as it was recorded, such as `_addmm#0`.
fn is_recorded(part: &str) -> bool {
    part.starts_with('_') && part.contains('#')
}

/// The node of PyTorch's autograd that an op was recorded in, such as `_MmBackward0#7`.
pub(super) fn node_of(location: &Location) -> Option<&str> {
    let mut parts = location.scope.rsplit('/').skip(1);
    let (op, node) = (parts.next()?, parts.next()?);
    (is_recorded(op) && is_recorded(node)).then_some(node)
}

/// Whether an op is a copy as PyTorch makes it, whose elements lie in order.
pub(super) fn is_copy(location: &Location) -> bool {
    let is_copy = |part: &str| ["_cat#", "_clone#"].iter().any(|name| bare(part).starts_with(name));
    location.scope.rsplit('/').nth(1).is_some_and(is_copy)
}

/// Whether an op fills new memory with a number as PyTorch does, where others only say which number it is.
pub(super) fn is_filled(location: &Location) -> bool {
    let is_filled =
        |part: &str| FILLS.iter().any(|name| bare(part).strip_prefix(name).is_some_and(|rest| rest.starts_with('#')));
    location.scope.rsplit('/').nth(1).is_some_and(is_filled)
}

const FILLS: [&str; 9] =
    ["_full", "_full_like", "_new_full", "_new_ones", "_new_zeros", "_ones", "_ones_like", "_zeros", "_zeros_like"];

/// The function of that name.
pub(super) fn function(name: &str, fused: Fused) -> Option<&'static Function> {
    let find = |table: &'static [Function]| {
        let index = table.binary_search_by(|function| function.name.cmp(name)).ok()?;
        Some(&table[index])
    };
    let losses = find(FUSED_LOSSES).filter(|_| fused.losses);
    losses.or_else(|| find(FUSED).filter(|_| fused.functions)).or_else(|| find(FUNCTIONS))
}

/// The function that an op is part of, and the path of its scope, where there is one: the innermost scope
/// around the op is called as it is.
pub(super) fn function_of(location: &Location, fused: Fused) -> Option<(&'static Function, String)> {
    let (scope, _) = location.scope.rsplit_once('/')?;
    let path: Vec<&str> = scope.split('/').map(bare).collect();
    let name = path.last()?;
    let function = if is_recorded(name) { &RECORDED } else { function(name, fused)? };
    Some((function, path.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_stand_in_the_order_of_the_alphabet() {
        assert!(FUNCTIONS.is_sorted_by(|left, right| left.name < right.name));
        assert!(FUSED.is_sorted_by(|left, right| left.name < right.name));
    }
}

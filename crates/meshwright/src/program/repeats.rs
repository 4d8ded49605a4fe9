//! Stretches of a program that repeat: most often its layers.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::{Op, OpId, Program};

/// A stretch of heavy ops (matrix products, convolutions, attention) that stands several times in a
/// row with the same attributes and types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// How often the stretch stands there.
    pub count: usize,
    /// The heavy ops of its first time.
    pub ops: Vec<OpId>,
}

/// Stretches are looked for up to this many heavy ops.
const MAXIMUM_LENGTH: usize = 2048;

impl Program {
    /// The repeating stretches of the body, in program order: most often the layers of the forward
    /// pass, then those of the backward pass.
    pub fn repeats(&self) -> Vec<Repeat> {
        let heavy: Vec<OpId> = self.body().ops.iter().copied().filter(|&op| is_heavy(&self.ops[op].op)).collect();
        let keys: Vec<u64> = heavy.iter().map(|&op| structure(self, op)).collect();
        let mut found = stretches(&keys);
        // Two or three single ops alike are no layers: queries, keys and values are made that way.
        found.retain(|stretch| stretch.length > 1 || stretch.count > 3);
        let ops = |stretch: &Stretch| heavy[stretch.start..stretch.start + stretch.length].to_vec();
        found.iter().map(|stretch| Repeat { count: stretch.count, ops: ops(stretch) }).collect()
    }
}

/// Whether an op is one of those that take most of a step's time.
pub(crate) fn is_heavy(op: &Op) -> bool {
    matches!(op, Op::Attention(_) | Op::AttentionGrad(_) | Op::Convolution(_) | Op::DotGeneral(_))
}

/// Equal for ops with equal attributes, operand types and result types.
fn structure(program: &Program, op: OpId) -> u64 {
    let operation = &program.ops[op];
    let mut hasher = FxHasher::default();
    format!("{:?}", operation.op).hash(&mut hasher);
    for &value in operation.operands.iter().chain(&operation.results) {
        program.ty(value).hash(&mut hasher);
    }
    hasher.finish()
}

/// `count` times `length` keys from `start` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) count: usize,
}

/// What repeats in a row of keys, in order.
pub(crate) fn stretches(keys: &[u64]) -> Vec<Stretch> {
    let mut found = Vec::new();
    find(keys, 0, &mut found);
    found.sort_by_key(|stretch| stretch.start);
    found
}

/// Takes the repeat that covers most, then looks on both sides of it. `offset` is where `keys` start.
fn find(keys: &[u64], offset: usize, found: &mut Vec<Stretch>) {
    let Some(best) = longest(keys) else { return };
    let end = best.start + best.length * best.count;
    find(&keys[..best.start], offset, found);
    find(&keys[end..], offset + end, found);
    found.push(Stretch { start: best.start + offset, ..best });
}

/// The repeat that covers most keys; of equals, the one of the shortest stretch that stands first.
fn longest(keys: &[u64]) -> Option<Stretch> {
    let mut best: Option<Stretch> = None;
    for length in 1..=(keys.len() / 2).min(MAXIMUM_LENGTH) {
        let mut run = 0;
        for index in 0..keys.len() - length {
            run = if keys[index] == keys[index + length] { run + 1 } else { 0 };
            let count = run / length + 1;
            let covered = best.as_ref().map_or(0, |best| best.length * best.count);
            if count > 1 && count * length > covered {
                best = Some(Stretch { start: index + 1 - run, length, count });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let keys: Vec<u64> = text.bytes().map(u64::from).collect();
        let found = stretches(&keys);
        let shown = found.iter().map(|stretch| {
            let first = &text[stretch.start..stretch.start + stretch.length];
            format!("{} x {first}", stretch.count)
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn repeats_are_found_on_both_sides_of_the_largest() {
        assert_eq!(shown("eabcabcabcabcfxyxyxyg"), "4 x abc, 3 x xy");
        assert_eq!(shown("abcdef"), "");
        assert_eq!(shown("aaaa"), "4 x a");
        assert_eq!(shown(""), "");
    }
}

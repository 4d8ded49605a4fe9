//! Numbers that look random and are the same every time.

use meshwright::interpret::{Data, Tensor};
use meshwright::program::{DTypeKind, Type};

#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.below(index + 1);
            items.swap(index, other);
        }
    }

    /// A permutation of the numbers below `length`.
    pub(crate) fn permutation(&mut self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        self.shuffle(&mut order);
        order
    }

    /// Small whole numbers. Sums of them are exact in any order, and as indices some of them are out
    /// of range.
    pub(crate) fn tensor(&mut self, ty: &Type) -> Tensor {
        let elements = 0..ty.elements();
        let data = match ty.dtype.kind() {
            DTypeKind::Float => Data::Float(elements.map(|_| self.between(-4, 4) as f64).collect()),
            DTypeKind::Bool => Data::Integer(elements.map(|_| self.between(0, 1)).collect()),
            DTypeKind::Signed => Data::Integer(elements.map(|_| self.between(-3, 9)).collect()),
            DTypeKind::Unsigned => Data::Integer(elements.map(|_| self.between(0, 9)).collect()),
            DTypeKind::SmallFloat | DTypeKind::Complex | DTypeKind::Token => Tensor::zeros(ty).data,
        };
        Tensor { ty: ty.clone(), data }
    }
}

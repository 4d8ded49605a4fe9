//! What a rule is: an op's dimensions named by factors.

use std::fmt;

use smallvec::SmallVec;

use super::sharding::Reduction;

/// How an op may be cut, written like an einsum: each dimension of each operand and result is a list
/// of factors. Cutting a factor cuts every dimension it stands in, and the op then does its part of
/// the work on its part of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    pub factors: SmallVec<[Factor; 6]>,
    pub operands: SmallVec<[Labels; 3]>,
    pub results: SmallVec<[Labels; 1]>,
    /// Which operands may be partial, so that the results are too.
    pub carries: SmallVec<[Carry; 2]>,
}

/// Which factor of a rule.
pub type FactorId = u16;

/// The factors of each dimension, the most significant first. A dimension without any has size 1 or
/// must stay whole.
pub type Labels = SmallVec<[SmallVec<[FactorId; 4]>; 4]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    pub size: usize,
    pub kind: Kind,
    /// Whether the factor can only be cut into equal parts.
    pub even: bool,
}

/// What happens to an op's results when a factor is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Every result has the factor, and is cut.
    Parallel,
    /// Results that lack the factor become partial.
    Reduced(Reduction),
    /// The factor cannot be cut.
    Whole,
}

/// Operands that, where all of them are partial, leave the results partial instead of wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Carry {
    pub operands: SmallVec<[u16; 4]>,
    /// Under which reduction; `None` means any, as for ops that only move data.
    pub reduction: Option<Reduction>,
}

impl Rule {
    /// The labels of operands, then of results.
    pub fn tensors(&self) -> impl Iterator<Item = &Labels> {
        self.operands.iter().chain(&self.results)
    }

    /// The carry that has these operands and allows this reduction.
    pub fn carry(&self, operand: usize, reduction: Reduction) -> Option<&Carry> {
        self.carries.iter().find(|carry| {
            carry.operands.contains(&(operand as u16)) && carry.reduction.is_none_or(|allowed| allowed == reduction)
        })
    }
}

/// Such as `([i, j], [j, k]) -> ([i, k]) {i=2, j=4, k=8} sum={j}`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_tensors(f, &self.operands)?;
        f.write_str(" -> ")?;
        write_tensors(f, &self.results)?;
        if !self.factors.is_empty() {
            let sizes: Vec<String> = self
                .factors
                .iter()
                .enumerate()
                .map(|(id, factor)| format!("{}={}", factor_name(id), factor.size))
                .collect();
            write!(f, " {{{}}}", sizes.join(", "))?;
        }
        let named = |name: &str, f: &mut fmt::Formatter<'_>, has: &dyn Fn(&Factor) -> bool| {
            let letters: Vec<String> = self
                .factors
                .iter()
                .enumerate()
                .filter(|(_, factor)| has(factor))
                .map(|(id, _)| factor_name(id))
                .collect();
            if letters.is_empty() { Ok(()) } else { write!(f, " {name}={{{}}}", letters.join(", ")) }
        };
        use Reduction::{And, Max, Min, Or, Product, Sum};
        for reduction in [And, Max, Min, Or, Product, Sum] {
            named(reduction.name(), f, &|factor| factor.kind == Kind::Reduced(reduction))?;
        }
        named("whole", f, &|factor| factor.kind == Kind::Whole)?;
        named("even", f, &|factor| factor.even)
    }
}

/// Such as `sum {0, 1}`: these operands may be partial together, under a sum.
impl fmt::Display for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands: Vec<String> = self.operands.iter().map(u16::to_string).collect();
        write!(f, "{} {{{}}}", self.reduction.map_or("any", Reduction::name), operands.join(", "))
    }
}

fn write_tensors(f: &mut fmt::Formatter<'_>, tensors: &[Labels]) -> fmt::Result {
    f.write_str("(")?;
    for (index, labels) in tensors.iter().enumerate() {
        let dims: Vec<String> = labels
            .iter()
            .map(|factors| match factors.as_slice() {
                [] => "_".to_owned(),
                factors => factors.iter().map(|&id| factor_name(id as usize)).collect(),
            })
            .collect();
        write!(f, "{}[{}]", if index == 0 { "" } else { ", " }, dims.join(", "))?;
    }
    f.write_str(")")
}

/// The name of a factor: `i` to `z`, then `a` to `h`, then `i1` and so on.
pub fn factor_name(id: usize) -> String {
    let letter = (b'a' + ((id + 8) % 26) as u8) as char;
    match id / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

//! The strategy of an op: which pieces of the mesh cut which factors.

use smallvec::SmallVec;

use super::mesh::Mesh;
use super::pieces::{Piece, PieceSet, Pieces};
use super::rule::{FactorId, Kind, Labels, Rule};
use super::sharding::{Reduction, Sharding};

/// Pieces per factor of an op's rule.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// Empty where nothing is cut.
    pub factors: SmallVec<[Pieces; 6]>,
}

/// As for [`Sharding`].
impl Clone for Strategy {
    fn clone(&self) -> Strategy {
        Strategy { factors: SmallVec::from_slice(&self.factors) }
    }
}

impl Strategy {
    pub fn whole(rule: &Rule) -> Strategy {
        Strategy { factors: SmallVec::from_elem(Pieces::new(), rule.factors.len()) }
    }

    /// The strategy that makes a result with these labels lie so, as far as there is one.
    pub fn from_result(rule: &Rule, mesh: &Mesh, labels: &Labels, lies: &Sharding) -> Strategy {
        let mut strategy = Strategy::whole(rule);
        for (factors, pieces) in labels.iter().zip(&lies.dims) {
            split_pieces(rule, mesh, factors, pieces, |factor, pieces| {
                for &piece in pieces {
                    if strategy.may_add(rule, mesh, factor, piece).is_err() {
                        break;
                    }
                    strategy.factors[usize::from(factor)].push(piece);
                }
            });
        }
        strategy
    }

    /// All pieces that cut some factor.
    pub fn used(&self) -> PieceSet {
        self.factors.iter().flatten().copied().collect()
    }

    /// The strategy without some pieces, and without what cannot be without them: pieces inside of
    /// them, and inner factors whose outer factors are no longer cut to the end.
    pub fn without(&self, rule: &Rule, mesh: &Mesh, pieces: PieceSet) -> Strategy {
        let mut strategy = Strategy::whole(rule);
        loop {
            let mut has_grown = false;
            for (factor, list) in self.factors.iter().enumerate() {
                let have = strategy.factors[factor].len();
                for &piece in list[have..].iter().take_while(|&&piece| !pieces.contains(piece)) {
                    if strategy.may_add(rule, mesh, factor as FactorId, piece).is_err() {
                        break;
                    }
                    strategy.factors[factor].push(piece);
                    has_grown = true;
                }
            }
            // An outer factor may stand behind an inner one in the list.
            if !has_grown {
                return strategy;
            }
        }
    }

    /// How a tensor with these labels has to lie.
    pub fn sharding(&self, rule: &Rule, mesh: &Mesh, labels: &Labels) -> Sharding {
        let dims = labels.iter().map(|factors| self.dim_pieces(rule, mesh, factors)).collect();
        Sharding { dims, ..Sharding::default() }
    }

    /// How a result with these labels comes out: also partial, over what cuts the factors it lacks.
    pub fn result(&self, rule: &Rule, mesh: &Mesh, labels: &Labels) -> Sharding {
        let mut sharding = self.sharding(rule, mesh, labels);
        for (id, (factor, pieces)) in rule.factors.iter().zip(&self.factors).enumerate() {
            if let Kind::Reduced(reduction) = factor.kind
                && !pieces.is_empty()
                && !labels.iter().flatten().any(|&label| usize::from(label) == id)
            {
                sharding.reduction = reduction;
                sharding.partial.extend(pieces.iter().copied());
            }
        }
        sharding.partial.sort_unstable();
        sharding
    }

    /// The pieces of a dimension with these factors.
    fn dim_pieces(&self, rule: &Rule, mesh: &Mesh, factors: &[FactorId]) -> Pieces {
        if let [factor] = factors {
            return self.factors[usize::from(*factor)];
        }
        let mut pieces = Pieces::new();
        for &factor in factors {
            let cut = &self.factors[usize::from(factor)];
            pieces.extend(cut.iter().copied());
            if mesh.product(cut) != rule.factors[usize::from(factor)].size {
                break;
            }
        }
        pieces
    }

    /// Whether a piece may cut a factor as well, and if not, why.
    pub fn may_add(&self, rule: &Rule, mesh: &Mesh, factor: FactorId, piece: Piece) -> Result<(), Refusal> {
        let id = usize::from(factor);
        let info = &rule.factors[id];
        if info.kind == Kind::Whole {
            return Err(Refusal::Whole);
        }
        if let Some(other) = self.factors.iter().position(|pieces| pieces.contains(&piece)) {
            return Err(Refusal::Taken { by: other as FactorId });
        }
        if self.mixes_reductions(rule, info.kind) {
            return Err(Refusal::Whole);
        }
        if !mesh.may_follow(&self.factors[id], piece, info.size) {
            return Err(Refusal::Uneven);
        }
        let parts = mesh.product(&self.factors[id]) * mesh.size(piece);
        let divides = info.size.is_multiple_of(parts);
        if info.size < parts || info.even && !divides {
            return Err(Refusal::Uneven);
        }
        for factors in rule.tensors().flatten() {
            let Some(position) = factors.iter().position(|&label| label == factor) else { continue };
            if factors.len() > 1 && !divides {
                return Err(Refusal::Uneven);
            }
            let is_full = |&outer: &FactorId| {
                mesh.product(&self.factors[usize::from(outer)]) == rule.factors[usize::from(outer)].size
            };
            // Nothing is cut from slices in time.
            let is_in_time =
                |&outer: &FactorId| self.factors[usize::from(outer)].iter().any(|&piece| mesh.is_temporal(piece));
            if !factors[..position].iter().all(is_full) || factors[..position].iter().any(is_in_time) {
                return Err(Refusal::Inner);
            }
        }
        Ok(())
    }

    /// A result can wait for one kind of reduction only.
    fn mixes_reductions(&self, rule: &Rule, kind: Kind) -> bool {
        let Kind::Reduced(reduction) = kind else { return false };
        let other = |kind: Kind| matches!(kind, Kind::Reduced(other) if other != reduction);
        rule.factors.iter().zip(&self.factors).any(|(factor, pieces)| !pieces.is_empty() && other(factor.kind))
    }

    /// The reduction of partial results.
    pub fn reduction(&self, rule: &Rule) -> Option<Reduction> {
        rule.factors.iter().zip(&self.factors).find_map(|(factor, pieces)| match factor.kind {
            Kind::Reduced(reduction) if !pieces.is_empty() => Some(reduction),
            _ => None,
        })
    }
}

/// Why a factor is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The op needs it whole.
    Whole,
    /// The piece already cuts another factor.
    Taken { by: FactorId },
    /// It does not divide, and here it would have to.
    Uneven,
    /// It is the inner part of a dimension whose outer part is not cut to the end.
    Inner,
}

/// Hands the pieces of a dimension to its factors, the outermost first. What belongs to none is left.
pub(super) fn split_pieces(
    rule: &Rule,
    mesh: &Mesh,
    factors: &[FactorId],
    pieces: &[Piece],
    mut give: impl FnMut(FactorId, &[Piece]),
) {
    if let [factor] = factors {
        give(*factor, pieces);
        return;
    }
    let mut rest = pieces;
    for &factor in factors {
        let mut size = rule.factors[usize::from(factor)].size;
        let mut run = 0;
        while run < rest.len() && size.is_multiple_of(mesh.size(rest[run])) {
            size /= mesh.size(rest[run]);
            run += 1;
        }
        if run > 0 {
            give(factor, &rest[..run]);
        }
        rest = &rest[run..];
        if size > 1 || rest.is_empty() {
            break;
        }
    }
}

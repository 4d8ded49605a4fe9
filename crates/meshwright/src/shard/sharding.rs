//! How a value lies on a mesh.

use std::fmt::Write;

use smallvec::SmallVec;

use super::mesh::Mesh;
use super::pieces::{PieceSet, Pieces};
use crate::program::{Binary, DType, Type};

/// Where the parts of a value are.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharding {
    /// Per dimension, the pieces that cut it.
    pub dims: SmallVec<[Pieces; 4]>,
    /// The pieces over which the value is partial, sorted: the value is what `reduction` makes of
    /// the parts along them.
    pub partial: Pieces,
    /// How partial values are finished; `Sum` where nothing is partial.
    pub reduction: Reduction,
}

/// Copying the lists at once is several times faster than what would be derived, which copies them one by one.
impl Clone for Sharding {
    fn clone(&self) -> Sharding {
        let Sharding { dims, partial, reduction } = self;
        Sharding { dims: SmallVec::from_slice(dims), partial: *partial, reduction: *reduction }
    }
}

/// An operation that finishes partial values: associative, commutative, with a neutral element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    And,
    Max,
    Min,
    Or,
    Product,
    #[default]
    Sum,
}

impl Sharding {
    /// The whole value on every device.
    pub fn whole(rank: usize) -> Sharding {
        Sharding { dims: SmallVec::from_elem(Pieces::new(), rank), ..Sharding::default() }
    }

    pub fn is_whole(&self) -> bool {
        self.partial.is_empty() && self.dims.iter().all(|pieces| pieces.is_empty())
    }

    /// The pieces that cut some dimension.
    pub fn cut(&self) -> PieceSet {
        self.dims.iter().flatten().copied().collect()
    }

    /// The pieces that cut a dimension or over which the value is partial.
    pub fn used(&self) -> PieceSet {
        self.cut().union(PieceSet::of(&self.partial))
    }

    /// The same without partial parts.
    pub fn finished(&self) -> Sharding {
        Sharding { dims: SmallVec::from_slice(&self.dims), ..Sharding::default() }
    }

    /// The same on a mesh that lacks some axes.
    pub fn within(&self, mesh: &Mesh) -> Sharding {
        let there =
            |pieces: &Pieces| -> Pieces { pieces.iter().copied().filter(|&piece| mesh.size(piece) > 1).collect() };
        let (dims, partial) = (self.dims.iter().map(there).collect(), there(&self.partial));
        let reduction = if partial.is_empty() { Reduction::Sum } else { self.reduction };
        Sharding { dims, partial, reduction }
    }

    /// The shape of one part of a value of `shape`. Where a dimension does not divide, its parts are
    /// padded to the same size.
    pub fn local_shape(&self, mesh: &Mesh, shape: &[usize]) -> SmallVec<[usize; 4]> {
        shape.iter().zip(&self.dims).map(|(&size, pieces)| size.div_ceil(mesh.product(pieces))).collect()
    }

    pub fn local_type(&self, mesh: &Mesh, ty: &Type) -> Type {
        if self.dims.iter().all(|pieces| pieces.is_empty()) {
            return ty.clone();
        }
        Type { dtype: ty.dtype, shape: self.local_shape(mesh, &ty.shape) }
    }

    /// Whether the parts along a dimension of this size are padded.
    pub fn is_padded(&self, mesh: &Mesh, dim: usize, size: usize) -> bool {
        !size.is_multiple_of(mesh.product(&self.dims[dim]))
    }

    /// Such as `[{data}, {}, {model}] sum over {data}`.
    pub fn describe(&self, mesh: &Mesh) -> String {
        let dims: Vec<String> = self.dims.iter().map(|pieces| format!("{{{}}}", mesh.describe(pieces))).collect();
        let mut text = format!("[{}]", dims.join(", "));
        if !self.partial.is_empty() {
            let _ = write!(text, " {} over {{{}}}", self.reduction.name(), mesh.describe(&self.partial));
        }
        text
    }

    /// Reads what [`describe`](Sharding::describe) writes of a value that is not partial.
    pub fn parse(text: &str, mesh: &Mesh) -> Result<Sharding, String> {
        let wrong = || format!("`{text}` is not how a value lies, such as `[{{}}, {{}}]`");
        let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(wrong)?;
        if inside.is_empty() {
            return Ok(Sharding::whole(0));
        }
        let inside = inside.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?;
        let dims = inside.split("}, {").map(|pieces| mesh.parse_pieces(pieces)).collect::<Result<_, String>>()?;
        Ok(Sharding { dims, ..Sharding::default() })
    }
}

impl Reduction {
    pub fn name(self) -> &'static str {
        match self {
            Reduction::And => "and",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Or => "or",
            Reduction::Product => "product",
            Reduction::Sum => "sum",
        }
    }

    /// The elementwise op that joins two parts.
    pub fn binary(self) -> Binary {
        match self {
            Reduction::And => Binary::And,
            Reduction::Max => Binary::Maximum,
            Reduction::Min => Binary::Minimum,
            Reduction::Or => Binary::Or,
            Reduction::Product => Binary::Multiply,
            Reduction::Sum => Binary::Add,
        }
    }

    /// The reduction that repeats an elementwise op, where there is one. On booleans, adding is `or`
    /// and multiplying is `and`.
    pub fn of(binary: Binary, dtype: DType) -> Option<Reduction> {
        match binary {
            Binary::Add if dtype == DType::Bool => Some(Reduction::Or),
            Binary::Multiply if dtype == DType::Bool => Some(Reduction::And),
            Binary::Add => Some(Reduction::Sum),
            Binary::And => Some(Reduction::And),
            Binary::Maximum => Some(Reduction::Max),
            Binary::Minimum => Some(Reduction::Min),
            Binary::Multiply => Some(Reduction::Product),
            Binary::Or => Some(Reduction::Or),
            _ => None,
        }
    }

    /// The bits of the element that changes nothing.
    pub fn neutral(self, dtype: DType) -> u128 {
        let bits = dtype.bits() as u32;
        let ones = u128::MAX >> (128 - bits.max(1));
        let number = |value: f64| crate::program::encode_number(dtype, value);
        if dtype == DType::Bool {
            return u128::from(matches!(self, Reduction::And | Reduction::Min | Reduction::Product));
        }
        match self {
            Reduction::And => ones,
            Reduction::Or | Reduction::Sum => number(0.0),
            Reduction::Product => number(1.0),
            Reduction::Max if dtype.is_float() => number(f64::NEG_INFINITY),
            Reduction::Min if dtype.is_float() => number(f64::INFINITY),
            Reduction::Max if dtype.is_signed() => 1 << (bits - 1),
            Reduction::Min if dtype.is_signed() => ones >> 1,
            Reduction::Max => 0,
            Reduction::Min => ones,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_described_is_read_back() {
        let mesh = Mesh::parse("a=2,b=4").unwrap();
        let (a, b) = (mesh.pieces(0), mesh.pieces(1));
        for dims in [vec![], vec![a, b], vec![Pieces::new(), b[1..].into(), Pieces::new()]] {
            let sharding = Sharding { dims: dims.into(), ..Sharding::default() };
            assert_eq!(Sharding::parse(&sharding.describe(&mesh), &mesh), Ok(sharding));
        }
        for wrong in ["", "{a}", "[a]", "[{a}", "[{c}]", "[{a}] sum over {b}"] {
            assert!(Sharding::parse(wrong, &mesh).is_err(), "{wrong}");
        }
    }
}

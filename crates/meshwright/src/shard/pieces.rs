//! Pieces of a mesh: one by one, in lists and in sets.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// One prime factor of one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece(pub u8);

/// A mesh has at most this many pieces: more than there are devices for.
pub(super) const MOST_PIECES: usize = 22;
/// One more than a mesh has, so that a list that is too long names one twice, whoever checks it.
const ROOM: usize = MOST_PIECES + 1;

/// Pieces in order, the most significant first. Every value and op of a program has several such lists, most of them
/// empty, which are copied all the time: so they are plain bytes.
#[derive(Clone, Copy, Default)]
pub struct Pieces {
    length: u8,
    list: [Piece; ROOM],
}

impl Pieces {
    pub fn new() -> Pieces {
        Pieces::default()
    }

    pub fn from_slice(pieces: &[Piece]) -> Pieces {
        pieces.iter().copied().collect()
    }

    /// Adds a piece, unless there are as many as can be: no mesh has that many.
    pub fn push(&mut self, piece: Piece) {
        if let Some(place) = self.list.get_mut(usize::from(self.length)) {
            *place = piece;
            self.length += 1;
        }
    }

    pub fn pop(&mut self) -> Option<Piece> {
        let last = self.last().copied()?;
        self.length -= 1;
        Some(last)
    }

    /// Keeps the first so many.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length.min(ROOM) as u8);
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }

    pub fn retain(&mut self, is_kept: impl Fn(&Piece) -> bool) {
        *self = self.iter().copied().filter(is_kept).collect();
    }
}

impl Deref for Pieces {
    type Target = [Piece];

    fn deref(&self) -> &[Piece] {
        &self.list[..usize::from(self.length)]
    }
}

impl DerefMut for Pieces {
    fn deref_mut(&mut self) -> &mut [Piece] {
        &mut self.list[..usize::from(self.length)]
    }
}

impl Borrow<[Piece]> for Pieces {
    fn borrow(&self) -> &[Piece] {
        self
    }
}

impl PartialEq for Pieces {
    fn eq(&self, other: &Pieces) -> bool {
        **self == **other
    }
}

impl Eq for Pieces {}

/// As a slice has it, by which lists are looked up.
impl Hash for Pieces {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<&[Piece]> for Pieces {
    fn from(pieces: &[Piece]) -> Pieces {
        Pieces::from_slice(pieces)
    }
}

impl FromIterator<Piece> for Pieces {
    fn from_iter<T: IntoIterator<Item = Piece>>(pieces: T) -> Pieces {
        let mut list = Pieces::new();
        list.extend(pieces);
        list
    }
}

impl Extend<Piece> for Pieces {
    fn extend<T: IntoIterator<Item = Piece>>(&mut self, pieces: T) {
        pieces.into_iter().for_each(|piece| self.push(piece));
    }
}

impl IntoIterator for Pieces {
    type Item = Piece;
    type IntoIter = std::iter::Take<std::array::IntoIter<Piece, ROOM>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().take(usize::from(self.length))
    }
}

impl<'p> IntoIterator for &'p Pieces {
    type Item = &'p Piece;
    type IntoIter = std::slice::Iter<'p, Piece>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A set of pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PieceSet(pub u64);

impl PieceSet {
    pub fn of(pieces: &[Piece]) -> PieceSet {
        pieces.iter().copied().collect()
    }

    pub fn contains(self, piece: Piece) -> bool {
        self.0 >> piece.0 & 1 == 1
    }

    pub fn insert(&mut self, piece: Piece) {
        self.0 |= 1 << piece.0;
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn union(self, other: PieceSet) -> PieceSet {
        PieceSet(self.0 | other.0)
    }

    /// Its members in order.
    pub fn pieces(self) -> Pieces {
        (0..64).map(Piece).filter(|&piece| self.contains(piece)).collect()
    }

    pub fn intersects(self, other: PieceSet) -> bool {
        self.0 & other.0 != 0
    }
}

impl FromIterator<Piece> for PieceSet {
    fn from_iter<T: IntoIterator<Item = Piece>>(pieces: T) -> PieceSet {
        let mut set = PieceSet::default();
        for piece in pieces {
            set.insert(piece);
        }
        set
    }
}

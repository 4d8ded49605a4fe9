//! The mesh: named axes, over devices and over time.

use std::fmt;

use super::pieces::{MOST_PIECES, Piece, PieceSet, Pieces};

/// Named axes with sizes. Devices are numbered row-major over the spatial axes in the order given.
///
/// Every axis is made of *pieces*, one per prime factor of its size, the most significant first; an
/// axis in time is one piece. A sharding is written in pieces, so a part of an axis (Shardy's sub-axis) is nothing special: it is
/// some of the pieces. A mesh may [lack](Mesh::lacking) axes that another has: their pieces are then there with size 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mesh {
    pub axes: Vec<Axis>,
    pieces: Vec<PieceInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    pub name: String,
    pub size: usize,
    /// Whether steps along the axis follow each other in time instead of running side by side.
    pub temporal: bool,
}

/// An axis, or neighboring pieces of one: Shardy's sub-axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub axis: usize,
    /// The product of the pieces of the axis before these.
    pub offset: usize,
    pub size: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PieceInfo {
    axis: usize,
    size: usize,
    /// How far apart neighbours along the piece are: in device numbers, or in steps of its axis
    /// where that is temporal.
    stride: usize,
}

/// More devices than anybody has.
const MAXIMUM_SIZE: usize = 1 << 24;

impl Mesh {
    pub fn new(axes: Vec<Axis>) -> Result<Mesh, String> {
        let mut total = 1usize;
        for (index, axis) in axes.iter().enumerate() {
            if !is_name(&axis.name) {
                return Err(format!("`{}` is no name for an axis: letters, digits and `_`, a letter first", axis.name));
            }
            if axes[..index].iter().any(|other| other.name == axis.name) {
                return Err(format!("axis `{}` is there twice", axis.name));
            }
            if axis.size == 0 {
                return Err(format!("axis `{}` has size 0, must be at least 1", axis.name));
            }
            total = total
                .checked_mul(axis.size)
                .filter(|&total| total <= MAXIMUM_SIZE)
                .ok_or_else(|| format!("the mesh has more than {MAXIMUM_SIZE} positions"))?;
        }
        let mut pieces = Vec::new();
        let mut device_stride: usize = axes.iter().filter(|axis| !axis.temporal).map(|axis| axis.size).product();
        for (index, axis) in axes.iter().enumerate() {
            let mut step_stride = axis.size;
            let stride = if axis.temporal { &mut step_stride } else { &mut device_stride };
            // A loop is over the whole axis or not at all.
            let sizes = if axis.temporal { vec![axis.size] } else { prime_factors(axis.size) };
            for size in sizes.into_iter().filter(|&size| size > 1) {
                *stride /= size;
                pieces.push(PieceInfo { axis: index, size, stride: *stride });
            }
        }
        if pieces.len() > MOST_PIECES {
            return Err(format!("the axes of the mesh have more than {MOST_PIECES} prime factors"));
        }
        Ok(Mesh { axes, pieces })
    }

    /// The same mesh with one position along some axes. Pieces keep their numbers, so that what is told about the one
    /// mesh can be told about the other; those of such an axis cut nothing.
    pub fn lacking(&self, axes: &[usize]) -> Mesh {
        let mut mesh = self.clone();
        axes.iter().for_each(|&axis| mesh.axes[axis].size = 1);
        let mut stride = mesh.devices();
        for info in &mut mesh.pieces {
            if axes.contains(&info.axis) {
                (info.size, info.stride) = (1, 1);
            } else if !mesh.axes[info.axis].temporal {
                stride /= info.size;
                info.stride = stride;
            }
        }
        mesh
    }

    /// The pieces that cut nothing here.
    pub fn lacked(&self) -> PieceSet {
        self.all_pieces().filter(|&piece| self.size(piece) == 1).collect()
    }

    /// Reads `data=2,model=4,micro=8@time`.
    pub fn parse(text: &str) -> Result<Mesh, String> {
        let axes = text.split(',').map(|part| {
            let part = part.trim();
            let wrong = || format!("`{part}` is no axis: write `name=size`, or `name=size@time` for one in time");
            let (name, size) = part.split_once('=').ok_or_else(wrong)?;
            let (size, temporal) = match size.split_once('@') {
                None => (size, false),
                Some((size, "time")) => (size, true),
                Some(_) => return Err(wrong()),
            };
            let size = size.trim().parse().map_err(|_| wrong())?;
            Ok(Axis { name: name.trim().to_owned(), size, temporal })
        });
        Mesh::new(axes.collect::<Result<_, String>>()?)
    }

    /// How many devices.
    pub fn devices(&self) -> usize {
        self.axes.iter().filter(|axis| !axis.temporal).map(|axis| axis.size).product()
    }

    /// The number of an axis by name.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    /// All pieces of an axis.
    pub fn pieces(&self, axis: usize) -> Pieces {
        self.all_pieces().filter(|&piece| self.axis_of(piece) == axis).collect()
    }

    pub fn all_pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        (0..self.pieces.len() as u8).map(Piece)
    }

    pub fn has(&self, piece: Piece) -> bool {
        usize::from(piece.0) < self.pieces.len()
    }

    pub fn axis_of(&self, piece: Piece) -> usize {
        self.pieces[piece.0 as usize].axis
    }

    pub fn size(&self, piece: Piece) -> usize {
        self.pieces[piece.0 as usize].size
    }

    /// How far apart neighbours along the piece are: in device numbers, or in steps of its axis where that is
    /// temporal.
    pub fn stride(&self, piece: Piece) -> usize {
        self.pieces[piece.0 as usize].stride
    }

    pub fn is_temporal(&self, piece: Piece) -> bool {
        self.axes[self.axis_of(piece)].temporal
    }

    /// Into how many parts the pieces cut.
    pub fn product(&self, pieces: &[Piece]) -> usize {
        pieces.iter().map(|&piece| self.size(piece)).product()
    }

    /// Whether a piece may cut the parts that others have cut from a dimension. Slices in time are cut
    /// from what a device has, so they are the innermost; they are equal, and along one axis only.
    pub fn may_follow(&self, pieces: &[Piece], piece: Piece, size: usize) -> bool {
        let after_time = pieces.last().is_some_and(|&last| self.is_temporal(last));
        let divides = size.is_multiple_of(self.product(pieces) * self.size(piece));
        !after_time && (divides || !self.is_temporal(piece))
    }

    /// Where a device stands along spatial pieces, the first the most significant.
    pub fn position(&self, device: usize, pieces: &[Piece]) -> usize {
        pieces
            .iter()
            .fold(0, |position, &piece| position * self.size(piece) + device / self.stride(piece) % self.size(piece))
    }

    /// The devices that differ only along spatial pieces, group by group, each in the order of
    /// [`position`](Mesh::position).
    pub fn groups(&self, pieces: &[Piece]) -> Vec<Vec<i64>> {
        let size = self.product(pieces);
        let others: Pieces =
            self.all_pieces().filter(|piece| !self.is_temporal(*piece) && !pieces.contains(piece)).collect();
        let mut groups = vec![vec![0; size]; self.devices() / size];
        for device in 0..self.devices() {
            groups[self.position(device, &others)][self.position(device, pieces)] = device as i64;
        }
        groups
    }

    /// Pieces as axes and parts of axes, as few as possible.
    pub fn parts(&self, pieces: &[Piece]) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = pieces;
        while let Some(&first) = rest.first() {
            let axis = self.axis_of(first);
            let run = (1..rest.len())
                .find(|&index| rest[index].0 != rest[index - 1].0 + 1 || self.axis_of(rest[index]) != axis)
                .unwrap_or(rest.len());
            let before: Pieces = self.pieces(axis).into_iter().filter(|&piece| piece < first).collect();
            parts.push(Part { axis, offset: self.product(&before), size: self.product(&rest[..run]) });
            rest = &rest[run..];
        }
        parts
    }

    /// Reads pieces as [`describe`](Mesh::describe) writes them.
    pub fn parse_pieces(&self, text: &str) -> Result<Pieces, String> {
        let mut pieces = Pieces::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, range) = part.split_once(":(").map_or((part, None), |(name, range)| (name, Some(range)));
            let wrong = || format!("`{part}` is no axis of `{self}`, nor a part of one");
            let axis = self.axis(name).ok_or_else(wrong)?;
            let own = self.pieces(axis);
            let Some(range) = range else {
                pieces.extend(own);
                continue;
            };
            let (offset, size) = range.split_once(')').ok_or_else(wrong)?;
            let (offset, size): (usize, usize) = (number(offset).ok_or_else(wrong)?, number(size).ok_or_else(wrong)?);
            let start = (0..own.len()).find(|&start| self.product(&own[..start]) == offset).ok_or_else(wrong)?;
            let mut ends = start + 1..=own.len();
            let end = ends.find(|&end| self.product(&own[start..end]) == size).ok_or_else(wrong)?;
            pieces.extend(own[start..end].iter().copied());
        }
        Ok(pieces)
    }

    /// Pieces as a reader sees them: whole axes by name, parts as `name:(offset)size`.
    pub fn describe(&self, pieces: &[Piece]) -> String {
        let describe = |Part { axis, offset, size }: &Part| match &self.axes[*axis] {
            axis if axis.size == *size => axis.name.clone(),
            axis => format!("{}:({offset}){size}", axis.name),
        };
        self.parts(pieces).iter().map(describe).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, axis) in self.axes.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let time = if axis.temporal { "@time" } else { "" };
            write!(f, "{comma}{}={}{time}", axis.name, axis.size)?;
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

fn prime_factors(mut number: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut candidate = 2;
    while candidate * candidate <= number {
        while number.is_multiple_of(candidate) {
            factors.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        factors.push(number);
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_row_major_and_groups_follow_the_order_of_pieces() {
        let mesh = Mesh::parse("a=2,t=3@time,b=4").unwrap();
        assert_eq!(mesh.devices(), 8);
        let a = mesh.pieces(0);
        assert_eq!(mesh.groups(&a), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        let b = mesh.pieces(2);
        assert_eq!(mesh.groups(&b), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        let both: Pieces = b.iter().chain(&a).copied().collect();
        assert_eq!(mesh.groups(&both), [[0, 4, 1, 5, 2, 6, 3, 7]]);
        assert_eq!(mesh.groups(&b[1..]), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    }

    #[test]
    fn a_mesh_that_lacks_an_axis_has_fewer_devices_and_the_same_pieces() {
        let mesh = Mesh::parse("a=2,b=4,t=3@time,c=2").unwrap();
        let (without, c) = (mesh.lacking(&[1]), mesh.pieces(3));
        assert_eq!(without.to_string(), "a=2,b=1,t=3@time,c=2");
        assert_eq!((without.devices(), without.lacked()), (4, PieceSet::of(&mesh.pieces(1))));
        assert_eq!(without.groups(&mesh.pieces(0)), [[0, 2], [1, 3]]);
        assert_eq!(without.groups(&c), [[0, 1], [2, 3]]);
        assert_eq!(without.position(3, &[Piece(0), mesh.pieces(1)[0], c[0]]), 3);
        assert_eq!(mesh.lacking(&[]), mesh);
    }

    #[test]
    fn pieces_print_as_axes_and_parts_of_axes() {
        let mesh = Mesh::parse("a=2,b=12").unwrap();
        let b = mesh.pieces(1);
        assert_eq!(mesh.describe(&b), "b");
        assert_eq!(mesh.describe(&b[..1]), "b:(1)2");
        assert_eq!(mesh.describe(&b[1..]), "b:(2)6");
        assert_eq!(mesh.describe(&[b[2], Piece(0), b[0]]), "b:(4)3,a,b:(1)2");
        assert_eq!(mesh.to_string(), "a=2,b=12");
        for pieces in [&b[..], &b[..1], &b[1..], &[b[2], Piece(0), b[0]], &[]] {
            assert_eq!(mesh.parse_pieces(&mesh.describe(pieces)).as_deref(), Ok(pieces));
        }
        for wrong in ["c", "b:(3)2", "b:(1)5", "b:(1", "b:(x)2", "b:(12)1"] {
            assert!(mesh.parse_pieces(wrong).is_err_and(|error| error.contains("nor a part of one")), "{wrong}");
        }
    }

    #[test]
    fn broken_meshes_are_refused_with_the_reason() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let error = Mesh::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        check("", "is no axis");
        check("a", "`a` is no axis");
        check("a=x", "`a=x` is no axis");
        check("a=2@space", "is no axis");
        check("a=0", "size 0");
        check("a=2,a=3", "twice");
        check("a=16777216,b=2", "more than");
        check("1=2", "no name");
    }
}

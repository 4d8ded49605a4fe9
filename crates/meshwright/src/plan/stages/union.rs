//! One mesh for stages that have different ones, each of which lacks some of its axes.

use crate::plan::recipe::{OpRecipe, Recipe};
use crate::shard::{Axis, Mesh, Piece, Pieces, Sharding};

/// A mesh with the axes of several.
#[derive(Debug)]
pub(super) struct Union {
    pub(super) mesh: Mesh,
    members: Vec<Member>,
}

/// What one of the meshes is in it.
#[derive(Debug)]
struct Member {
    /// Of every piece of the one, which piece of the other it is.
    pieces: Pieces,
    /// Axes that it lacks.
    lacks: Vec<usize>,
}

/// What a piece does to what stages send each other: the dimension that it cuts, if any. Stages have pieces in common
/// that do the same, so that little has to be put together before it is sent.
pub(super) type Does = Option<usize>;

/// A piece of the union, and which piece it is of each of the meshes so far.
#[derive(Clone, Debug)]
struct Column {
    size: usize,
    does: Does,
    /// The name of its axis, without a number.
    name: String,
    of: Vec<Option<Piece>>,
}

impl Union {
    /// The union of meshes that lie in devices alone; each with what its pieces do.
    pub(super) fn new(meshes: &[(&Mesh, Vec<Does>)]) -> Result<Union, String> {
        let mut columns: Vec<Column> = Vec::new();
        for (number, (mesh, does)) in meshes.iter().enumerate() {
            let own = mesh.all_pieces().zip(does).map(|(piece, &does)| {
                let name = mesh.axes[mesh.axis_of(piece)].name.trim_end_matches(char::is_numeric).to_owned();
                let mut of = vec![None; number];
                of.push(Some(piece));
                Column { size: mesh.size(piece), does, name, of }
            });
            columns = merged(&columns, &own.collect::<Vec<_>>(), number + 1);
        }
        let axes = axes(&columns);
        let mesh = Mesh::new(axes.iter().map(|(axis, _)| axis.clone()).collect())?;
        let member = |number: usize| {
            let mut pieces = vec![Piece(0); meshes[number].0.all_pieces().count()];
            let own =
                columns.iter().zip(mesh.all_pieces()).filter_map(|(column, piece)| Some((column.of[number]?, piece)));
            own.for_each(|(own, piece)| pieces[usize::from(own.0)] = piece);
            let is_lacked = |&axis: &usize| columns[axes[axis].1].of[number].is_none();
            Member { pieces: pieces.into_iter().collect(), lacks: (0..axes.len()).filter(is_lacked).collect() }
        };
        let members = (0..meshes.len()).map(member).collect();
        Ok(Union { mesh, members })
    }

    /// The axes that one of the meshes lacks.
    pub(super) fn lacks(&self, number: usize) -> &[usize] {
        &self.members[number].lacks
    }

    /// What was told about one of the meshes, told about the union.
    pub(super) fn told(&self, number: usize, recipe: &Recipe) -> Recipe {
        let renamed = |pieces: &Pieces| -> Pieces {
            pieces.iter().map(|piece| self.members[number].pieces[usize::from(piece.0)]).collect()
        };
        let lies = |lies: &Sharding| {
            let mut partial = renamed(&lies.partial);
            partial.sort_unstable();
            Sharding { dims: lies.dims.iter().map(renamed).collect(), partial, reduction: lies.reduction }
        };
        let op = |op: &OpRecipe| OpRecipe {
            op: op.op,
            factors: op.factors.iter().map(|(factor, pieces)| (*factor, renamed(pieces))).collect(),
            results: op.results.iter().map(lies).collect(),
        };
        Recipe {
            mesh: self.mesh.clone(),
            arguments: recipe.arguments.iter().map(lies).collect(),
            ops: recipe.ops.iter().map(op).collect(),
            ..recipe.clone()
        }
    }
}

/// Both in their orders, with as many as possible of the one being one of the other too, rather of axes called the same.
fn merged(left: &[Column], right: &[Column], members: usize) -> Vec<Column> {
    let worth = |left: &Column, right: &Column| match left.size == right.size && left.does == right.does {
        true => 2 + usize::from(left.name == right.name),
        false => 0,
    };
    // What those are worth that can be the same from two places on.
    let mut most = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (row, of_left) in left.iter().enumerate().rev() {
        for (place, of_right) in right.iter().enumerate().rev() {
            let apart = most[row + 1][place].max(most[row][place + 1]);
            let joint = worth(of_left, of_right);
            most[row][place] = if joint > 0 { apart.max(joint + most[row + 1][place + 1]) } else { apart };
        }
    }
    let (mut row, mut place, mut all) = (0, 0, Vec::new());
    while row < left.len() || place < right.len() {
        let joint = if row < left.len() && place < right.len() { worth(&left[row], &right[place]) } else { 0 };
        let is_joint = joint > 0 && most[row][place] == joint + most[row + 1][place + 1];
        let is_left = row < left.len() && (place == right.len() || most[row + 1][place] == most[row][place]);
        let mut column = if is_joint || is_left { left[row].clone() } else { right[place].clone() };
        if is_joint {
            column.of.extend(right[place].of.last());
        }
        column.of.resize(members, None);
        all.push(column);
        row += usize::from(is_joint || is_left);
        place += usize::from(is_joint || !is_left);
    }
    all
}

/// Neighbouring columns of the same meshes as one axis, each with its first column. The pieces of an axis grow.
fn axes(columns: &[Column]) -> Vec<(Axis, usize)> {
    let has_same = |left: &Column, right: &Column| {
        let pairs = left.of.iter().zip(&right.of);
        left.name == right.name
            && left.size <= right.size
            && pairs.into_iter().all(|(left, right)| left.is_some() == right.is_some())
    };
    let mut axes: Vec<(Axis, usize)> = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        match axes.last_mut() {
            Some((axis, _)) if has_same(&columns[number - 1], column) => axis.size *= column.size,
            _ => axes.push((Axis { name: column.name.clone(), size: column.size, temporal: false }, number)),
        }
    }
    let names: Vec<String> = axes.iter().map(|(axis, _)| axis.name.clone()).collect();
    for (number, (axis, _)) in axes.iter_mut().enumerate() {
        let is_own = |name: &&String| **name == names[number];
        if names.iter().filter(is_own).count() > 1 {
            axis.name += &names[..number].iter().filter(is_own).count().to_string();
        }
    }
    axes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Meshes with a letter for what each piece does, and the union with what each lacks.
    #[track_caller]
    fn check(meshes: &[(&str, &str)], expected: &str) {
        let parsed: Vec<Mesh> = meshes.iter().map(|(text, _)| Mesh::parse(text).expect("a mesh")).collect();
        let does = |text: &str| text.bytes().map(|letter| usize::from(letter).checked_sub(usize::from(b'a'))).collect();
        let with: Vec<(&Mesh, Vec<Does>)> =
            parsed.iter().zip(meshes).map(|(mesh, (_, text))| (mesh, does(text))).collect();
        let union = Union::new(&with).expect("a union");
        let parts: Vec<Mesh> = (0..meshes.len()).map(|number| union.mesh.lacking(union.lacks(number))).collect();
        for (part, (mesh, member)) in parts.iter().zip(parsed.iter().zip(&union.members)) {
            // Devices lie along the same pieces with the same numbers.
            assert_eq!(part.devices(), mesh.devices());
            for (piece, &renamed) in mesh.all_pieces().zip(&member.pieces) {
                assert_eq!((part.size(renamed), part.stride(renamed)), (mesh.size(piece), mesh.stride(piece)));
            }
        }
        let parts: Vec<String> = parts.iter().map(Mesh::to_string).collect();
        assert_eq!(format!("{}: {}", union.mesh, parts.join("; ")), expected);
    }

    #[test]
    fn meshes_have_in_common_what_does_the_same() {
        check(&[("node=2,device=4", "aaa"), ("device=4", "aa")], "node=2,device=4: node=2,device=4; node=1,device=4");
        check(
            &[("device=2", "a"), ("device0=4,device1=2", "aab")],
            "device0=2,device1=4: device0=2,device1=1; device0=2,device1=4",
        );
        check(
            &[("device=2", "b"), ("device=8", "aab")],
            "device0=4,device1=2: device0=1,device1=2; device0=4,device1=2",
        );
    }

    #[test]
    fn what_nobody_has_in_common_is_beside_each_other() {
        check(&[("node=3", "a"), ("node=2", "a")], "node0=3,node1=2: node0=3,node1=1; node0=1,node1=2");
        check(&[("device=2", "a"), ("device=2", "b")], "device0=2,device1=2: device0=2,device1=1; device0=1,device1=2");
        check(
            &[("device=6", "ab"), ("device=3", "b")],
            "device0=2,device1=3: device0=2,device1=3; device0=1,device1=3",
        );
    }
}

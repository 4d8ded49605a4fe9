//! Dimensions that tactics name to be cut.

use super::{
    Action, Dim, Problem, Tactic, TacticError, apply, cut, first_that_divides, named, pieces, value_name, why_not,
};
use crate::program::{Program, ValueId};
use crate::shard::{Layout, Mesh, Piece};

/// Whether all that tactics before `auto` want cut by hand is stored in parts on a mesh: engines store equal parts only.
pub fn check_tiles(program: &Program, mesh: &Mesh, tactics: &[Tactic]) -> Result<(), TacticError> {
    let is_auto = |tactic: &Tactic| tactic.actions.iter().any(|action| matches!(action, Action::Auto(_)));
    let end = tactics.iter().position(is_auto).unwrap_or(tactics.len());
    let mut layout = Layout::new(program, mesh.clone());
    for (number, tactic) in tactics[..end].iter().enumerate() {
        apply(&mut layout, tactic, number as u16)?;
    }
    check_stored(&layout, &tactics[..end])
}

/// The same of tactics that were applied to a layout.
pub(crate) fn check_stored(layout: &Layout<'_>, tactics: &[Tactic]) -> Result<(), TacticError> {
    for (number, tactic) in tactics.iter().enumerate() {
        let fail = |(message, hint)| TacticError { number: Some(number), tactic: tactic.name.clone(), message, hint };
        for action in &tactic.actions {
            if let Action::Tile { pattern, dim: Dim::Number(dim) } = action {
                let pieces = pieces(&layout.mesh, tactic).map_err(fail)?;
                let values = named(layout.program, pattern).map_err(fail)?;
                let whole = values.into_iter().find(|&value| !is_stored_cut(layout, value, *dim, &pieces));
                whole.map_or(Ok(()), |value| Err(fail(problem(layout, value, *dim, &pieces))))?;
            }
        }
    }
    Ok(())
}

/// Whether a value is stored in parts along a dimension, where it has that.
fn is_stored_cut(layout: &Layout<'_>, value: ValueId, dim: usize, pieces: &[Piece]) -> bool {
    let is_in_time = || pieces.iter().any(|&piece| layout.mesh.is_temporal(piece));
    let stored = layout.stored(value);
    stored.dims.get(dim).is_none_or(|cut| pieces.iter().all(|piece| cut.contains(piece))) || is_in_time()
}

fn problem(layout: &Layout<'_>, value: ValueId, dim: usize, pieces: &[Piece]) -> Problem {
    let name = value_name(layout.program, value);
    let hint = "name only what divides, cut another dimension, or give the axis another size";
    let message = format!("dimension {dim} of {name} is not cut: {}", reason(layout, value, dim, pieces));
    (message, Some(hint.to_owned()))
}

fn reason(layout: &Layout<'_>, value: ValueId, dim: usize, pieces: &[Piece]) -> String {
    let size = layout.program.shape(value)[dim];
    let axis = &layout.mesh.axes[layout.mesh.axis_of(pieces[0])].name;
    let others = layout.sharding(value).dims[dim].iter().filter(|piece| !pieces.contains(piece)).copied();
    let parts = layout.mesh.product(pieces) * layout.mesh.product(&others.collect::<Vec<Piece>>());
    if size.is_multiple_of(parts) {
        let is_new = |piece: &&Piece| !layout.sharding(value).dims[dim].contains(piece);
        let piece = pieces.iter().find(is_new).copied().unwrap_or(pieces[0]);
        return why_not(layout, value, dim, piece);
    }
    format!("axis `{axis}` does not cut its size of {size} into {parts} equal parts")
}

pub(super) fn tile(
    layout: &mut Layout<'_>,
    pattern: &super::Pattern,
    dim: Dim,
    pieces: &[Piece],
) -> Result<Vec<String>, Problem> {
    let values = named(layout.program, pattern)?;
    let mut notes = Vec::new();
    let mut any = false;
    for &value in &values {
        let rank = layout.program.shape(value).len();
        let dim = match dim {
            Dim::First => first_that_divides(layout, value, pieces),
            Dim::Number(dim) => (dim < rank).then_some(dim),
        };
        any |= dim.is_some_and(|dim| cut(layout, value, dim, pieces, &mut notes));
    }
    if !any && notes.is_empty() {
        let ty = layout.program.ty(values[0]);
        let wish = match dim {
            Dim::First => "a dimension that divides".to_owned(),
            Dim::Number(dim) => format!("a dimension {dim}"),
        };
        return Err((format!("nothing named `{}` has {wish}, such as `{ty}`", pattern.text()), None));
    }
    Ok(notes)
}

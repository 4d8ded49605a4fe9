//! Dimensions that tactics name to be cut.

use super::{
    Action, Dim, Problem, Tactic, TacticError, apply, cut, first_that_divides, named, pieces, value_name, why_not,
};
use crate::program::{Program, ValueId};
use crate::shard::{Layout, Mesh, Piece};

/// What tactics before `auto` want cut by hand and no engine stores so, because parts would not be equal. An error where
/// nothing that a pattern names can be.
pub fn check_tiles(program: &Program, mesh: &Mesh, tactics: &[Tactic]) -> Result<Vec<String>, TacticError> {
    let mut layout = Layout::new(program, mesh.clone());
    let mut notes = Vec::new();
    let is_auto = |tactic: &&Tactic| tactic.actions.iter().any(|action| matches!(action, Action::Auto(_)));
    for (number, tactic) in tactics.iter().take_while(|tactic| !is_auto(tactic)).enumerate() {
        let fail = |(message, hint)| TacticError { number: Some(number), tactic: tactic.name.clone(), message, hint };
        apply(&mut layout, tactic, number as u16)?;
        for action in &tactic.actions {
            if let Action::Tile { pattern, dim: Dim::Number(dim) } = action {
                let pieces = pieces(mesh, tactic).map_err(fail)?;
                let values = named(program, pattern).map_err(fail)?;
                notes.extend(stored_whole(&layout, &values, *dim, &pieces).map_err(fail)?);
            }
        }
    }
    Ok(notes)
}

/// Why some of these values are not stored in parts along a dimension, or an error where all are not.
fn stored_whole(layout: &Layout<'_>, values: &[ValueId], dim: usize, pieces: &[Piece]) -> Result<Vec<String>, Problem> {
    let has_dim = |value: &&ValueId| layout.program.shape(**value).len() > dim;
    let values: Vec<ValueId> = values.iter().filter(has_dim).copied().collect();
    let is_cut = |value: ValueId| pieces.iter().all(|piece| layout.stored(value).dims[dim].contains(piece));
    let whole: Vec<ValueId> = values.iter().copied().filter(|&value| !is_cut(value)).collect();
    if whole.is_empty() || pieces.iter().any(|&piece| layout.mesh.is_temporal(piece)) {
        return Ok(Vec::new());
    }
    let told = |&value: &ValueId| {
        let name = value_name(layout.program, value);
        format!("dimension {dim} of {name} is not cut: {}", reason(layout, value, dim, pieces))
    };
    if whole.len() == values.len() {
        let hint = "cut a dimension that divides, give the axis another size, or pad what is given";
        return Err((told(&whole[0]), Some(hint.to_owned())));
    }
    Ok(whole.iter().map(told).collect())
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

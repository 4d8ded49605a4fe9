//! Planning as one of several tactics: the cheapest way to cut what others left, on a mesh that is given.

use super::costs::Costs;
use super::exposure::Exposure;
use super::label::{Effort, Until};
use super::recipe::freeze;
use super::sketch::{Frame, Ground, Sketch};
use super::told::{Rewriting, Told};
use crate::lower::{Haste, Movement, Price, Step};
use crate::profile::MemoryModel;
use crate::shard::{Layout, Mesh, PieceSet, Reduction};
use crate::tactics::Action;

/// Cuts all that tactics before left to planning so that moving values costs least. Computing costs nothing, but
/// products are cut as far as they can be. Gives notes on what was found.
pub(crate) fn lay_out_cheapest(
    layout: &mut Layout<'_>,
    told: Told<'_>,
    price: Price<'_>,
) -> Result<Vec<String>, String> {
    let mut actions = told.before.iter().flat_map(|tactic| &tactic.actions);
    if actions.any(|action| matches!(action, Action::Split { .. })) {
        return Err("what is cut in time has to come after `auto`".to_owned());
    }
    let unit = unit(layout, price);
    let memory_model = MemoryModel::Ordered;
    let costs = Costs { worker: None, price, host_seconds_per_byte: 0.0, unit, memory_model };
    let mut ground = Ground::new(layout.on(Mesh::default()), costs, Some(told))?;
    // The program is what it is from here on.
    ground.may_recompute = false;
    ground.rewriting = Rewriting::default();
    let frame = Frame::new(layout.mesh.clone(), 1);
    let sketch = Sketch::new(&ground, frame)?;
    let limit_bytes = told.auto.memory_bytes.unwrap_or(u64::MAX / 4);
    let Some(labelled) = sketch.label(limit_bytes, Exposure::all(1.0), None, Until::spent(Effort::Much)) else {
        return Err("nothing that was found fits `memory`".to_owned());
    };
    sketch.recipe(&labelled).lay_on(layout, &|op| Some(op))?;
    let mesh = &layout.mesh;
    let spatial: PieceSet = mesh.all_pieces().filter(|&piece| !mesh.is_temporal(piece)).collect();
    freeze(layout, spatial);
    let gap = labelled.seconds - labelled.lower_bound_seconds;
    let is_best = gap <= 1e-6 * labelled.seconds.abs();
    Ok(if is_best { Vec::new() } else { vec![format!("may be {:.1}% from the best", 100.0 * gap / labelled.seconds)] })
}

/// A small part of what it costs to reduce the largest value.
fn unit(layout: &Layout<'_>, price: Price<'_>) -> f64 {
    let mesh = &layout.mesh;
    let pieces: Vec<_> = mesh.all_pieces().filter(|&piece| !mesh.is_temporal(piece)).collect();
    let largest = layout.program.values.iter().map(|(_, value)| value.ty.bytes()).max().unwrap_or(0);
    let step = Step::AllReduce { pieces: pieces.iter().copied().collect(), reduction: Reduction::Sum };
    let cost =
        price(mesh, &Movement { step: &step, pieces: &pieces, before: largest, after: largest, haste: Haste::Awaited });
    if cost.is_finite() && cost > 0.0 { cost * 1e-9 } else { 1e-9 }
}

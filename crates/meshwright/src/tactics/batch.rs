//! Which dimension of every input its samples lie along.

use super::rewrite;
use crate::lower::{CollectiveKind, Measures, estimate, lower_layout, measure};
use crate::profile::work;
use crate::program::{ArgumentClass, Program, ValueId, expand_attention};
use crate::shard::{Axis, Layout, Mesh, PieceSet};

/// What may be exchanged besides gradients, as a share of them: a loss, or statistics of a batch.
const BESIDES: f64 = 0.1;

/// For each argument, the dimension of its samples. Samples have nothing to do with each other: whoever is given some
/// of them computes his share, and exchanges nothing but sums for gradients and losses. The first dimension for which
/// that holds is taken, and where it holds for none, the first.
pub fn batch_dims(program: &Program) -> Vec<usize> {
    let first = vec![0; program.arguments.len()];
    let anatomy = program.anatomy();
    let arguments = || program.body().arguments.iter().zip(&anatomy.classes);
    let inputs = arguments().filter(|(_, class)| **class == ArgumentClass::Input).map(|(&value, _)| value);
    let Some(main) = inputs.rev().max_by_key(|&value| program.ty(value).elements()) else { return first };
    let parameters = arguments().filter(|(_, class)| **class == ArgumentClass::Parameter);
    let bytes: usize = parameters.map(|(&value, _)| program.ty(value).bytes()).sum();
    let dims = 0..program.shape(main).len();
    dims.into_iter().find_map(|dim| independent(program, main, dim, bytes)).unwrap_or(first)
}

/// For each argument the dimension that is cut where one of an input is, if that leaves samples apart.
fn independent(program: &Program, main: ValueId, dim: usize, parameter_bytes: usize) -> Option<Vec<usize>> {
    // Any number of devices would do, and the fewest are the cheapest to lower for.
    let devices = smallest_factor(program.shape(main)[dim])?;
    let mesh = Mesh::new(vec![Axis { name: "samples".to_owned(), size: devices, temporal: false }]).ok()?;
    let rewritten = rewrite(program, &mesh, &[]);
    let mut layout = Layout::new(&rewritten, mesh);
    let main = rewritten.body().arguments[program.body().arguments.iter().position(|&value| value == main)?];
    let pieces = layout.mesh.pieces(0);
    pieces.iter().for_each(|&piece| layout.cut(main, dim, piece));
    layout.propagate();
    let (_, local) = lower_layout(layout.clone(), &estimate).ok()?;
    let share = (1.0 + BESIDES) / devices as f64;
    let is_spread = matrix_work(&local.program) <= share * matrix_work(&rewritten);
    if !is_spread || !exchanges_gradients_alone(&measure(&local.program), parameter_bytes, devices) {
        return None;
    }
    let cut = |value: &ValueId| {
        let mut dims = layout.sharding(*value).dims.iter();
        dims.position(|dim| PieceSet::of(dim).intersects(PieceSet::of(&pieces))).unwrap_or(0)
    };
    Some(rewritten.body().arguments.iter().map(cut).collect())
}

fn exchanges_gradients_alone(measures: &Measures, parameter_bytes: usize, devices: usize) -> bool {
    let of_gradients = 2.0 * parameter_bytes as f64 * (devices - 1) as f64 / devices as f64;
    let is_sum = |kind| matches!(kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
    let mut kinds = CollectiveKind::ALL.into_iter().filter(|&kind| measures.count(kind) > 0);
    kinds.all(is_sum) && measures.bytes_moved <= (1.0 + BESIDES) * of_gradients
}

fn matrix_work(program: &Program) -> f64 {
    let program = expand_attention(program);
    let trips = program.trips();
    program.ops.ids().map(|op| work(&program, op).matrix * trips.of_op(op) as f64).sum()
}

/// None where there is nothing to cut.
fn smallest_factor(size: usize) -> Option<usize> {
    (2..=size).find(|factor| size.is_multiple_of(*factor))
}

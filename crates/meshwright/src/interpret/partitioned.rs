//! Local programs run on all devices of their mesh, and compared with the program they came from.

use super::devices::evaluate_devices;
use super::tensor::{Data, Tensor};
use super::{EvaluateError, Options};
use crate::lower::LocalProgram;
use crate::program::{Program, Type};
use crate::shard::{Mesh, Piece, Sharding};

/// Runs a local program on whole arguments and gives whole results: arguments are cut as they are
/// stored, results put together.
pub fn evaluate_partitioned(
    local: &LocalProgram,
    arguments: &[Tensor],
    options: Options,
) -> Result<Vec<Tensor>, EvaluateError> {
    let mesh = &local.mesh;
    let fail = |message: String| EvaluateError { location: Program::UNKNOWN_LOCATION, message };
    if arguments.len() != local.arguments.len() {
        let message = format!("the program has {} arguments but {} were given", local.arguments.len(), arguments.len());
        return Err(fail(message));
    }
    let parts: Vec<Vec<Tensor>> = (0..mesh.devices())
        .map(|device| {
            let place = Place { device, microbatch: 0 };
            arguments.iter().zip(&local.arguments).map(|(whole, lies)| part(whole, lies, mesh, place)).collect()
        })
        .collect();
    let evaluations = evaluate_devices(&local.program, &parts, options)?;
    let join_result = |(index, lies): (usize, &Sharding)| {
        let parts = evaluations.iter().enumerate();
        let parts: Vec<(Place, &Tensor)> =
            parts.map(|(device, evaluation)| (Place { device, microbatch: 0 }, &evaluation.results[index])).collect();
        join(&parts, lies, mesh).map_err(|message| fail(format!("result {index}: {message}")))
    };
    local.results.iter().enumerate().map(join_result).collect()
}

/// The largest differences between two lists of tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    pub absolute: f64,
    /// Relative to the largest magnitude in the same tensor, so that values that cancel to almost
    /// nothing do not count as much as they look.
    pub relative: f64,
}

/// How far apart tensors of the same types are. Where one is not finite the other must be the same.
pub fn difference(expected: &[Tensor], found: &[Tensor]) -> Difference {
    let mut worst = Difference::default();
    for (expected, found) in expected.iter().zip(found) {
        let (expected, found) = (numbers(expected), numbers(found));
        let largest = expected
            .iter()
            .copied()
            .filter(|value| value.is_finite())
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        for (&left, &right) in expected.iter().zip(&found) {
            let same = left == right || left.is_nan() && right.is_nan();
            let apart = if same { 0.0 } else { (left - right).abs() };
            let apart = if apart.is_nan() { f64::INFINITY } else { apart };
            worst.absolute = worst.absolute.max(apart);
            worst.relative =
                worst.relative.max(if apart == 0.0 { 0.0 } else { apart / largest.max(f64::MIN_POSITIVE) });
        }
        if expected.len() != found.len() {
            worst = Difference { absolute: f64::INFINITY, relative: f64::INFINITY };
        }
    }
    worst
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match &tensor.data {
        Data::Float(values) => values.clone(),
        Data::Integer(values) => values.iter().map(|&value| value as f64).collect(),
        Data::Raw(bytes) => bytes.iter().map(|&byte| f64::from(byte)).collect(),
    }
}

/// Where a part is: on which device, and of which microbatch where it is cut along time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: usize,
    pub(super) microbatch: usize,
}

/// A device's part of a whole tensor. Stored dimensions are cut evenly.
pub(super) fn part(whole: &Tensor, lies: &Sharding, mesh: &Mesh, place: Place) -> Tensor {
    let mut local = Tensor::zeros(&lies.local_type(mesh, &whole.ty));
    let starts = starts(lies, mesh, &local.ty, place);
    copy(whole, &starts, &mut local, &vec![0; starts.len()], &lies.local_shape(mesh, &whole.ty.shape));
    local
}

/// The whole tensor of all devices' parts, which have to agree where they hold the same part.
pub(super) fn join(parts: &[(Place, &Tensor)], lies: &Sharding, mesh: &Mesh) -> Result<Tensor, String> {
    let local = &parts[0].1.ty;
    let shape: Vec<usize> =
        local.shape.iter().zip(&lies.dims).map(|(&size, pieces)| size * mesh.product(pieces)).collect();
    let mut whole = Tensor::zeros(&local.with_shape(&shape));
    let mut first_at: Vec<(Vec<usize>, usize)> = Vec::new();
    for (index, &(place, tensor)) in parts.iter().enumerate() {
        let starts = starts(lies, mesh, local, place);
        match first_at.iter().find(|(known, _)| *known == starts) {
            Some(&(_, first)) if !same(parts[first].1, tensor) => {
                let (first, device) = (parts[first].0.device, place.device);
                return Err(format!("devices {first} and {device} have the same part with different contents"));
            }
            Some(_) => {}
            None => {
                copy(tensor, &vec![0; starts.len()], &mut whole, &starts, &local.shape);
                first_at.push((starts, index));
            }
        }
    }
    Ok(whole)
}

pub(super) fn same(left: &Tensor, right: &Tensor) -> bool {
    match (&left.data, &right.data) {
        (Data::Float(left), Data::Float(right)) => {
            left.iter().zip(right).all(|(left, right)| left == right || left.is_nan() && right.is_nan())
        }
        (left, right) => left == right,
    }
}

fn starts(lies: &Sharding, mesh: &Mesh, local: &Type, place: Place) -> Vec<usize> {
    // Along an axis in time the microbatch is what the device is along others.
    let along = |piece: &Piece| if mesh.is_temporal(*piece) { place.microbatch } else { place.device };
    let position = |pieces: &[Piece]| {
        let step = |position, piece: &Piece| position * mesh.size(*piece) + mesh.position(along(piece), &[*piece]);
        pieces.iter().fold(0, step)
    };
    lies.dims.iter().zip(&local.shape).map(|(pieces, &size)| position(pieces) * size).collect()
}

/// Copies a box of elements from one place to another.
fn copy(from: &Tensor, from_start: &[usize], to: &mut Tensor, to_start: &[usize], size: &[usize]) {
    let elements: usize = size.iter().product();
    let (from_shape, to_shape) = (from.ty.shape.clone(), to.ty.shape.clone());
    let offset = |shape: &[usize], start: &[usize], mut index: usize| {
        let (mut offset, mut stride) = (0, 1);
        for dim in (0..shape.len()).rev() {
            offset += (start[dim] + index % size[dim]) * stride;
            index /= size[dim];
            stride *= shape[dim];
        }
        offset
    };
    for index in 0..elements {
        let (source, target) = (offset(&from_shape, from_start, index), offset(&to_shape, to_start, index));
        match (&from.data, &mut to.data) {
            (Data::Float(from), Data::Float(to)) => to[target] = from[source],
            (Data::Integer(from), Data::Integer(to)) => to[target] = from[source],
            (Data::Raw(from), Data::Raw(to)) => {
                let width = from.len() / from_shape.iter().product::<usize>().max(1);
                to[target * width..][..width].copy_from_slice(&from[source * width..][..width]);
            }
            _ => {}
        }
    }
}

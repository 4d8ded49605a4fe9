//! Images in other sizes: every place of a dimension becomes a weighted sum of places.

use super::call::{Call, Made};
use super::index::taken;
use super::reduce::average;
use crate::program::{Binary, DType, Literal, Type, ValueId};

/// How places of the result are made of those of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Average,
    Linear {
        aligned: bool,
    },
    Nearest,
    /// The place whose middle is nearest.
    NearestMiddle,
}

/// Changes the size of the last dimensions, one after the other.
fn resampled(call: &mut Call<'_>, value: ValueId, sizes: &[usize], scales: &[Option<f64>], way: Way) -> ValueId {
    let first = call.rank(value) - sizes.len();
    let dtype = call.builder.dtype(value);
    let mut made = call.builder.convert(value, call.wide(dtype));
    for (index, &size) in sizes.iter().enumerate() {
        made = match way {
            Way::Average => averaged(call, made, first + index, size),
            _ => along(call, made, first + index, size, scales.get(index).copied().flatten(), way),
        };
    }
    call.builder.convert(made, dtype)
}

/// Means of parts of a dimension that are as equal as they can be.
fn averaged(call: &mut Call<'_>, value: ValueId, dim: usize, size: usize) -> ValueId {
    let shape = call.shape(value);
    if shape[dim] == size {
        return value;
    }
    if shape[dim].is_multiple_of(size.max(1)) {
        let mut apart = shape.to_vec();
        apart.splice(dim..=dim, [size, shape[dim] / size]);
        let parts = call.builder.reshape(value, &apart);
        return average(call, parts, &[dim + 1]);
    }
    let mut parts = Vec::new();
    for part in 0..size {
        let (start, end) = (part * shape[dim] / size, ((part + 1) * shape[dim]).div_ceil(size));
        let part = call.builder.slice_dim(value, dim, start, end);
        let part = average(call, part, &[dim]);
        let mut wide = shape.to_vec();
        wide[dim] = 1;
        parts.push(call.builder.reshape(part, &wide));
    }
    call.builder.concatenate(&parts, dim)
}

fn along(call: &mut Call<'_>, value: ValueId, dim: usize, size: usize, scale: Option<f64>, way: Way) -> ValueId {
    let shape = call.shape(value);
    let from = shape[dim];
    // A scale that was given wins over what sizes say.
    let scale = scale.filter(|&scale| scale > 0.0).map_or(from as f32 / size as f32, |scale| (1.0 / scale) as f32);
    let last = from.saturating_sub(1);
    if way == Way::Nearest && size.is_multiple_of(from) && scale == from as f32 / size as f32 {
        let mut wide = shape.to_vec();
        wide.insert(dim + 1, size / from);
        let spread = call.builder.broadcast_along(value, &wide, dim + 1);
        let mut sizes = shape.to_vec();
        sizes[dim] = size;
        return call.builder.reshape(spread, &sizes);
    }
    let nearest = |place: f32| (place.floor() as usize).min(last);
    match way {
        Way::Nearest | Way::NearestMiddle | Way::Average => {
            let shift = if way == Way::NearestMiddle { 0.5 } else { 0.0 };
            let places: Vec<usize> = (0..size).map(|to| nearest((to as f32 + shift) * scale)).collect();
            at(call, value, dim, &places)
        }
        Way::Linear { aligned } => {
            let place = |to: usize| {
                if aligned {
                    let step = if size > 1 { last as f32 / (size - 1) as f32 } else { 0.0 };
                    to as f32 * step
                } else {
                    ((to as f32 + 0.5) * scale - 0.5).max(0.0)
                }
            };
            let low: Vec<usize> = (0..size).map(|to| nearest(place(to))).collect();
            let high: Vec<usize> = low.iter().map(|&low| (low + 1).min(last)).collect();
            let shares: Vec<f32> = (0..size).map(|to| (place(to) - low[to] as f32).clamp(0.0, 1.0)).collect();
            let rest: Vec<f32> = shares.iter().map(|share| 1.0 - share).collect();
            let (low, high) = (at(call, value, dim, &low), at(call, value, dim, &high));
            let (low, high) = (weighted(call, low, dim, &rest), weighted(call, high, dim, &shares));
            call.builder.binary(Binary::Add, low, high)
        }
    }
}

fn at(call: &mut Call<'_>, value: ValueId, dim: usize, places: &[usize]) -> ValueId {
    let bytes: Vec<u8> = places.iter().flat_map(|&place| (place as i64).to_le_bytes()).collect();
    let places = call.builder.literal(Literal::packed(Type::new(DType::I64, &[places.len()]), bytes));
    taken(call, value, places, dim)
}

fn weighted(call: &mut Call<'_>, value: ValueId, dim: usize, weights: &[f32]) -> ValueId {
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let weights = call.builder.literal(Literal::packed(Type::new(DType::F32, &[weights.len()]), bytes));
    let dtype = call.builder.dtype(value);
    let weights = call.builder.convert(weights, dtype);
    let shape = call.shape(value);
    let weights = call.builder.broadcast(weights, &shape, &[dim]);
    call.builder.times(value, weights)
}

fn scales(call: &Call<'_>, first: usize, count: usize) -> Vec<Option<f64>> {
    (first..first + count).map(|place| call.float(place).ok()).collect()
}

/// Sizes are in the second place, scales from some place on.
fn forward(call: &mut Call<'_>, first_scale: usize, way: Way) -> Made {
    let value = call.tensor(0)?;
    let ty = call.result(0)?;
    let count = ty.rank().checked_sub(2).ok_or("an image has batch and features")?;
    let scales = scales(call, first_scale, count);
    let made = resampled(call, value, &ty.shape[2..], &scales, way);
    call.one(made)
}

/// `(gradient, output size, input size, ...)`: the value itself has no part in its gradient, only its shape.
fn backward(call: &mut Call<'_>, first_scale: usize, way: Way) -> Made {
    let gradient = call.tensor(0)?;
    let ty = call.result(0)?;
    let sizes = call.shape(gradient)[2..].to_vec();
    let scales = scales(call, first_scale, sizes.len());
    pulled(call, gradient, &ty, &sizes, &scales, way)
}

fn pulled(
    call: &mut Call<'_>,
    gradient: ValueId,
    ty: &Type,
    sizes: &[usize],
    scales: &[Option<f64>],
    way: Way,
) -> Made {
    let value = call.builder.full(ty, 0.0);
    let made = call.pullback(&[value], gradient, |call| Ok(resampled(call, value, sizes, scales, way)))?[0];
    call.one(made)
}

pub(super) fn nearest(call: &mut Call<'_>) -> Made {
    forward(call, 2, Way::Nearest)
}

pub(super) fn nearest_backward(call: &mut Call<'_>) -> Made {
    backward(call, 3, Way::Nearest)
}

pub(super) fn nearest_exact(call: &mut Call<'_>) -> Made {
    forward(call, 2, Way::NearestMiddle)
}

pub(super) fn nearest_exact_backward(call: &mut Call<'_>) -> Made {
    backward(call, 3, Way::NearestMiddle)
}

pub(super) fn linear(call: &mut Call<'_>) -> Made {
    let aligned = call.flag(2);
    forward(call, 3, Way::Linear { aligned })
}

pub(super) fn linear_backward(call: &mut Call<'_>) -> Made {
    let aligned = call.flag(3);
    backward(call, 4, Way::Linear { aligned })
}

/// `_adaptive_avg_pool(self, output size)`.
pub(super) fn adaptive(call: &mut Call<'_>) -> Made {
    let value = call.tensor(0)?;
    let sizes: Vec<usize> = call.ints(1)?.iter().map(|&size| size.max(0) as usize).collect();
    let made = resampled(call, value, &sizes, &[], Way::Average);
    call.one(made)
}

/// `(gradient, self)`.
pub(super) fn adaptive_backward(call: &mut Call<'_>, count: usize) -> Made {
    let gradient = call.tensor(0)?;
    let ty = call.result(0)?;
    let shape = call.shape(gradient);
    let sizes = shape[shape.len() - count..].to_vec();
    pulled(call, gradient, &ty, &sizes, &[], Way::Average)
}

pub(super) fn adaptive2d_backward(call: &mut Call<'_>) -> Made {
    adaptive_backward(call, 2)
}

pub(super) fn adaptive3d_backward(call: &mut Call<'_>) -> Made {
    adaptive_backward(call, 3)
}

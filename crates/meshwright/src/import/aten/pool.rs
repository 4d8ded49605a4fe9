//! Pooling: windows over the last dimensions.

use smallvec::SmallVec;

use super::call::{Call, Made};
use crate::program::{Binary, DType, Direction, Op, RegionId, Shape, Type, ValueId, Window};

/// Windows over the last dimensions of a value.
struct Windows {
    window: Window,
    rank: usize,
}

/// Places are those of the kernel, the strides, the padding and, where there is one, the dilation.
fn windows(
    call: &Call<'_>,
    value: ValueId,
    output: &[usize],
    count: usize,
    places: [usize; 4],
) -> Result<Windows, String> {
    let shape = call.shape(value);
    let first = shape.len().checked_sub(count).ok_or("there are too few dimensions to pool")?;
    let sizes = call.spread(places[0], count, 1)?;
    let mut strides = call.spread(places[1], count, 0)?;
    if call.ints(places[1])?.is_empty() {
        strides.clone_from(&sizes);
    }
    let pads = call.spread(places[2], count, 0)?;
    let dilation = if places[3] == usize::MAX { vec![1; count] } else { call.spread(places[3], count, 1)? };
    let ones: Shape = SmallVec::from_elem(1, shape.len());
    let mut window = Window {
        sizes: ones.clone(),
        strides: ones.clone(),
        base_dilation: ones.clone(),
        window_dilation: ones,
        padding: SmallVec::from_elem((0, 0), shape.len()),
    };
    for index in 0..count {
        let dim = first + index;
        window.sizes[dim] = sizes[index].max(1) as usize;
        window.strides[dim] = strides[index].max(1) as usize;
        window.window_dilation[dim] = dilation[index].max(1) as usize;
        // Where sizes are rounded up, windows reach beyond the end.
        let reach = (output[dim] as i64 - 1) * strides[index].max(1) + dilation[index] * (sizes[index] - 1) + 1;
        window.padding[dim] = (pads[index], reach - shape[dim] as i64 - pads[index]);
    }
    Ok(Windows { window, rank: shape.len() })
}

impl Windows {
    fn reduce(&self, call: &mut Call<'_>, binary: Binary, value: ValueId, initial: f64) -> ValueId {
        let dtype = call.builder.dtype(value);
        let initial = call.builder.scalar(dtype, initial);
        let region = call.builder.reducer(binary, dtype);
        call.builder.op(Op::ReduceWindow(Box::new(self.window.clone())), &[value, initial], &[region])[0]
    }
}

/// `max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil)`: the largest, and where they are in the last
/// dimensions counted together.
pub(super) fn max_pool2d(call: &mut Call<'_>) -> Made {
    max_pool(call, 2)
}

pub(super) fn max_pool3d(call: &mut Call<'_>) -> Made {
    max_pool(call, 3)
}

fn max_pool(call: &mut Call<'_>, count: usize) -> Made {
    let value = call.tensor(0)?;
    let ty = call.result(0)?;
    let windows = windows(call, value, &ty.shape, count, [1, 2, 3, 4])?;
    let positions = positions(call, value, windows.rank - count);
    let dtype = call.builder.dtype(value);
    let region = first_of_largest(call, dtype);
    let (lowest, nowhere) =
        (call.builder.scalar(dtype, f64::NEG_INFINITY), call.builder.scalar(DType::I64, 2f64.powi(53)));
    // Both come from one op, so that positions are kept from where the largest are found.
    let window = Op::ReduceWindow(Box::new(windows.window));
    Ok(call.builder.op(window, &[value, positions, lowest, nowhere], &[region]))
}

/// Where each element is in the dimensions from some on, counted together.
fn positions(call: &mut Call<'_>, value: ValueId, first: usize) -> ValueId {
    let shape = call.shape(value);
    let whole = Type::new(DType::I64, &shape);
    let mut position = call.builder.full(&whole, 0.0);
    for dim in first..shape.len() {
        let along = call.builder.iota(&whole, dim);
        position = call.builder.times_number(position, shape[dim] as f64);
        position = call.builder.plus(position, along);
    }
    position
}

/// Of two elements with their positions, the larger or, of equal ones, the first. What is no number is above all.
fn first_of_largest(call: &mut Call<'_>, dtype: DType) -> RegionId {
    let region = call.builder.program.add_region();
    let types = [dtype, DType::I64, dtype, DType::I64].map(Type::scalar);
    let arguments = types.map(|ty| call.builder.program.add_region_argument(region, ty));
    let results = call.builder.inside(region, |builder| {
        let [left, left_place, right, right_place] = arguments;
        let is_above = builder.compare(Direction::Greater, left, right);
        let is_nan = builder.compare(Direction::NotEqual, left, left);
        let is_above = builder.binary(Binary::Or, is_above, is_nan);
        let is_equal = builder.compare(Direction::Equal, left, right);
        let is_before = builder.compare(Direction::Less, left_place, right_place);
        let is_first = builder.binary(Binary::And, is_equal, is_before);
        let is_left = builder.binary(Binary::Or, is_above, is_first);
        vec![builder.select(is_left, left, right), builder.select(is_left, left_place, right_place)]
    });
    call.builder.program.regions[region].results = results;
    region
}

/// `(gradient, self, kernel, stride, padding, dilation, ceil, indices)`.
pub(super) fn max_pool2d_backward(call: &mut Call<'_>) -> Made {
    max_pool_backward(call, 2)
}

pub(super) fn max_pool3d_backward(call: &mut Call<'_>) -> Made {
    max_pool_backward(call, 3)
}

/// Gradients go to where the largest were found.
fn max_pool_backward(call: &mut Call<'_>, count: usize) -> Made {
    let ty = call.result(0)?;
    let (gradient, places) = (call.tensor(0)?, call.tensor(7)?);
    let outer = &ty.shape[..ty.rank() - count];
    let flat = |shape: &[usize]| [outer, &[shape[outer.len()..].iter().product()]].concat();
    let shape = call.shape(gradient);
    let gradient = call.builder.reshape(gradient, &flat(&shape));
    let places = call.builder.reshape(places, &flat(&shape));
    let zeros = call.builder.full(&ty.with_shape(&flat(&ty.shape)), 0.0);
    let made = super::index::added_along(call, zeros, places, gradient, outer.len());
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

/// `avg_pool(self, kernel, stride, padding, ceil, count padding, divisor)`.
pub(super) fn avg_pool1d(call: &mut Call<'_>) -> Made {
    avg_pool(call, 1)
}

pub(super) fn avg_pool2d(call: &mut Call<'_>) -> Made {
    avg_pool(call, 2)
}

pub(super) fn avg_pool3d(call: &mut Call<'_>) -> Made {
    avg_pool(call, 3)
}

fn avg_pool(call: &mut Call<'_>, count: usize) -> Made {
    let value = call.tensor(0)?;
    let ty = call.result(0)?;
    let made = averaged(call, value, &ty.shape, count, 1)?;
    call.one(made)
}

/// Means of windows; places count from that of the kernel.
fn averaged(
    call: &mut Call<'_>,
    value: ValueId,
    output: &[usize],
    count: usize,
    first: usize,
) -> Result<ValueId, String> {
    let windows = windows(call, value, output, count, [first, first + 1, first + 2, usize::MAX])?;
    let counts_padding = !call.has(first + 4) || call.flag(first + 4);
    let dtype = call.builder.dtype(value);
    let wide = call.wide(dtype);
    let value = call.builder.convert(value, wide);
    let sum = windows.reduce(call, Binary::Add, value, 0.0);
    let size: usize = windows.window.sizes.iter().product();
    let divisor = if call.has(first + 5) {
        call.builder.full_like(sum, call.float(first + 5)?)
    } else if windows.window.padding.iter().all(|&pad| pad == (0, 0)) {
        call.builder.full_like(sum, size as f64)
    } else {
        // How many elements every window has: those of the value, or of the value with its padding.
        let shape = call.shape(value);
        let ones = call.builder.full(&Type::new(wide, &shape), 1.0);
        let mut counted = Windows { window: windows.window.clone(), rank: windows.rank };
        let mut ones = ones;
        if counts_padding {
            let pads = call.spread(first + 2, count, 0)?;
            let mut around = vec![0i64; shape.len()];
            for (index, &pad) in pads.iter().enumerate() {
                let dim = shape.len() - count + index;
                around[dim] = pad;
                counted.window.padding[dim].0 -= pad;
                counted.window.padding[dim].1 -= pad;
            }
            let one = call.builder.scalar(wide, 1.0);
            let interior = vec![0; shape.len()];
            ones = call.builder.pad(ones, one, &around, &around, &interior);
        }
        counted.reduce(call, Binary::Add, ones, 0.0)
    };
    let made = call.builder.over(sum, divisor);
    Ok(call.builder.convert(made, dtype))
}

/// `(gradient, self, kernel, stride, padding, ceil, count padding, divisor)`.
pub(super) fn avg_pool2d_backward(call: &mut Call<'_>) -> Made {
    avg_pool_backward(call, 2)
}

pub(super) fn avg_pool3d_backward(call: &mut Call<'_>) -> Made {
    avg_pool_backward(call, 3)
}

fn avg_pool_backward(call: &mut Call<'_>, count: usize) -> Made {
    let (gradient, value) = (call.tensor(0)?, call.tensor(1)?);
    let output = call.shape(gradient);
    let made = call.pullback(&[value], gradient, |call| averaged(call, value, &output, count, 2))?[0];
    call.one(made)
}

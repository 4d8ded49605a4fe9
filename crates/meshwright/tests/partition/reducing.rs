//! Reductions, of whole dimensions and of windows.

use meshwright::program::{Binary, DType, Dims, Direction, Op, RegionId, SelectAndScatter, Type, Window};
use smallvec::SmallVec;

use crate::generator::{Entry, Generator, Quality, joined};

/// The reductions and the element types they are applied to.
const REDUCTIONS: [(Binary, DType); 9] = [
    (Binary::Add, DType::F32),
    (Binary::Maximum, DType::F32),
    (Binary::Minimum, DType::F64),
    (Binary::Multiply, DType::F32),
    (Binary::And, DType::Bool),
    (Binary::Or, DType::Bool),
    (Binary::And, DType::I32),
    (Binary::Add, DType::I32),
    (Binary::Maximum, DType::U32),
];

pub(crate) fn reduce(generator: &mut Generator, variant: usize) {
    let (binary, dtype) = REDUCTIONS[variant % REDUCTIONS.len()];
    let entry = generator.any(dtype, 1);
    let shape = generator.dims(entry);
    let dims: Dims = (0..shape.len()).filter(|_| generator.random.chance(60)).collect();
    let dims = if dims.is_empty() { Dims::from_slice(&[shape.len() - 1]) } else { dims };
    let count: usize = dims.iter().map(|&dim| shape[dim]).product();
    let entry = if binary == Binary::Multiply { generator.bounded(entry, 1.0, 0.5) } else { entry };
    let initial = generator.value(dtype, &[]);
    let region = generator.builder.reducer(binary, dtype);
    let value = generator.one(Op::Reduce { dims }, &[entry.value, initial.value], &[region]);
    push_reduced(generator, value, binary, &[entry, initial], count);
}

/// Adds what a reduction gives to the pool.
pub(crate) fn push_reduced(
    generator: &mut Generator,
    value: meshwright::program::ValueId,
    binary: Binary,
    entries: &[Entry],
    count: usize,
) {
    let bound = entries.iter().map(|entry| entry.bound).fold(0.0, f64::max);
    let quality = joined(entries);
    let summed = if quality == Quality::Grid { quality } else { Quality::Rough };
    match binary {
        Binary::Add => generator.push(value, summed, bound * (count + 1) as f64),
        Binary::Multiply => generator.push(value, Quality::Rough, bound.max(1.0).powi(count as i32 + 1)),
        Binary::Subtract => generator.push(value, summed, bound * (count + 1) as f64),
        _ => generator.push(value, quality, bound),
    };
}

/// The largest element and its position, as JAX writes it.
fn arg_max(generator: &mut Generator) {
    let entry = generator.any(DType::F32, 1);
    let shape = generator.dims(entry);
    let entry = if entry.quality == Quality::Rough { generator.exact(DType::F32, &shape) } else { entry };
    let dim = generator.random.below(shape.len());
    let position = generator.builder.iota(&Type::new(DType::I32, &shape), dim);
    let lowest = generator.builder.scalar(DType::F32, f64::NEG_INFINITY);
    let zero = generator.builder.scalar(DType::I32, 0.0);
    let region = arg_max_region(generator);
    let op = Op::Reduce { dims: Dims::from_slice(&[dim]) };
    let results = generator.builder.op(op, &[entry.value, position, lowest, zero], &[region]);
    generator.push(results[0], entry.quality, entry.bound);
    generator.push(results[1], Quality::Grid, 1.0);
}

fn arg_max_region(generator: &mut Generator) -> RegionId {
    let region = generator.builder.program.add_region();
    let types = [DType::F32, DType::I32, DType::F32, DType::I32];
    let arguments = types.map(|dtype| generator.builder.program.add_region_argument(region, Type::scalar(dtype)));
    let [left, left_at, right, right_at] = arguments;
    let results = generator.builder.inside(region, |builder| {
        let is_larger = builder.compare(Direction::Greater, left, right);
        let is_equal = builder.compare(Direction::Equal, left, right);
        let is_before = builder.compare(Direction::Less, left_at, right_at);
        let wins_tie = builder.binary(Binary::And, is_equal, is_before);
        let wins = builder.binary(Binary::Or, is_larger, wins_tie);
        vec![builder.select(is_larger, left, right), builder.select(wins, left_at, right_at)]
    });
    generator.builder.program.regions[region].results = results;
    region
}

/// Ops that look at windows, and the reduction to a position.
pub(crate) fn windows(generator: &mut Generator, variant: usize) {
    match variant % 6 {
        0 => arg_max(generator),
        1 => select_and_scatter(generator),
        _ => reduce_window(generator, variant),
    }
}

fn reduce_window(generator: &mut Generator, variant: usize) {
    let (binary, dtype) = [REDUCTIONS[0], REDUCTIONS[1], REDUCTIONS[7], REDUCTIONS[5]][variant % 4];
    let entry = generator.any(dtype, 1);
    let shape = generator.dims(entry);
    let rank = shape.len();
    let initial = generator.value(dtype, &[]);
    let ones = || SmallVec::from_elem(1, rank);
    let mut window = Window {
        sizes: ones(),
        strides: ones(),
        base_dilation: ones(),
        window_dilation: ones(),
        padding: SmallVec::from_elem((0, 0), rank),
    };
    for dim in (0..rank).filter(|_| generator.random.chance(50)).collect::<Vec<_>>() {
        let random = &mut generator.random;
        window.sizes[dim] = 1 + random.below(3);
        window.strides[dim] = 1 + random.below(2);
        window.base_dilation[dim] = random.pick(&[1, 1, 2]);
        window.window_dilation[dim] = random.pick(&[1, 1, 2]);
        let reach = ((window.sizes[dim] - 1) * window.window_dilation[dim]) as i64;
        window.padding[dim] = (reach, random.between(0, 1));
    }
    // A dilation that does nothing must not matter.
    if generator.random.chance(20) {
        window.window_dilation[0] = 2;
        window.padding[0].0 += window.sizes[0] as i64;
    }
    let count: usize = window.sizes.iter().product();
    let region = generator.builder.reducer(binary, dtype);
    let op = Op::ReduceWindow(Box::new(window));
    let value = generator.one(op, &[entry.value, initial.value], &[region]);
    push_reduced(generator, value, binary, &[entry, initial], count);
}

/// The gradient of max pooling.
fn select_and_scatter(generator: &mut Generator) {
    let entry = generator.any(DType::F32, 1);
    let shape = generator.dims(entry);
    let entry = if entry.quality == Quality::Rough { generator.exact(DType::F32, &shape) } else { entry };
    let rank = shape.len();
    let mut scatter = SelectAndScatter {
        window: SmallVec::from_elem(1, rank),
        strides: SmallVec::from_elem(1, rank),
        padding: SmallVec::from_elem((0, 0), rank),
    };
    let mut source = shape.clone();
    for dim in 0..rank {
        if generator.random.chance(50) && shape[dim] > 1 {
            scatter.window[dim] = 2;
            scatter.strides[dim] = 1 + generator.random.below(2);
            scatter.padding[dim] = (generator.random.between(0, 1), 0);
            let padded = shape[dim] + scatter.padding[dim].0 as usize;
            source[dim] = (padded - 2) / scatter.strides[dim] + 1;
        }
    }
    let source = generator.value(DType::F32, &source);
    let initial = generator.value(DType::F32, &[]);
    let select = generator.builder.program.add_region();
    let arguments = [0, 1].map(|_| generator.builder.program.add_region_argument(select, Type::scalar(DType::F32)));
    let verdict = generator
        .builder
        .inside(select, |builder| builder.compare(Direction::GreaterOrEqual, arguments[0], arguments[1]));
    generator.builder.program.regions[select].results = vec![verdict];
    let add = generator.builder.reducer(Binary::Add, DType::F32);
    let op = Op::SelectAndScatter(Box::new(scatter));
    let value = generator.one(op, &[entry.value, source.value, initial.value], &[select, add]);
    push_reduced(generator, value, Binary::Add, &[source, initial], 4);
}

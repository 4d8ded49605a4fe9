//! Ops that move elements about.

use meshwright::program::{Algorithm, DType, Dims, Op, Shape, Type};

use crate::generator::{Generator, Quality};

pub(crate) fn broadcast(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(0);
    let dims = generator.dims(entry);
    // The operand's dimensions go to some of the result's, in any order.
    let rank = (dims.len() + generator.random.below(3)).clamp(1, 4).max(dims.len());
    let mut shape = generator.shape(rank);
    let places: Vec<usize> = generator.random.permutation(rank).into_iter().take(dims.len()).collect();
    for (&place, &size) in places.iter().zip(&dims) {
        let stretches = size == 1 && generator.random.chance(50);
        shape[place] = if stretches { shape[place] } else { size };
    }
    let value = generator.builder.broadcast(entry.value, &shape, &places);
    generator.push_moved(value, &[entry]);
}

/// Splits and merges of dimensions, sizes that agree nowhere, and dimensions of size 1.
pub(crate) fn reshape(generator: &mut Generator, variant: usize) {
    let groups: &[&[usize]] = &[
        &[2, 3, 4],
        &[4, 6],
        &[6, 4],
        &[24],
        &[8, 3],
        &[3, 8],
        &[2, 12],
        &[1, 24, 1],
        &[2, 2, 6],
        &[4, 1, 6],
        &[12, 2],
        &[3, 2, 2, 2],
        &[6, 2, 2],
    ];
    let dtype = generator.float_type();
    let from = generator.random.pick(groups);
    let to = groups[variant % groups.len()];
    // Another dimension before or behind shows that the rest is not disturbed.
    let extra = generator.random.pick(&[1, 2, 3, 4, 5]);
    let place = |shape: &[usize], first: bool| match first {
        true => [&[extra], shape].concat(),
        false => [shape, &[extra]].concat(),
    };
    let first = generator.random.chance(50);
    let entry = generator.value(dtype, &place(from, first));
    // It may change sides as well, which fits together almost nowhere.
    let same_side = generator.random.chance(80);
    let value = generator.builder.reshape(entry.value, &place(to, first == same_side));
    generator.push_moved(value, &[entry]);
}

pub(crate) fn transpose(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(2);
    let order = generator.random.permutation(generator.dims(entry).len());
    let value = generator.one(Op::Transpose { permutation: Dims::from_slice(&order) }, &[entry.value], &[]);
    generator.push_moved(value, &[entry]);
}

pub(crate) fn concatenate(generator: &mut Generator, _: usize) {
    let first = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(first), generator.dims(first));
    let dim = generator.random.below(dims.len());
    let mut entries = vec![first];
    for _ in 0..1 + generator.random.below(2) {
        let mut other = dims.clone();
        if generator.random.chance(50) {
            other[dim] = 1 + generator.random.below(4);
        }
        entries.push(generator.value(dtype, &other));
    }
    let values: Vec<_> = entries.iter().map(|entry| entry.value).collect();
    let value = generator.builder.concatenate(&values, dim);
    generator.push_moved(value, &entries);
}

pub(crate) fn pad(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let padding = generator.value(dtype, &[]);
    let (mut low, mut high, mut interior) = (vec![0; dims.len()], vec![0; dims.len()], vec![0; dims.len()]);
    for dim in 0..dims.len() {
        if generator.random.chance(50) {
            low[dim] = generator.random.between(-1, 2);
            high[dim] = generator.random.between(-1, 2);
            interior[dim] = generator.random.between(0, 2);
        }
        let size = dims[dim] as i64 + (dims[dim] as i64 - 1) * interior[dim] + low[dim] + high[dim];
        if size < 1 {
            (low[dim], high[dim]) = (0, 0);
        }
    }
    let value = generator.builder.pad(entry.value, padding.value, &low, &high, &interior);
    generator.push_moved(value, &[entry, padding]);
}

pub(crate) fn slice(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(1);
    let dims = generator.dims(entry);
    let (mut start, mut limit, mut strides) = (vec![0; dims.len()], dims.clone(), vec![1; dims.len()]);
    for dim in 0..dims.len() {
        if generator.random.chance(40) {
            start[dim] = generator.random.below(dims[dim]);
            limit[dim] = start[dim] + 1 + generator.random.below(dims[dim] - start[dim]);
            strides[dim] = 1 + generator.random.below(2);
        }
    }
    let value = generator.builder.slice(entry.value, &start, &limit, &strides);
    generator.push_moved(value, &[entry]);
}

pub(crate) fn reverse(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(1);
    let rank = generator.dims(entry).len();
    let dims: Dims = (0..rank).filter(|_| generator.random.chance(50)).collect();
    let value = generator.one(Op::Reverse { dims }, &[entry.value], &[]);
    generator.push_moved(value, &[entry]);
}

/// Where slices begin: scalars that may lie outside.
fn starts(generator: &mut Generator, rank: usize) -> Vec<meshwright::program::ValueId> {
    let dtype = generator.random.pick(&[DType::I32, DType::I32, DType::I64, DType::U32]);
    (0..rank).map(|_| generator.value(dtype, &[]).value).collect()
}

pub(crate) fn dynamic_slice(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(1);
    let dims = generator.dims(entry);
    let sizes: Shape = dims
        .iter()
        .map(|&size| if generator.random.chance(50) { size } else { 1 + generator.random.below(size) })
        .collect();
    let mut operands = vec![entry.value];
    operands.extend(starts(generator, dims.len()));
    let value = generator.one(Op::DynamicSlice { sizes }, &operands, &[]);
    generator.push_moved(value, &[entry]);
}

pub(crate) fn dynamic_update_slice(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let sizes: Vec<usize> = dims
        .iter()
        .map(|&size| if generator.random.chance(50) { size } else { 1 + generator.random.below(size) })
        .collect();
    let update = generator.value(dtype, &sizes);
    let mut operands = vec![entry.value, update.value];
    operands.extend(starts(generator, dims.len()));
    let value = generator.one(Op::DynamicUpdateSlice, &operands, &[]);
    generator.push_moved(value, &[entry, update]);
}

/// A constant beside something that is cut.
pub(crate) fn constant(generator: &mut Generator, variant: usize) {
    let entry = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let constant = generator.constant(dtype, &dims);
    let constant = if variant.is_multiple_of(2) { constant } else { generator.bounded(constant, 0.0, 2.0) };
    let value = generator.builder.times(entry.value, constant.value);
    let quality = crate::generator::joined(&[entry, constant]);
    generator.push(value, quality, entry.bound * constant.bound);
}

pub(crate) fn iota(generator: &mut Generator, _: usize) {
    let dtype = generator.random.pick(&[DType::F32, DType::I32, DType::I64, DType::U32]);
    let entry = generator.any(dtype, 1);
    let dims = generator.dims(entry);
    let dim = generator.random.below(dims.len());
    let positions = generator.builder.iota(&Type::new(dtype, &dims), dim);
    let value = generator.builder.plus(entry.value, positions);
    generator.push(value, entry.quality, entry.bound + 10.0);
}

pub(crate) fn random_bits(generator: &mut Generator, _: usize) {
    let state = generator.value(DType::U64, &[2]);
    let shape = generator.shape(2);
    let dtype = generator.random.pick(&[DType::U32, DType::U8]);
    let ty = Box::new(Type::new(dtype, &shape));
    let op = Op::RngBitGenerator { algorithm: Algorithm::ThreeFry, ty };
    let results = generator.builder.op(op, &[state.value], &[]);
    generator.push(results[1], Quality::Grid, 1.0);
    let number = generator.builder.convert(results[1], DType::F32);
    generator.push(number, Quality::Grid, 2f64.powi(32));
}

pub(crate) fn barrier(generator: &mut Generator, _: usize) {
    let (first, second) = (generator.any_float(1), generator.any_float(1));
    let results = generator.builder.barrier(&[first.value, second.value]);
    generator.push_moved(results[0], &[first]);
    generator.push_moved(results[1], &[second]);
}

//! Branches and loops.

use meshwright::program::{Binary, DType, Direction, Op, RegionId, Shape, Type, Unary, ValueId};

use crate::generator::{Entry, Generator, Quality};
use crate::kinds::random_op;

/// Regions in regions in regions say nothing new.
const MAXIMUM_DEPTH: usize = 2;

pub(crate) fn branch(generator: &mut Generator, variant: usize) {
    if generator.depth >= MAXIMUM_DEPTH {
        return;
    }
    let types: Vec<Type> = (0..1 + generator.random.below(2))
        .map(|_| {
            let entry = generator.any(DType::F32, 1);
            generator.builder.ty(entry.value)
        })
        .collect();
    let (op, chooser, branches) = if variant.is_multiple_of(2) {
        (Op::If, generator.value(DType::Bool, &[]), 2)
    } else {
        (Op::Case, generator.value(DType::I32, &[]), 1 + generator.random.below(3))
    };
    let regions: Vec<RegionId> =
        (0..branches).map(|_| generator.region(&[], |generator, _| branch_results(generator, &types))).collect();
    let results = generator.builder.op(op, &[chooser.value], &regions);
    for &result in &results {
        generator.push(result, Quality::Rough, 1.0);
    }
}

/// What a branch computes. Bounded, because nobody outside knows which branch was taken.
fn branch_results(generator: &mut Generator, types: &[Type]) -> Vec<ValueId> {
    for _ in 0..generator.random.below(3) {
        random_op(generator);
    }
    types.iter().map(|ty| settled(generator, ty)).collect()
}

/// A value of the type with numbers up to one.
fn settled(generator: &mut Generator, ty: &Type) -> ValueId {
    let entry = generator.value(ty.dtype, &ty.shape);
    generator.builder.unary(Unary::Tanh, entry.value)
}

/// A loop with a counter, a carried value, one that no trip changes, a stack that is read and one
/// that is written.
pub(crate) fn repeat(generator: &mut Generator, variant: usize) {
    if generator.depth >= MAXIMUM_DEPTH {
        return;
    }
    let trips = 1 + generator.random.below(3);
    let rank = 1 + generator.random.below(2);
    let item = generator.shape(rank);
    let stack: Vec<usize> = [&[trips], item.as_slice()].concat();
    let carried = generator.value(DType::F32, &item);
    let carried = generator.bounded(carried, 0.0, 1.0);
    let (invariant, read) = (generator.value(DType::F32, &item), generator.value(DType::F32, &stack));
    let written = generator.constant(DType::F32, &stack);
    let start = generator.builder.scalar(DType::I32, 0.0);
    // Some loops count up to what nobody knows beforehand.
    let limit = if variant.is_multiple_of(3) { unknown_limit(generator, trips) } else { None };
    let entries = [(start, Quality::Grid, 1.0)]
        .into_iter()
        .chain([carried, read, written].map(|entry| (entry.value, entry.quality, entry.bound)))
        .chain([(invariant.value, invariant.quality, invariant.bound)]);
    let mut operands = Vec::new();
    let mut arguments = Vec::new();
    for (value, quality, bound) in entries {
        operands.push(value);
        let changes = arguments.len() == 1 || arguments.len() == 3;
        let quality = if changes { Quality::Rough } else { quality };
        arguments.push((generator.builder.ty(value), quality, bound.max(1.0)));
    }
    let condition = condition(generator, &arguments, trips, limit);
    let body = generator.region(&arguments, |generator, entries| trip(generator, entries, &item));
    let results = generator.builder.op(Op::While, &operands, &[condition, body]);
    generator.push(results[1], Quality::Rough, 1.0);
    generator.push(results[2], read.quality, read.bound);
    generator.push(results[3], Quality::Rough, written.bound.max(1.0));
    generator.push(results[4], invariant.quality, invariant.bound);
}

/// At most as many trips as the stacks have slices.
fn unknown_limit(generator: &mut Generator, trips: usize) -> Option<ValueId> {
    let entry = generator.any(DType::I32, 1);
    let dims: Vec<usize> = (0..generator.dims(entry).len()).collect();
    let smallest = generator.builder.reduce(Binary::Minimum, entry.value, 9.0, &dims);
    let (low, high) = (generator.builder.scalar(DType::I32, 0.0), generator.builder.scalar(DType::I32, trips as f64));
    Some(generator.one(Op::Clamp, &[low, smallest, high], &[]))
}

fn condition(
    generator: &mut Generator,
    arguments: &[(Type, Quality, f64)],
    trips: usize,
    limit: Option<ValueId>,
) -> RegionId {
    generator.region(arguments, |generator, entries| {
        let limit = limit.unwrap_or_else(|| generator.builder.scalar(DType::I32, trips as f64));
        vec![generator.builder.compare(Direction::Less, entries[0].value, limit)]
    })
}

fn trip(generator: &mut Generator, entries: &[Entry], item: &[usize]) -> Vec<ValueId> {
    let [counter, carried, read, written, invariant] = [0, 1, 2, 3, 4].map(|index| entries[index].value);
    let zero = generator.builder.scalar(DType::I32, 0.0);
    let mut starts = vec![counter];
    starts.extend(item.iter().map(|_| zero));
    let mut sizes = Shape::from_slice(&[1]);
    sizes.extend(item.iter().copied());
    let operands: Vec<ValueId> = [read].into_iter().chain(starts.iter().copied()).collect();
    let slice = generator.one(Op::DynamicSlice { sizes: sizes.clone() }, &operands, &[]);
    let slice = generator.builder.reshape(slice, item);
    generator.push(slice, entries[2].quality, entries[2].bound);
    for _ in 0..generator.random.below(3) {
        random_op(generator);
    }
    let sum = generator.builder.plus(carried, slice);
    let scaled = generator.builder.times(sum, invariant);
    generator.push(scaled, Quality::Rough, 16.0);
    let next = settled(generator, &Type::new(DType::F32, item));
    let shown = settled(generator, &Type::new(DType::F32, item));
    let shown = generator.builder.reshape(shown, &sizes);
    let operands: Vec<ValueId> = [written, shown].into_iter().chain(starts).collect();
    let written = generator.one(Op::DynamicUpdateSlice, &operands, &[]);
    let one = generator.builder.scalar(DType::I32, 1.0);
    vec![generator.builder.plus(counter, one), next, read, written, invariant]
}

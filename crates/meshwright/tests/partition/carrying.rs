//! Chains that can carry what is partial: a reduction, then ops that can do without its end.

use meshwright::program::{
    Binary, Convolution, DType, Dims, Op, Scatter, Shape, TransposeA, TriangularSolve, Type, Unary,
};

use smallvec::SmallVec;

use crate::generator::{Entry, Generator, Quality, joined};
use crate::reducing::push_reduced;

/// The reductions a chain may begin with.
const REDUCTIONS: [(Binary, DType); 8] = [
    (Binary::Add, DType::F32),
    (Binary::Maximum, DType::F32),
    (Binary::Minimum, DType::I32),
    (Binary::Multiply, DType::F32),
    (Binary::And, DType::Bool),
    (Binary::Or, DType::Bool),
    (Binary::Or, DType::I32),
    (Binary::Add, DType::I32),
];

pub(crate) fn chain(generator: &mut Generator, variant: usize) {
    // Sums are by far the most common.
    let (binary, dtype) = REDUCTIONS[if variant < 24 { 0 } else { variant % 8 }];
    let rank = 1 + generator.random.below(3);
    let shape = generator.shape(rank);
    let mut entry = reduced(generator, binary, dtype, &shape);
    for _ in 0..1 + generator.random.below(5) {
        entry = link(generator, entry, binary);
    }
}

/// A value of the shape that may come out partial.
fn reduced(generator: &mut Generator, binary: Binary, dtype: DType, shape: &[usize]) -> Entry {
    let size = generator.random.pick(&[2, 4, 6, 3]);
    if binary == Binary::Add && generator.random.chance(50) {
        return product(generator, dtype, shape, size);
    }
    let dim = generator.random.below(shape.len() + 1);
    let mut whole = shape.to_vec();
    whole.insert(dim, size);
    let entry = generator.value(dtype, &whole);
    let entry = if binary == Binary::Multiply && dtype.is_float() { generator.bounded(entry, 1.0, 0.5) } else { entry };
    let initial = generator.value(dtype, &[]);
    let initial =
        if binary == Binary::Multiply && dtype.is_float() { generator.bounded(initial, 1.0, 0.5) } else { initial };
    let region = generator.builder.reducer(binary, dtype);
    let op = Op::Reduce { dims: Dims::from_slice(&[dim]) };
    let value = generator.one(op, &[entry.value, initial.value], &[region]);
    push_reduced(generator, value, binary, &[entry, initial], size);
    generator.pool[generator.pool.len() - 1]
}

/// A matrix product of the shape.
fn product(generator: &mut Generator, dtype: DType, shape: &[usize], size: usize) -> Entry {
    let left_rank = generator.random.below(shape.len() + 1);
    let left: Vec<usize> = shape[..left_rank].iter().copied().chain([size]).collect();
    let right: Vec<usize> = [size].into_iter().chain(shape[left_rank..].iter().copied()).collect();
    let (left, right) = (generator.value(dtype, &left), generator.value(dtype, &right));
    let value = generator.builder.matmul(left.value, right.value);
    let quality = if joined(&[left, right]) == Quality::Grid { Quality::Grid } else { Quality::Rough };
    generator.push(value, quality, left.bound * right.bound * size as f64)
}

/// Something to stand beside a value: as partial as it may be, or whole.
fn partner(generator: &mut Generator, binary: Binary, dtype: DType, shape: &[usize]) -> Entry {
    match generator.random.below(3) {
        0 => generator.constant(dtype, shape),
        1 => generator.value(dtype, shape),
        _ => reduced(generator, binary, dtype, shape),
    }
}

/// One op that reads the value and does not always need it finished.
fn link(generator: &mut Generator, entry: Entry, binary: Binary) -> Entry {
    let dtype = generator.dtype(entry);
    match generator.random.below(if dtype == DType::F32 && binary == Binary::Add { 15 } else { 8 }) {
        0..=4 => moved(generator, entry, binary),
        5 => with_partner(generator, entry, binary),
        6 => reduced_again(generator, entry, binary),
        7 => chosen(generator, entry, binary),
        8 => scaled(generator, entry),
        9 => contracted(generator, entry),
        10 => {
            let value = generator.builder.unary(Unary::Negate, entry.value);
            generator.push_moved(value, &[entry])
        }
        11 => {
            // What is whole may also become something that a sum of parts cannot.
            let choices = [DType::BF16, DType::F64, DType::Bool, DType::U8];
            let dtype = generator.random.pick(if entry.quality == Quality::Grid { &choices } else { &choices[..2] });
            let there = generator.one(Op::Convert { dtype }, &[entry.value], &[]);
            let value = generator.one(Op::Convert { dtype: DType::F32 }, &[there], &[]);
            generator.push_moved(value, &[entry])
        }
        12 => scattered(generator, entry),
        13 => convolved(generator, entry),
        _ => solved(generator, entry),
    }
}

fn moved(generator: &mut Generator, entry: Entry, binary: Binary) -> Entry {
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let rank = dims.len();
    let dim = generator.random.below(rank);
    match generator.random.below(8) {
        0 => {
            let permutation = Dims::from_slice(&generator.random.permutation(rank));
            let value = generator.one(Op::Transpose { permutation }, &[entry.value], &[]);
            generator.push_moved(value, &[entry])
        }
        1 => {
            let elements = dims.iter().product();
            let value = generator.builder.reshape(entry.value, &[1, elements]);
            generator.push_moved(value, &[entry])
        }
        2 if rank < 4 => {
            let mut shape = dims.clone();
            shape.insert(dim, generator.random.pick(&[2, 3, 4]));
            let value = generator.builder.broadcast_along(entry.value, &shape, dim);
            generator.push_moved(value, &[entry])
        }
        3 => {
            let value = generator.one(Op::Reverse { dims: Dims::from_slice(&[dim]) }, &[entry.value], &[]);
            generator.push_moved(value, &[entry])
        }
        4 => {
            let limit = 1 + generator.random.below(dims[dim]);
            let value = generator.builder.slice_dim(entry.value, dim, 0, limit);
            generator.push_moved(value, &[entry])
        }
        5 => {
            let padding = generator.value(dtype, &[]);
            let (mut low, none) = (vec![0; rank], vec![0; rank]);
            low[dim] = 1;
            let value = generator.builder.pad(entry.value, padding.value, &low, &none, &none);
            generator.push_moved(value, &[entry, padding])
        }
        6 => {
            let other = partner(generator, binary, dtype, &dims);
            let value = generator.builder.concatenate(&[entry.value, other.value], dim);
            generator.push_moved(value, &[entry, other])
        }
        _ => {
            let mut sizes = Shape::from_slice(&dims);
            sizes[dim] = 1;
            let mut operands = vec![entry.value];
            operands.extend((0..rank).map(|_| generator.value(DType::I32, &[]).value));
            let value = generator.one(Op::DynamicSlice { sizes: sizes.clone() }, &operands, &[]);
            let slice = generator.push_moved(value, &[entry]);
            // The other way round: a slice written into something of the same kind.
            let target = partner(generator, binary, dtype, &dims);
            operands[0] = slice.value;
            operands.insert(0, target.value);
            let value = generator.one(Op::DynamicUpdateSlice, &operands, &[]);
            generator.push_moved(value, &[slice, target])
        }
    }
}

/// Two values joined by the op that their reduction repeats.
fn with_partner(generator: &mut Generator, entry: Entry, binary: Binary) -> Entry {
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let other = partner(generator, binary, dtype, &dims);
    let binary = if binary == Binary::Add && generator.random.chance(30) { Binary::Subtract } else { binary };
    let value = generator.builder.binary(binary, entry.value, other.value);
    push_reduced(generator, value, binary, &[entry, other], 1);
    generator.pool[generator.pool.len() - 1]
}

fn reduced_again(generator: &mut Generator, entry: Entry, binary: Binary) -> Entry {
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    if dims.len() < 2 {
        return with_partner(generator, entry, binary);
    }
    let initial = generator.value(dtype, &[]);
    let region = generator.builder.reducer(binary, dtype);
    let dim = generator.random.below(dims.len());
    let op = Op::Reduce { dims: Dims::from_slice(&[dim]) };
    let value = generator.one(op, &[entry.value, initial.value], &[region]);
    push_reduced(generator, value, binary, &[entry, initial], dims[dim]);
    generator.pool[generator.pool.len() - 1]
}

fn chosen(generator: &mut Generator, entry: Entry, binary: Binary) -> Entry {
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let other = partner(generator, binary, dtype, &dims);
    let predicate = if generator.random.chance(50) { vec![] } else { dims };
    let predicate = generator.value(DType::Bool, &predicate);
    let (first, second) = if generator.random.chance(50) { (entry, other) } else { (other, entry) };
    let value = generator.builder.select(predicate.value, first.value, second.value);
    generator.push_moved(value, &[entry, other])
}

fn scaled(generator: &mut Generator, entry: Entry) -> Entry {
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let factor = partner(generator, Binary::Add, dtype, &dims);
    if generator.random.chance(40) {
        let divisor = generator.bounded(factor, 2.0, 0.9);
        let value = generator.builder.over(entry.value, divisor.value);
        return generator.push(value, Quality::Rough, entry.bound);
    }
    let (left, right) = if generator.random.chance(50) { (entry, factor) } else { (factor, entry) };
    let value = generator.builder.times(left.value, right.value);
    generator.push(value, joined(&[entry, factor]), entry.bound * factor.bound)
}

/// A product with the value as one of its sides.
fn contracted(generator: &mut Generator, entry: Entry) -> Entry {
    let dims = generator.dims(entry);
    let last = dims[dims.len() - 1];
    let size = generator.random.pick(&[2, 3, 4]);
    let other = generator.value(DType::F32, &[last, size]);
    let contract: [&[usize]; 2] = [&[dims.len() - 1], &[0]];
    let value = if generator.random.chance(50) {
        generator.builder.dot(entry.value, other.value, [&[], &[]], contract, DType::F32)
    } else {
        generator.builder.dot(other.value, entry.value, [&[], &[]], [contract[1], contract[0]], DType::F32)
    };
    let quality = if joined(&[entry, other]) == Quality::Grid { Quality::Grid } else { Quality::Rough };
    generator.push(value, quality, entry.bound * other.bound * last as f64)
}

fn convolved(generator: &mut Generator, entry: Entry) -> Entry {
    let elements = generator.dims(entry).iter().product();
    let image = generator.builder.reshape(entry.value, &[1, elements, 1]);
    let outputs = generator.random.pick(&[1, 2, 3]);
    let kernel = generator.value(DType::F32, &[2, 1, outputs]);
    let convolution = Convolution {
        strides: Shape::from_slice(&[1]),
        padding: SmallVec::from_slice(&[(1, 0)]),
        lhs_dilation: Shape::from_slice(&[1]),
        rhs_dilation: Shape::from_slice(&[1]),
        reversal: SmallVec::from_slice(&[false]),
        input_batch: 0,
        input_feature: 2,
        input_spatial: Dims::from_slice(&[1]),
        kernel_input_feature: 1,
        kernel_output_feature: 2,
        kernel_spatial: Dims::from_slice(&[0]),
        output_batch: 0,
        output_feature: 2,
        output_spatial: Dims::from_slice(&[1]),
        feature_groups: 1,
        batch_groups: 1,
        precision: SmallVec::new(),
        dtype: DType::F32,
    };
    let value = generator.builder.convolution(image, kernel.value, convolution);
    let quality = if joined(&[entry, kernel]) == Quality::Grid { Quality::Grid } else { Quality::Rough };
    generator.push(value, quality, entry.bound * kernel.bound * 2.0)
}

/// Rows looked up, and added into a table.
fn scattered(generator: &mut Generator, entry: Entry) -> Entry {
    let dims = generator.dims(entry);
    let count = generator.random.pick(&[2, 3, 4]);
    let indices = generator.value(DType::I32, &[count]);
    let rows = generator.builder.take_rows(entry.value, indices.value);
    let quality = if entry.quality == Quality::Grid { Quality::Grid } else { Quality::Rough };
    let rows = generator.push(rows, quality, entry.bound);
    let table = partner(generator, Binary::Add, DType::F32, &dims);
    let indices = generator.value(DType::I32, &[count, 1]);
    let scatter = Scatter {
        update_window_dims: (1..dims.len()).collect(),
        inserted_window_dims: Dims::from_slice(&[0]),
        input_batching_dims: Dims::new(),
        scatter_indices_batching_dims: Dims::new(),
        scatter_dims_to_operand_dims: Dims::from_slice(&[0]),
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
    };
    let value = generator.builder.scatter_add(table.value, indices.value, rows.value, scatter);
    push_reduced(generator, value, Binary::Add, &[table, rows], count);
    generator.pool[generator.pool.len() - 1]
}

fn solved(generator: &mut Generator, entry: Entry) -> Entry {
    let dims = generator.dims(entry);
    let right = generator.builder.reshape(entry.value, &[dims[0], dims[1..].iter().product()]);
    let ty = Type::new(DType::F32, &[dims[0], dims[0]]);
    let matrix = generator.value(DType::F32, &ty.shape);
    let matrix = generator.bounded(matrix, 0.0, 0.5);
    let solve = TriangularSolve { left_side: true, lower: true, unit_diagonal: true, transpose_a: TransposeA::None };
    let value = generator.one(Op::TriangularSolve(solve), &[matrix.value, right], &[]);
    generator.push(value, Quality::Rough, entry.bound * 1.5f64.powi(dims[0] as i32))
}

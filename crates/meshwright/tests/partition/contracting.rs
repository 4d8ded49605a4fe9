//! Products of matrices, convolutions, attention, normalizations and triangular matrices.

use meshwright::program::{
    Attention, AttentionGrad, BatchNorm, Convolution, DType, Dims, Direction, DotGeneral, Op, Shape, TransposeA,
    TriangularSolve, Type, ValueId,
};
use smallvec::SmallVec;

use crate::generator::{Entry, Generator, Quality, joined};

pub(crate) fn dot(generator: &mut Generator, variant: usize) {
    let dtype = generator.float_type();
    let batches = variant % 3;
    let contracting = [1, 2, 1, 0][variant % 4];
    let sizes = |generator: &mut Generator, count: usize| -> Vec<usize> {
        (0..count).map(|_| generator.random.pick(&[1, 2, 3, 4, 4, 5, 6, 8])).collect()
    };
    let shared = sizes(generator, batches + contracting);
    let (free_left, free_right) = (generator.random.below(3 - batches.min(2)), generator.random.below(2));
    let (left_free, right_free) = (sizes(generator, free_left), sizes(generator, free_right));
    // Dimensions stand in any order.
    let mut place = |shared: &[usize], free: &[usize]| -> (Vec<usize>, Vec<usize>) {
        let sizes: Vec<usize> = shared.iter().chain(free).copied().collect();
        let order = generator.random.permutation(sizes.len());
        let shape = order.iter().map(|&from| sizes[from]).collect();
        let places = (0..shared.len()).map(|dim| order.iter().position(|&from| from == dim).unwrap_or(0)).collect();
        (shape, places)
    };
    let (left_shape, left_places) = place(&shared, &left_free);
    let (right_shape, right_places) = place(&shared, &right_free);
    let (left, right) = (generator.value(dtype, &left_shape), generator.value(dtype, &right_shape));
    let dot = DotGeneral {
        lhs_batch: Dims::from_slice(&left_places[..batches]),
        rhs_batch: Dims::from_slice(&right_places[..batches]),
        lhs_contract: Dims::from_slice(&left_places[batches..]),
        rhs_contract: Dims::from_slice(&right_places[batches..]),
        precision: SmallVec::new(),
        dtype: if dtype == DType::BF16 && generator.random.chance(50) { DType::F32 } else { dtype },
    };
    let value = generator.one(Op::DotGeneral(Box::new(dot)), &[left.value, right.value], &[]);
    let summed: usize = shared[batches..].iter().product();
    generator.push(value, summable(&[left, right]), left.bound * right.bound * summed as f64);
}

/// The quality of sums of products.
fn summable(entries: &[Entry]) -> Quality {
    if joined(entries) == Quality::Grid { Quality::Grid } else { Quality::Rough }
}

pub(crate) fn convolution(generator: &mut Generator, variant: usize) {
    let random = &mut generator.random;
    let spatial = 1 + random.below(2);
    let (feature_groups, batch_groups) = [(1, 1), (2, 1), (1, 2), (4, 1), (1, 3), (3, 1)][variant % 6];
    let batch = batch_groups * random.pick(&[1, 2, 3, 4]);
    let kernel_features = random.pick(&[1, 2, 3, 4]);
    let groups = feature_groups * batch_groups;
    let outputs = groups * random.pick(&[1, 2, 3]);
    let mut pick = |choices: &[usize]| -> Vec<usize> { (0..spatial).map(|_| random.pick(choices)).collect() };
    let (image, window) = (pick(&[3, 4]), pick(&[1, 2, 3]));
    let (strides, lhs_dilation, rhs_dilation) = (pick(&[1, 1, 2]), pick(&[1, 1, 2]), pick(&[1, 1, 2]));
    let padding = window.iter().zip(&rhs_dilation).map(|(&size, &dilation)| {
        let reach = ((size - 1) * dilation) as i64;
        (reach, if generator.random.chance(80) { 0 } else { 1 })
    });
    let padding: SmallVec<[(i64, i64); 3]> = padding.collect();
    let reversal = (0..spatial).map(|_| generator.random.chance(20)).collect();
    let [input_order, kernel_order, output_order] = [0; 3].map(|_| generator.random.permutation(spatial + 2));
    let convolution = Convolution {
        strides: Shape::from_slice(&strides),
        padding,
        lhs_dilation: Shape::from_slice(&lhs_dilation),
        rhs_dilation: Shape::from_slice(&rhs_dilation),
        reversal,
        input_batch: input_order[0],
        input_feature: input_order[1],
        input_spatial: Dims::from_slice(&input_order[2..]),
        kernel_input_feature: kernel_order[0],
        kernel_output_feature: kernel_order[1],
        kernel_spatial: Dims::from_slice(&kernel_order[2..]),
        output_batch: output_order[0],
        output_feature: output_order[1],
        output_spatial: Dims::from_slice(&output_order[2..]),
        feature_groups,
        batch_groups,
        precision: SmallVec::new(),
        dtype: DType::F32,
    };
    let shape = |order: &[usize], first: usize, second: usize, rest: &[usize]| {
        let mut shape = vec![0; order.len()];
        let sizes = [first, second].into_iter().chain(rest.iter().copied());
        order.iter().zip(sizes).for_each(|(&dim, size)| shape[dim] = size);
        shape
    };
    let input = shape(&input_order, batch, feature_groups * kernel_features, &image);
    let kernel = shape(&kernel_order, kernel_features, outputs, &window);
    let (input, kernel) = (generator.value(DType::F32, &input), generator.value(DType::F32, &kernel));
    let value = generator.builder.convolution(input.value, kernel.value, convolution);
    let summed = kernel_features * window.iter().product::<usize>();
    generator.push(value, summable(&[input, kernel]), input.bound * kernel.bound * summed as f64);
}

/// The operands of an attention.
struct Inputs {
    values: Vec<ValueId>,
    scale: f64,
    causal: bool,
    bias: bool,
    /// A bias of numbers has a gradient.
    float_bias: bool,
}

fn attention_inputs(generator: &mut Generator, variant: usize) -> Inputs {
    let random = &mut generator.random;
    let (batch, groups, repeats) = (random.pick(&[1, 2, 3]), random.pick(&[1, 2, 3, 4]), random.pick(&[1, 1, 2]));
    let (queries, keys) = (random.pick(&[1, 2, 3, 4, 6]), random.pick(&[1, 2, 4, 5]));
    let (width, depth) = (random.pick(&[1, 2]), random.pick(&[1, 2]));
    let heads = groups * repeats;
    let shapes = [[batch, heads, queries, width], [batch, groups, keys, width], [batch, groups, keys, depth]];
    let mut values: Vec<ValueId> = Vec::new();
    for shape in shapes {
        let entry = generator.value(DType::F32, &shape);
        values.push(generator.bounded(entry, 0.0, 2.0).value);
    }
    let bias = !variant.is_multiple_of(4);
    let float_bias = variant % 4 >= 2;
    if bias {
        let scores = [batch, heads, queries, keys];
        let shape: Vec<usize> = scores.iter().map(|&size| if generator.random.chance(40) { 1 } else { size }).collect();
        let dtype = if float_bias { DType::F32 } else { DType::Bool };
        let entry = generator.value(dtype, &shape);
        values.push(if float_bias { generator.bounded(entry, 0.0, 2.0).value } else { entry.value });
    }
    Inputs { values, scale: 0.5, causal: variant / 4 % 2 == 1, bias, float_bias }
}

pub(crate) fn attention(generator: &mut Generator, variant: usize) {
    let Inputs { values, scale, causal, bias, .. } = attention_inputs(generator, variant);
    let statistics = generator.random.chance(50);
    let attention = Attention { scale, causal, bias, statistics };
    let results = generator.builder.attention(&values, attention);
    generator.push(results[0], Quality::Rough, 3.0);
    if statistics {
        // A query that sees nothing has a statistic of minus infinity, with which nobody can go on.
        let finite = generator.builder.unary(meshwright::program::Unary::Exponential, results[1]);
        generator.push(finite, Quality::Rough, 1e4);
    }
}

pub(crate) fn attention_grad(generator: &mut Generator, variant: usize) {
    let Inputs { mut values, scale, causal, bias, float_bias } = attention_inputs(generator, variant);
    let attention = Attention { scale, causal, bias, statistics: true };
    let forward = generator.builder.attention(&values, attention);
    let shape = generator.builder.shape(forward[0]);
    let gradient = generator.value(DType::F32, &shape);
    values.extend([forward[0], forward[1], generator.bounded(gradient, 0.0, 2.0).value]);
    let grad = AttentionGrad { scale, causal, bias, bias_gradient: float_bias && generator.random.chance(70) };
    let results = generator.builder.op(Op::AttentionGrad(Box::new(grad)), &values, &[]);
    for &result in &results {
        generator.push(result, Quality::Rough, 1e4);
    }
}

fn norm(generator: &mut Generator) -> (Entry, BatchNorm, usize) {
    let entry = generator.any(DType::F32, 2);
    let dims = generator.dims(entry);
    let feature_dim = generator.random.below(dims.len());
    (generator.bounded(entry, 0.0, 3.0), BatchNorm { epsilon: 0.125, feature_dim }, dims[feature_dim])
}

pub(crate) fn batch_norm_training(generator: &mut Generator, _: usize) {
    let (input, norm, features) = norm(generator);
    let mut operands = vec![input.value];
    for _ in 0..2 {
        let entry = generator.value(DType::F32, &[features]);
        operands.push(generator.bounded(entry, 1.0, 2.0).value);
    }
    let results = generator.builder.op(Op::BatchNormTraining(norm), &operands, &[]);
    for &result in &results {
        generator.push(result, Quality::Rough, 100.0);
    }
}

pub(crate) fn batch_norm_inference(generator: &mut Generator, _: usize) {
    let (input, norm, features) = norm(generator);
    let mut operands = vec![input.value];
    for middle in [1.0, 0.0, 0.0, 4.0] {
        let entry = generator.value(DType::F32, &[features]);
        operands.push(generator.bounded(entry, middle, 2.0).value);
    }
    let value = generator.one(Op::BatchNormInference(norm), &operands, &[]);
    generator.push(value, Quality::Rough, 100.0);
}

pub(crate) fn batch_norm_grad(generator: &mut Generator, _: usize) {
    let (input, norm, features) = norm(generator);
    let shape = generator.dims(input);
    let mut operands = vec![input.value];
    for middle in [1.0, 0.0, 4.0] {
        let entry = generator.value(DType::F32, &[features]);
        operands.push(generator.bounded(entry, middle, 2.0).value);
    }
    let gradient = generator.value(DType::F32, &shape);
    operands.push(generator.bounded(gradient, 0.0, 2.0).value);
    let results = generator.builder.op(Op::BatchNormGrad(norm), &operands, &[]);
    for &result in &results {
        generator.push(result, Quality::Rough, 1e4);
    }
}

/// A number on the diagonal, zeros elsewhere.
fn diagonal(generator: &mut Generator, ty: &Type, number: f64) -> ValueId {
    let builder = &mut generator.builder;
    let positions = ty.with_dtype(DType::I32);
    let rank = ty.rank();
    let (row, column) = (builder.iota(&positions, rank - 2), builder.iota(&positions, rank - 1));
    let is_diagonal = builder.compare(Direction::Equal, row, column);
    let (on, off) = (builder.full(ty, number), builder.full(ty, 0.0));
    builder.select(is_diagonal, on, off)
}

fn batches(generator: &mut Generator) -> Vec<usize> {
    let rank = 1 + generator.random.below(2);
    (0..rank).map(|_| generator.random.pick(&[2, 3, 4])).collect()
}

pub(crate) fn cholesky(generator: &mut Generator, variant: usize) {
    let mut shape = batches(generator);
    let rank = shape.len();
    let size = generator.random.pick(&[1, 2, 3]);
    shape.extend([size, size]);
    let entry = generator.value(DType::F32, &shape);
    let root = generator.bounded(entry, 0.0, 2.0);
    let batch: Vec<usize> = (0..rank).collect();
    let contract: [&[usize]; 2] = [&[rank + 1], &[rank + 1]];
    let square = generator.builder.dot(root.value, root.value, [&batch, &batch], contract, DType::F32);
    let shift = diagonal(generator, &Type::new(DType::F32, &shape), 1.0);
    let matrix = generator.builder.plus(square, shift);
    let value = generator.one(Op::Cholesky { lower: variant.is_multiple_of(2) }, &[matrix], &[]);
    generator.push(value, Quality::Rough, 10.0);
}

pub(crate) fn triangular_solve(generator: &mut Generator, variant: usize) {
    let batches = batches(generator);
    let (size, sides) = (generator.random.pick(&[1, 2, 3]), generator.random.pick(&[1, 2, 3, 4]));
    let left_side = variant.is_multiple_of(2);
    let matrix: Vec<usize> = batches.iter().copied().chain([size, size]).collect();
    let (rows, columns) = if left_side { (size, sides) } else { (sides, size) };
    let right: Vec<usize> = batches.iter().copied().chain([rows, columns]).collect();
    let entry = generator.value(DType::F32, &matrix);
    let entry = generator.bounded(entry, 0.0, 1.0);
    let shift = diagonal(generator, &Type::new(DType::F32, &matrix), 3.0);
    let matrix = generator.builder.plus(entry.value, shift);
    let right = generator.value(DType::F32, &right);
    let solve = TriangularSolve {
        left_side,
        lower: generator.random.chance(50),
        unit_diagonal: generator.random.chance(30),
        transpose_a: generator.random.pick(&[TransposeA::None, TransposeA::Transpose]),
    };
    let value = generator.one(Op::TriangularSolve(solve), &[matrix, right.value], &[]);
    generator.push(value, Quality::Rough, right.bound * 8.0);
}

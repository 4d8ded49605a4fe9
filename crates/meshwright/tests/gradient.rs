//! Gradients of every op that has one, against finite differences in `f64`.

use meshwright::interpret::{Data, Options, Tensor, evaluate};
use meshwright::models::gradient::gradients;
use meshwright::program::{
    Attention, BatchNorm, Binary, Builder, Convolution, DType, Dims, Direction, Gather, Op, Order, Scatter, Type,
    Unary, ValueId, Window,
};
use smallvec::{SmallVec, smallvec};

/// Builds a function of tensors of these shapes, differentiates a weighted sum of its result by all
/// of them, and compares with central differences.
#[track_caller]
fn check(shapes: &[&[usize]], range: (f64, f64), build: impl Fn(&mut Builder, &[ValueId]) -> ValueId) {
    let mut builder = Builder::new("gradient");
    let inputs: Vec<ValueId> = shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| builder.argument(format!("x.{index}"), Type::new(DType::F64, shape)))
        .collect();
    let value = build(&mut builder, &inputs);
    let loss = weighted_sum(&mut builder, value);
    let found = gradients(&mut builder, loss, &inputs).expect("the op has a gradient");
    builder.result("loss", loss);
    found.iter().enumerate().for_each(|(index, &gradient)| builder.result(format!("gradient.{index}"), gradient));
    let program = builder.finish().expect("the operands fit").compact();
    program.verify().expect("the program with its gradient is well formed");

    let run = |values: &[Vec<f64>]| -> Vec<Tensor> {
        let arguments: Vec<Tensor> = values
            .iter()
            .zip(shapes)
            .map(|(values, shape)| Tensor { ty: Type::new(DType::F64, shape), data: Data::Float(values.clone()) })
            .collect();
        evaluate(&program, &arguments, Options { wide: true }).expect("the program can be evaluated").results
    };
    let floats = |tensor: &Tensor| match &tensor.data {
        Data::Float(values) => values.clone(),
        _ => panic!("a gradient is a float"),
    };
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut values: Vec<Vec<f64>> = shapes
        .iter()
        .map(|shape| (0..shape.iter().product()).map(|_| range.0 + (range.1 - range.0) * next(&mut random)).collect())
        .collect();
    let analytic: Vec<Vec<f64>> = run(&values)[1..].iter().map(floats).collect();
    let step = 1e-5;
    for input in 0..shapes.len() {
        for element in 0..values[input].len() {
            let original = values[input][element];
            values[input][element] = original + step;
            let above = floats(&run(&values)[0])[0];
            values[input][element] = original - step;
            let below = floats(&run(&values)[0])[0];
            values[input][element] = original;
            let numeric = (above - below) / (2.0 * step);
            let difference = (numeric - analytic[input][element]).abs();
            assert!(
                difference <= 1e-8 * (1.0 + numeric.abs()),
                "input {input} element {element}: {} by rule, {numeric} by differences",
                analytic[input][element]
            );
        }
    }
}

/// Weights that differ from element to element, so that no two errors cancel.
fn weighted_sum(builder: &mut Builder, value: ValueId) -> ValueId {
    let ty = builder.ty(value);
    let dims: Dims = (0..ty.rank()).collect();
    let mut weighted = value;
    for &dim in &dims {
        let position = builder.iota(&ty, dim);
        let weight = builder.times_number(position, 0.37 + 0.1 * dim as f64);
        let weight = builder.plus_number(weight, 0.5);
        weighted = builder.times(weighted, weight);
    }
    builder.sum(weighted, &dims)
}

fn next(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn elementwise_ops_of_one_operand() {
    let everywhere = [
        Unary::Abs,
        Unary::Asinh,
        Unary::Atan,
        Unary::Cosh,
        Unary::Cosine,
        Unary::Erf,
        Unary::Erfc,
        Unary::Exponential,
        Unary::ExponentialMinusOne,
        Unary::Logistic,
        Unary::Negate,
        Unary::Sine,
        Unary::Sinh,
        Unary::Square,
        Unary::Tan,
        Unary::Tanh,
    ];
    for unary in everywhere {
        check(&[&[2, 3]], (-1.2, 1.2), |b, x| b.unary(unary, x[0]));
    }
    let positive =
        [Unary::Cbrt, Unary::Digamma, Unary::Lgamma, Unary::Log, Unary::LogPlusOne, Unary::Rsqrt, Unary::Sqrt];
    for unary in positive {
        check(&[&[2, 3]], (0.5, 2.5), |b, x| b.unary(unary, x[0]));
    }
    for unary in [Unary::Acos, Unary::Asin, Unary::Atanh, Unary::ErfInv] {
        check(&[&[2, 3]], (-0.8, 0.8), |b, x| b.unary(unary, x[0]));
    }
    check(&[&[2, 3]], (1.2, 3.0), |b, x| b.unary(Unary::Acosh, x[0]));
    for flat in [Unary::Ceil, Unary::Floor, Unary::RoundNearestAfz, Unary::RoundNearestEven, Unary::Sign] {
        check(&[&[5]], (-3.0, 3.0), |b, x| b.unary(flat, x[0]));
    }
}

#[test]
fn elementwise_ops_of_two_operands() {
    let kinds = [
        Binary::Add,
        Binary::Atan2,
        Binary::Divide,
        Binary::Maximum,
        Binary::Minimum,
        Binary::Multiply,
        Binary::Power,
        Binary::Remainder,
        Binary::Subtract,
    ];
    for binary in kinds {
        check(&[&[2, 3], &[2, 3]], (0.4, 2.0), |b, x| b.binary(binary, x[0], x[1]));
    }
    check(&[&[4]], (-1.0, 1.0), |b, x| b.times(x[0], x[0]));
}

#[test]
fn choices_and_conversions() {
    check(&[&[6], &[6]], (-1.0, 1.0), |b, x| {
        let larger = b.compare(Direction::Greater, x[0], x[1]);
        let doubled = b.times_number(x[0], 2.0);
        b.select(larger, doubled, x[1])
    });
    check(&[&[8]], (-2.0, 2.0), |b, x| {
        let (low, high) = (b.scalar(DType::F64, -1.0), b.scalar(DType::F64, 0.7));
        b.op(Op::Clamp, &[low, x[0], high], &[])[0]
    });
    check(&[&[3]], (-1.0, 1.0), |b, x| {
        let squared = b.times(x[0], x[0]);
        b.barrier(&[squared, x[0]])[0]
    });
}

#[test]
fn ops_that_move_elements() {
    check(&[&[3]], (-1.0, 1.0), |b, x| b.broadcast(x[0], &[2, 3, 4], &[1]));
    check(&[&[2, 3]], (-1.0, 1.0), |b, x| b.broadcast(x[0], &[3, 4, 2], &[2, 0]));
    check(&[&[1, 3]], (-1.0, 1.0), |b, x| b.broadcast(x[0], &[2, 3], &[0, 1]));
    check(&[&[2, 3]], (-1.0, 1.0), |b, x| b.reshape(x[0], &[3, 2]));
    check(&[&[2, 3, 4]], (-1.0, 1.0), |b, x| b.transpose(x[0], &[2, 0, 1]));
    check(&[&[2, 3]], (-1.0, 1.0), |b, x| b.op(Op::Reverse { dims: smallvec![1] }, x, &[])[0]);
    check(&[&[6, 5]], (-1.0, 1.0), |b, x| b.slice(x[0], &[1, 0], &[6, 4], &[2, 3]));
    check(&[&[2, 3], &[2, 2]], (-1.0, 1.0), |b, x| b.concatenate(&[x[0], x[1], x[0]], 1));
    check(&[&[4, 3], &[]], (-1.0, 1.0), |b, x| b.pad(x[0], x[1], &[1, 0], &[2, 1], &[0, 2]));
    check(&[&[4, 3], &[]], (-1.0, 1.0), |b, x| b.pad(x[0], x[1], &[-1, 2], &[1, -1], &[1, 0]));
    check(&[&[5, 3]], (-1.0, 1.0), |b, x| {
        let (row, column) = (b.scalar(DType::I32, 2.0), b.scalar(DType::I32, 1.0));
        b.op(Op::DynamicSlice { sizes: smallvec![2, 2] }, &[x[0], row, column], &[])[0]
    });
    check(&[&[5, 3], &[2, 2]], (-1.0, 1.0), |b, x| {
        let (row, column) = (b.scalar(DType::I32, 2.0), b.scalar(DType::I32, 1.0));
        b.op(Op::DynamicUpdateSlice, &[x[0], x[1], row, column], &[])[0]
    });
}

fn indices(b: &mut Builder, rows: &[f64]) -> ValueId {
    let entries: Vec<ValueId> = rows.iter().map(|&row| b.scalar(DType::I32, row)).collect();
    let entries: Vec<ValueId> = entries.into_iter().map(|entry| b.reshape(entry, &[1])).collect();
    b.concatenate(&entries, 0)
}

#[test]
fn ops_that_index() {
    check(&[&[4, 3]], (-1.0, 1.0), |b, x| {
        let rows = indices(b, &[1.0, 3.0, 1.0, 9.0, -2.0]);
        b.take_rows(x[0], rows)
    });
    // Two entries with limits of their own, one of them outside.
    check(&[&[4, 6]], (-1.0, 1.0), |b, x| {
        let places = indices(b, &[1.0, 4.0, 3.0, 5.0]);
        let places = b.reshape(places, &[2, 2]);
        let gather = Gather {
            offset_dims: smallvec![1],
            collapsed_slice_dims: smallvec![0],
            operand_batching_dims: Dims::new(),
            start_indices_batching_dims: Dims::new(),
            start_index_map: smallvec![0, 1],
            index_vector_dim: 1,
            slice_sizes: smallvec![1, 2],
            indices_are_sorted: false,
        };
        b.gather(x[0], places, gather)
    });
    let rows = |unique| Scatter {
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        input_batching_dims: Dims::new(),
        scatter_indices_batching_dims: Dims::new(),
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: unique,
    };
    check(&[&[4, 3], &[3, 3]], (-1.0, 1.0), |b, x| {
        let places = indices(b, &[2.0, 0.0, 2.0]);
        b.scatter_add(x[0], places, x[1], rows(false))
    });
    check(&[&[4, 3], &[2, 3]], (-1.0, 1.0), |b, x| {
        let places = indices(b, &[3.0, 1.0]);
        let region = b.program.add_region();
        b.program.add_region_argument(region, Type::scalar(DType::F64));
        let update = b.program.add_region_argument(region, Type::scalar(DType::F64));
        b.program.regions[region].results = vec![update];
        b.op(Op::Scatter(Box::new(rows(true))), &[x[0], places, x[1]], &[region])[0]
    });
    check(&[&[2, 6]], (-1.0, 1.0), |b, x| b.op(Op::TopK { k: 3 }, x, &[])[0]);
    check(&[&[5, 3], &[5, 3]], (-1.0, 1.0), |b, x| {
        let region = b.program.add_region();
        let arguments: Vec<ValueId> =
            (0..4).map(|_| b.program.add_region_argument(region, Type::scalar(DType::F64))).collect();
        let descending = Op::Compare { direction: Direction::Greater, order: Order::Natural };
        let result = b.inside(region, |b| b.op(descending, &arguments[..2], &[])[0]);
        b.program.regions[region].results = vec![result];
        let sorted = b.op(Op::Sort { dim: 0, stable: true }, x, &[region]);
        let doubled = b.times_number(sorted[1], 2.0);
        b.plus(sorted[0], doubled)
    });
}

#[test]
fn reductions() {
    check(&[&[2, 3, 4]], (-1.0, 1.0), |b, x| b.sum(x[0], &[0, 2]));
    check(&[&[2, 3, 4]], (-1.0, 1.0), |b, x| b.maximum(x[0], &[1]));
    check(&[&[2, 3]], (0.5, 1.5), |b, x| b.reduce(Binary::Multiply, x[0], 1.0, &[1]));
    check(&[&[2, 3]], (0.5, 1.5), |b, x| b.reduce(Binary::Minimum, x[0], f64::INFINITY, &[0]));
    let window = |strides: usize, base: usize, dilation: usize, padding: (i64, i64)| Window {
        sizes: smallvec![1, 3],
        strides: smallvec![1, strides],
        base_dilation: smallvec![1, base],
        window_dilation: smallvec![1, dilation],
        padding: smallvec![(0, 0), padding],
    };
    for window in [window(1, 1, 1, (0, 0)), window(2, 1, 1, (2, 1)), window(2, 2, 2, (3, 1)), window(3, 1, 1, (0, 0))] {
        check(&[&[2, 7]], (-1.0, 1.0), |b, x| {
            let zero = b.scalar(DType::F64, 0.0);
            let region = b.reducer(Binary::Add, DType::F64);
            b.op(Op::ReduceWindow(Box::new(window.clone())), &[x[0], zero], &[region])[0]
        });
    }
    for window in [window(1, 1, 1, (1, 1)), window(2, 1, 1, (0, 1))] {
        check(&[&[2, 7]], (-1.0, 1.0), |b, x| {
            let least = b.scalar(DType::F64, f64::NEG_INFINITY);
            let region = b.reducer(Binary::Maximum, DType::F64);
            b.op(Op::ReduceWindow(Box::new(window.clone())), &[x[0], least], &[region])[0]
        });
    }
}

#[test]
fn contractions() {
    check(&[&[2, 3, 4], &[4, 5]], (-1.0, 1.0), |b, x| b.matmul(x[0], x[1]));
    check(&[&[4, 2, 3, 5], &[5, 4, 3, 2, 2]], (-1.0, 1.0), |b, x| {
        b.dot(x[0], x[1], [&[1], &[3]], [&[3, 0], &[0, 1]], DType::F64)
    });
    check(&[&[3, 2], &[2, 3]], (-1.0, 1.0), |b, x| b.dot(x[0], x[1], [&[], &[]], [&[0, 1], &[1, 0]], DType::F64));
}

fn convolution(strides: usize, padding: (i64, i64), lhs: usize, rhs: usize, groups: [usize; 2]) -> Convolution {
    Convolution {
        strides: smallvec![strides, 1],
        padding: smallvec![padding, (0, 1)],
        lhs_dilation: smallvec![lhs, 1],
        rhs_dilation: smallvec![rhs, 1],
        reversal: smallvec![false, false],
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: smallvec![0, 1],
        output_batch: 0,
        output_feature: 3,
        output_spatial: smallvec![1, 2],
        feature_groups: groups[0],
        batch_groups: groups[1],
        precision: SmallVec::new(),
        dtype: DType::F64,
    }
}

#[test]
fn convolutions() {
    let plain: [&[usize]; 2] = [&[2, 5, 4, 2], &[3, 2, 2, 4]];
    for op in [
        convolution(1, (0, 0), 1, 1, [1, 1]),
        convolution(2, (1, 1), 1, 1, [1, 1]),
        convolution(2, (2, 0), 1, 2, [1, 1]),
        convolution(1, (1, 2), 2, 1, [1, 1]),
        convolution(3, (0, 1), 2, 2, [1, 1]),
        convolution(1, (-1, 2), 1, 1, [1, 1]),
    ] {
        check(&plain, (-1.0, 1.0), |b, x| b.convolution(x[0], x[1], op.clone()));
        let reversed = Convolution { reversal: smallvec![true, false], ..op };
        check(&plain, (-1.0, 1.0), |b, x| b.convolution(x[0], x[1], reversed.clone()));
    }
    // Groups of features: depthwise with two outputs per input.
    let grouped = convolution(2, (1, 1), 1, 1, [4, 1]);
    check(&[&[2, 5, 4, 4], &[3, 2, 1, 8]], (-1.0, 1.0), |b, x| b.convolution(x[0], x[1], grouped.clone()));
    let halves = convolution(1, (1, 1), 1, 1, [2, 1]);
    check(&[&[2, 4, 3, 6], &[3, 2, 3, 4]], (-1.0, 1.0), |b, x| b.convolution(x[0], x[1], halves.clone()));
    let batches = convolution(1, (1, 0), 1, 1, [1, 2]);
    check(&[&[4, 4, 3, 2], &[2, 2, 2, 6]], (-1.0, 1.0), |b, x| b.convolution(x[0], x[1], batches.clone()));
    // Other places for the dimensions: batch last, features first.
    let moved = Convolution {
        input_batch: 3,
        input_feature: 0,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: smallvec![3, 2],
        output_batch: 1,
        output_feature: 2,
        output_spatial: smallvec![0, 3],
        ..convolution(2, (1, 1), 1, 1, [1, 1])
    };
    check(&[&[2, 5, 4, 3], &[4, 2, 2, 3]], (-1.0, 1.0), |b, x| b.convolution(x[0], x[1], moved.clone()));
}

#[test]
fn attention_and_batch_norm() {
    for (causal, statistics) in [(false, false), (true, true)] {
        let attention = Attention { scale: 0.4, causal, bias: false, statistics };
        check(&[&[1, 4, 3, 2], &[1, 2, 3, 2], &[1, 2, 3, 3]], (-1.0, 1.0), |b, x| b.attention(x, attention.clone())[0]);
    }
    let biased = Attention { scale: 0.4, causal: false, bias: true, statistics: false };
    check(&[&[2, 2, 3, 2], &[2, 2, 4, 2], &[2, 2, 4, 2], &[1, 2, 3, 4]], (-1.0, 1.0), |b, x| {
        b.attention(x, biased.clone())[0]
    });
    let norm = BatchNorm { epsilon: 0.01, feature_dim: 1 };
    check(&[&[3, 2, 4], &[2], &[2]], (-1.0, 1.0), |b, x| b.op(Op::BatchNormTraining(norm), x, &[])[0]);
}

/// `while` from 0 below `trips`: `step` makes the next carried values from the counter and these.
fn counted_loop(
    b: &mut Builder,
    trips: f64,
    start: &[ValueId],
    step: impl FnOnce(&mut Builder, ValueId, &[ValueId]) -> Vec<ValueId>,
) -> Vec<ValueId> {
    let zero = b.scalar(DType::I32, 0.0);
    let mut operands = vec![zero];
    operands.extend(start);
    let types: Vec<Type> = operands.iter().map(|&value| b.ty(value)).collect();
    let [condition, body] = [(); 2].map(|()| b.program.add_region());
    let arguments = [condition, body].map(|region| -> Vec<ValueId> {
        types.iter().map(|ty| b.program.add_region_argument(region, ty.clone())).collect()
    });
    let goes_on = b.inside(condition, |b| {
        let limit = b.scalar(DType::I32, trips);
        b.compare(Direction::Less, arguments[0][0], limit)
    });
    b.program.regions[condition].results = vec![goes_on];
    let results = b.inside(body, |b| {
        let one = b.scalar(DType::I32, 1.0);
        let mut results = vec![b.plus(arguments[1][0], one)];
        results.extend(step(b, arguments[1][0], &arguments[1][1..]));
        results
    });
    b.program.regions[body].results = results;
    b.op(Op::While, &operands, &[condition, body])[1..].to_vec()
}

#[test]
fn loops() {
    // A recurrence with an invariant matrix, read through the loop and from around it.
    check(&[&[2, 3], &[3, 3]], (-0.8, 0.8), |b, x| {
        let results = counted_loop(b, 4.0, &[x[0], x[1]], |b, _, carried| {
            let product = b.matmul(carried[0], carried[1]);
            let other = b.matmul(carried[0], x[1]);
            let sum = b.plus(product, other);
            vec![b.unary(Unary::Tanh, sum), carried[1]]
        });
        results[0]
    });
    // Stacked inputs read one row a trip, stacked outputs written one row a trip.
    check(&[&[5, 3], &[3]], (-0.8, 0.8), |b, x| {
        let zeros = b.full_like(x[0], 0.0);
        let results = counted_loop(b, 5.0, &[x[1], x[0], zeros], |b, counter, carried| {
            let zero = b.scalar(DType::I32, 0.0);
            let row = b.op(Op::DynamicSlice { sizes: smallvec![1, 3] }, &[carried[1], counter, zero], &[])[0];
            let row = b.reshape(row, &[3]);
            let product = b.times(carried[0], row);
            let next = b.unary(Unary::Sine, product);
            let next = b.plus(next, row);
            let out = b.reshape(next, &[1, 3]);
            let stacked = b.op(Op::DynamicUpdateSlice, &[carried[2], out, counter, zero], &[])[0];
            vec![next, carried[1], stacked]
        });
        results[2]
    });
}

#[test]
fn branches() {
    for choice in [1.0, -1.0] {
        check(&[&[3], &[3]], (0.2, 1.0), |b, x| {
            let (value, zero) = (b.scalar(DType::F64, choice), b.scalar(DType::F64, 0.0));
            let predicate = b.compare(Direction::Greater, value, zero);
            let [on_true, on_false] = [(); 2].map(|()| b.program.add_region());
            let product = b.inside(on_true, |b| b.times(x[0], x[1]));
            b.program.regions[on_true].results = vec![product];
            b.program.regions[on_false].results = vec![x[1]];
            b.op(Op::If, &[predicate], &[on_true, on_false])[0]
        });
    }
}

#[test]
fn recomputed_blocks_have_the_same_gradient() {
    check(&[&[2, 3], &[3, 3], &[3, 3]], (-0.8, 0.8), |b, x| {
        let first = b.recomputed(|b| {
            let product = b.matmul(x[0], x[1]);
            b.unary(Unary::Tanh, product)
        });
        let between = b.plus(first, x[0]);
        b.recomputed(|b| {
            let product = b.matmul(between, x[2]);
            let bent = b.unary(Unary::Sine, product);
            b.times(bent, first)
        })
    });
}

#[test]
fn an_op_without_a_gradient_is_named() {
    let mut builder = Builder::new("refused");
    let x = builder.argument("x", Type::new(DType::F64, &[2, 2]));
    let factor = builder.scoped("layer", |b| b.op(Op::Cholesky { lower: true }, &[x], &[])[0]);
    let loss = builder.sum(factor, &[0, 1]);
    let problem = gradients(&mut builder, loss, &[x]).expect_err("a Cholesky factor has no gradient here");
    assert_eq!(problem, "`stablehlo.cholesky` has no gradient (in `layer/cholesky`)");
}

#[test]
fn what_the_loss_does_not_depend_on_has_a_gradient_of_zeros() {
    check(&[&[2], &[3]], (-1.0, 1.0), |_, x| x[0]);
}

/// Programs of random ops on random shapes, each value a function of some before it.
#[test]
fn random_programs() {
    let rounds = if std::env::var_os("LONG").is_some() { 2000 } else { 100 };
    for seed in 0u64..rounds {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D5DE_ECE6;
        let mut pick = |below: usize| (next(&mut random) * below as f64) as usize;
        let shapes = [vec![1 + pick(3), 1 + pick(4)], vec![1 + pick(3), 1 + pick(4)]];
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let choices: Vec<usize> = (0..64).map(|_| pick(1 << 16)).collect();
        check(&shapes, (-1.0, 1.0), |b, x| random_value(b, x, &choices));
    }
}

/// Adds eight ops to a pool of values; the last of them is the result. All are smooth where the
/// values are, so that differences tell the gradient.
fn random_value(b: &mut Builder, inputs: &[ValueId], choices: &[usize]) -> ValueId {
    let mut choices = choices.iter().copied();
    let mut pick = |below: usize| choices.next().map_or(0, |choice| choice % below);
    let mut pool = inputs.to_vec();
    for _ in 0..8 {
        let value = pool[pick(pool.len())];
        let shape = b.shape(value);
        let rank = shape.len();
        let made = match pick(12) {
            0 => b.unary(Unary::Tanh, value),
            1 => b.unary(Unary::Sine, value),
            2 => b.unary(Unary::Logistic, value),
            3 => {
                let same: Vec<ValueId> = pool.iter().copied().filter(|&other| b.shape(other) == shape).collect();
                let other = same[pick(same.len())];
                let kind = [Binary::Add, Binary::Multiply, Binary::Subtract][pick(3)];
                b.binary(kind, value, other)
            }
            4 => {
                let square = b.times(value, value);
                let divisor = b.plus_number(square, 1.5);
                b.over(value, divisor)
            }
            5 if rank > 0 => b.sum(value, &[pick(rank)]),
            6 if rank < 3 => {
                let mut wider = shape.to_vec();
                let place = pick(rank + 1);
                wider.insert(place, 2);
                b.broadcast_along(value, &wider, place)
            }
            7 if rank > 1 => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.rotate_left(1 + pick(rank - 1));
                b.transpose(value, &order)
            }
            8 => b.reshape(value, &[shape.iter().product()]),
            9 if rank > 0 => {
                let dim = pick(rank);
                let half = b.slice_dim(value, dim, 0, shape[dim].div_ceil(2));
                b.concatenate(&[half, value], dim)
            }
            10 if rank > 1 => {
                // Contracts a dimension with itself, the others against each other.
                let dim = pick(rank);
                let product = b.dot(value, value, [&[], &[]], [&[dim], &[dim]], DType::F64);
                let elements: usize = b.shape(product).iter().product();
                let flat = b.reshape(product, &[elements]);
                b.times_number(flat, 0.2)
            }
            11 if rank > 0 => {
                let zero = b.scalar(DType::F64, 0.0);
                let pads: Vec<i64> = (0..rank).map(|_| pick(3) as i64 - 1).collect();
                let fits = shape.iter().all(|&size| size > 1);
                let low = if fits { pads } else { vec![1; rank] };
                b.pad(value, zero, &low, &vec![1; rank], &vec![1; rank])
            }
            _ => b.unary(Unary::Cosine, value),
        };
        // Values that grow without end would leave nothing but rounding.
        let small = b.shape(made).iter().product::<usize>() <= 200;
        pool.push(if small { made } else { value });
    }
    pool.pop().unwrap_or(inputs[0])
}

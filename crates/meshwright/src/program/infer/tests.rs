//! How the tests of the sibling files say their cases, and what no input may do.

use super::*;
use crate::program::*;

/// Types are written as in `2x3xf32`, several with spaces between. A region is written as in
/// `f32 f32 -> f32`. What is expected are the result types, or `error: ` and the message.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better without a borrow")]
pub(super) fn check(op: Op, operands: &str, regions: &[&str], expected: &str) {
    let mut program = Program::new("test");
    let body = program.body;
    let values = |program: &mut Program, region, text: &str| -> Vec<ValueId> {
        text.split_whitespace().map(|text| program.add_region_argument(region, parse(text))).collect()
    };
    let operands = values(&mut program, body, operands);
    let mut ids = Vec::new();
    for text in regions {
        let (arguments, results) = text.split_once("->").expect("a region has an arrow");
        let region = program.add_region();
        values(&mut program, region, arguments);
        program.regions[region].results = values(&mut program, body, results);
        ids.push(region);
    }
    let actual = match infer(&program, &op, &operands, &ids) {
        Ok(types) => types.iter().map(short).collect::<Vec<_>>().join(" "),
        Err(message) => format!("error: {message}"),
    };
    assert_eq!(actual, expected);
}

fn parse(text: &str) -> Type {
    let mut rest = text;
    let mut shape = Shape::new();
    while let Some((size, after)) = rest.split_once('x') {
        let Ok(size) = size.parse() else { break };
        shape.push(size);
        rest = after;
    }
    let dtype = if rest == "token" { DType::Token } else { DType::from_name(rest).expect("an element type") };
    Type { dtype, shape }
}

fn short(ty: &Type) -> String {
    let text = ty.to_string();
    match text.strip_prefix("tensor<").and_then(|text| text.strip_suffix('>')) {
        Some(inner) => inner.to_owned(),
        None => "token".to_owned(),
    }
}

#[test]
fn ids_that_name_nothing_are_errors() {
    let program = Program::new("test");
    let no_value = infer(&program, &Op::Select, &[ValueId(7)], &[]);
    assert_eq!(no_value, Err("there is no value %7".to_owned()));
    let no_region = infer(&program, &Op::While, &[], &[RegionId(7)]);
    assert_eq!(no_region, Err("there is no region ^bb7".to_owned()));
}

#[test]
fn tensors_and_tokens_do_not_mix() {
    check(Op::Clamp, "token f32 f32", &[], "error: operand 0 is a token");
    check(Op::Convert { dtype: DType::Token }, "f32", &[], "error: result 0 is a token");
    check(Op::OptimizationBarrier, "2xtoken", &[], "error: a token has no dimensions, got 1");
    check(Op::Clamp, "f32 f32 f32", &["-> f32"], "error: expected no regions, got 1");
}

#[test]
fn types_stay_countable() {
    let huge = "4294967296x4294967296xf32";
    let message = format!("error: `tensor<{huge}>` has more elements than 63 bits can count");
    check(Op::Unary(Unary::Tanh), huge, &[], &message);
    let empty = "0x4294967296x4294967296xf32";
    let message = format!("error: the dimensions of `tensor<{empty}>` multiply to more than 2^60");
    check(Op::Unary(Unary::Tanh), empty, &[], &message);
}

/// Every op, with attributes at their extremes, on every combination of a few types: whatever the
/// answer, there is one.
#[test]
fn no_input_makes_infer_panic() {
    let mut program = Program::new("test");
    let body = program.body;
    let types = ["f32", "i32", "i1", "token", "0xf32", "3xui64", "1152921504606846976xi8", "2x2xf32", "2x3x0x4xf32"];
    let values: Vec<ValueId> = types.iter().map(|text| program.add_region_argument(body, parse(text))).collect();
    let empty = program.add_region();
    let scalar = program.add_region();
    program.add_region_argument(scalar, parse("f32"));
    program.add_region_argument(scalar, parse("f32"));
    program.regions[scalar].results = vec![values[0]];
    let mut tried = 0;
    for op in extreme_ops() {
        for regions in [&[][..], &[empty], &[scalar], &[scalar, empty], &[scalar, scalar]] {
            for count in 0..=7 {
                // Few enough operands are tried in all combinations, more in a rotation.
                let combinations = if count <= 2 { values.len().pow(count) } else { values.len() };
                for combination in 0..combinations {
                    let operand = |place: u32| match count {
                        0..=2 => values[combination / values.len().pow(place) % values.len()],
                        _ => values[(combination + place as usize * combination / 3) % values.len()],
                    };
                    let operands: Vec<ValueId> = (0..count).map(operand).collect();
                    let _ = infer(&program, &op, &operands, regions);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100_000, "{tried}");
}

/// Ops of every variant with attributes, each with lists that are empty, fitting, too long, out of
/// range and at the ends of their type.
fn extreme_ops() -> Vec<Op> {
    let lists: [&[usize]; 7] = [&[], &[0], &[1, 0], &[0, 0], &[usize::MAX], &[usize::MAX, 1], &[1, 1, 1, 1]];
    let paddings: [&[(i64, i64)]; 5] =
        [&[], &[(i64::MIN, i64::MAX)], &[(i64::MAX, i64::MAX), (1, 1)], &[(1 << 60, 1 << 60)], &[(-1, -1); 4]];
    let dtypes = [DType::F32, DType::Token, DType::Complex64, DType::U2];
    let numbers = [0, 1, 2, usize::MAX];
    let collective =
        || Collective { groups: vec![vec![0, i64::MAX], vec![]].into(), channel: i64::MAX, global_ids: true };
    let transfer =
        |channel_type| Transfer { channel: -1, channel_type, is_host_transfer: true, result_types: Vec::new() };
    let solve = TriangularSolve { left_side: true, lower: true, unit_diagonal: true, transpose_a: TransposeA::Adjoint };
    let mut ops = vec![
        Op::AfterAll,
        Op::AllReduce(Box::new(collective())),
        Op::Case,
        Op::Check(Check::Equal),
        Op::Cholesky { lower: true },
        Op::Clamp,
        Op::CollectiveBroadcast(Box::new(collective())),
        Op::CollectivePermute(Box::new(CollectivePermute { pairs: vec![(i64::MIN, i64::MAX)], channel: 0 })),
        Op::Complex,
        Op::DynamicUpdateSlice,
        Op::If,
        Op::Map,
        Op::OptimizationBarrier,
        Op::PartitionId,
        Op::ReducePrecision { exponent_bits: u32::MAX, mantissa_bits: u32::MAX },
        Op::ReplicaId,
        Op::Recv(Box::new(transfer(3))),
        Op::Select,
        Op::Send(Box::new(transfer(2))),
        Op::TriangularSolve(solve),
        Op::While,
    ];
    for (bias, other) in [(false, false), (false, true), (true, false), (true, true)] {
        let (scale, causal) = (f64::NAN, true);
        ops.push(Op::Attention(Box::new(Attention { scale, causal, bias, statistics: other })));
        ops.push(Op::AttentionGrad(Box::new(AttentionGrad { scale, causal, bias, bias_gradient: other })));
    }
    ops.extend(Unary::ALL.iter().map(|&unary| Op::Unary(unary)));
    ops.extend(Binary::ALL.iter().map(|&binary| Op::Binary(binary)));
    ops.extend(Order::ALL.iter().map(|&order| Op::Compare { direction: Direction::Equal, order }));
    for dtype in dtypes {
        let ty = Type::new(dtype, &[usize::MAX, 2]);
        ops.push(Op::BitcastConvert { dtype });
        ops.push(Op::Convert { dtype });
        ops.push(Op::Constant(Box::new(Literal::splat(ty.clone(), 0))));
        ops.push(Op::Infeed(Box::new(Feed { config: String::new(), result_types: vec![ty.clone()] })));
        ops.push(Op::Iota { dim: 1, ty: Box::new(ty.clone()) });
        ops.push(Op::RngBitGenerator { algorithm: Algorithm::Default, ty: Box::new(ty) });
    }
    for number in numbers {
        let norm = BatchNorm { epsilon: f32::NAN, feature_dim: number };
        ops.extend([Op::BatchNormGrad(norm), Op::BatchNormInference(norm), Op::BatchNormTraining(norm)]);
        ops.extend([Op::Concatenate { dim: number }, Op::Sort { dim: number, stable: true }, Op::TopK { k: number }]);
        for dim in [0, 1, usize::MAX] {
            ops.push(Op::AllGather(Box::new(AllGather { dim, factor: number, collective: collective() })));
            ops.push(Op::ReduceScatter(Box::new(ReduceScatter { dim, factor: number, collective: collective() })));
            let (split_dim, concat_dim) = (dim, 0);
            let exchange = AllToAll { split_dim, concat_dim, split_count: number, collective: collective() };
            ops.push(Op::AllToAll(Box::new(exchange)));
        }
    }
    for list in lists {
        let dims = || Dims::from_slice(list);
        ops.push(Op::DynamicSlice { sizes: dims() });
        ops.extend(FftKind::ALL.iter().map(|&kind| Op::Fft { kind, lengths: dims() }));
        ops.push(Op::Reduce { dims: dims() });
        ops.push(Op::Reshape { shape: dims() });
        ops.push(Op::Reverse { dims: dims() });
        ops.push(Op::Rng { distribution: Distribution::Uniform, shape: dims() });
        ops.push(Op::Transpose { permutation: dims() });
        for integer in [i64::MIN, -1, 0, 1 << 60, i64::MAX] {
            let integers: SmallVec<[i64; 4]> = list.iter().map(|_| integer).collect();
            let (low, high, interior) = (integers.clone(), integers.clone(), integers);
            ops.push(Op::Pad(Box::new(Pad { low, high, interior })));
        }
        for other in lists {
            let other = || Dims::from_slice(other);
            ops.push(Op::BroadcastInDim(Box::new(BroadcastInDim { shape: dims(), dims: other() })));
            ops.push(Op::Slice(Box::new(Slice { start: other(), limit: dims(), strides: other() })));
            for dtype in dtypes {
                ops.push(Op::DotGeneral(Box::new(DotGeneral {
                    lhs_batch: dims(),
                    rhs_batch: other(),
                    lhs_contract: other(),
                    rhs_contract: dims(),
                    precision: SmallVec::new(),
                    dtype,
                })));
            }
            for number in numbers {
                ops.push(Op::Gather(Box::new(Gather {
                    offset_dims: dims(),
                    collapsed_slice_dims: other(),
                    operand_batching_dims: Dims::new(),
                    start_indices_batching_dims: other(),
                    start_index_map: dims(),
                    index_vector_dim: number,
                    slice_sizes: other(),
                    indices_are_sorted: false,
                })));
                ops.push(Op::Scatter(Box::new(Scatter {
                    update_window_dims: dims(),
                    inserted_window_dims: other(),
                    input_batching_dims: Dims::new(),
                    scatter_indices_batching_dims: Dims::new(),
                    scatter_dims_to_operand_dims: dims(),
                    index_vector_dim: number,
                    indices_are_sorted: false,
                    unique_indices: false,
                })));
            }
            for padding in paddings {
                ops.push(Op::ReduceWindow(Box::new(Window {
                    sizes: dims(),
                    strides: other(),
                    base_dilation: dims(),
                    window_dilation: other(),
                    padding: SmallVec::from_slice(padding),
                })));
                let padding = SmallVec::from_slice(padding);
                let scatter = SelectAndScatter { window: dims(), strides: other(), padding };
                ops.push(Op::SelectAndScatter(Box::new(scatter)));
            }
            for padding in paddings {
                ops.push(Op::Convolution(Box::new(Convolution {
                    strides: dims(),
                    padding: SmallVec::from_slice(padding),
                    lhs_dilation: other(),
                    rhs_dilation: other(),
                    reversal: SmallVec::new(),
                    input_batch: 0,
                    input_feature: 1,
                    input_spatial: dims(),
                    kernel_input_feature: 1,
                    kernel_output_feature: 0,
                    kernel_spatial: other(),
                    output_batch: 1,
                    output_feature: 0,
                    output_spatial: dims(),
                    feature_groups: list.len(),
                    batch_groups: 1,
                    precision: SmallVec::new(),
                    dtype: DType::F32,
                })));
            }
        }
    }
    ops
}

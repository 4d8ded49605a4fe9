//! Whole programs, made by hand. Expected values are jax's or numpy's unless a case says otherwise.

use crate::program::{
    Argument, Attention, AttentionGrad, BatchNorm, Binary, Check, Collective, CustomCall, DType, Direction, Literal,
    LocationId, Op, Order, Program, ResultInfo, Type, Unary, ValueId,
};

use super::{Data, Evaluation, Options, Tensor, evaluate};

const HERE: LocationId = Program::UNKNOWN_LOCATION;

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor { ty: Type::new(DType::F32, shape), data: Data::Float(values.to_vec()) }
}

fn integers(dtype: DType, values: &[i64]) -> Tensor {
    Tensor { ty: Type::new(dtype, &[values.len()]), data: Data::Integer(values.to_vec()) }
}

/// Evaluates one op.
#[track_caller]
fn run(op: Op, arguments: &[Tensor], types: &[Type]) -> Vec<Data> {
    let (program, _) = program_of(op, arguments, types);
    let evaluation = evaluate(&program, arguments, Options { wide: false }).unwrap();
    evaluation.results.into_iter().map(|tensor| tensor.data).collect()
}

fn program_of(op: Op, arguments: &[Tensor], types: &[Type]) -> (Program, Vec<ValueId>) {
    let mut program = Program::new("test");
    let values: Vec<ValueId> =
        arguments.iter().map(|tensor| program.add_argument(Argument::default(), tensor.ty.clone())).collect();
    let id = program.add_op_with_types(program.body, op, &values, &[], types.iter().cloned(), HERE);
    for value in program.ops[id].results.clone() {
        program.add_result(value, ResultInfo::default());
    }
    (program, values)
}

#[track_caller]
fn close(actual: &Data, expected: &[f64]) {
    let Data::Float(actual) = actual else { panic!("{actual:?} are not floats") };
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(expected) {
        assert!((actual - expected).abs() < 1e-5, "{actual} is not {expected}");
    }
}

#[test]
fn integers_divide_as_xla_does() {
    let left = integers(DType::I32, &[7, -7, i64::from(i32::MIN), 5, -5]);
    let right = integers(DType::I32, &[0, 0, -1, -2, 2]);
    let (arguments, types) = ([left.clone(), right], [left.ty]);
    let quotient = run(Op::Binary(Binary::Divide), &arguments, &types);
    assert_eq!(quotient, [Data::Integer(vec![-1, -1, i64::from(i32::MIN), -2, -2])]);
    let remainder = run(Op::Binary(Binary::Remainder), &arguments, &types);
    assert_eq!(remainder, [Data::Integer(vec![7, -7, 0, 1, -1])]);
}

#[test]
fn integer_powers_wrap_and_negative_exponents_leave_little() {
    let left = integers(DType::I8, &[2, -1, 1, 0, 3, -2]);
    let right = integers(DType::I8, &[-1, -3, -2, -1, 5, 7]);
    let power = run(Op::Binary(Binary::Power), &[left.clone(), right], &[left.ty]);
    assert_eq!(power, [Data::Integer(vec![0, -1, 1, 0, -13, -128])]);
}

#[test]
fn shifts_by_the_width_or_more_shift_everything_out() {
    let left = integers(DType::U8, &[255, 255, 128]);
    let right = integers(DType::U8, &[3, 8, 200]);
    let (arguments, types) = ([left.clone(), right], [left.ty]);
    assert_eq!(run(Op::Binary(Binary::ShiftLeft), &arguments, &types), [Data::Integer(vec![248, 0, 0])]);
    assert_eq!(run(Op::Binary(Binary::ShiftRightLogical), &arguments, &types), [Data::Integer(vec![31, 0, 0])]);
    assert_eq!(run(Op::Binary(Binary::ShiftRightArithmetic), &arguments, &types), [Data::Integer(vec![255, 255, 255])]);
}

#[test]
fn booleans_add_as_or_and_multiply_as_and() {
    let left = integers(DType::Bool, &[0, 0, 1, 1]);
    let right = integers(DType::Bool, &[0, 1, 0, 1]);
    let (arguments, types) = ([left.clone(), right], [left.ty]);
    assert_eq!(run(Op::Binary(Binary::Add), &arguments, &types), [Data::Integer(vec![0, 1, 1, 1])]);
    assert_eq!(run(Op::Binary(Binary::Multiply), &arguments, &types), [Data::Integer(vec![0, 0, 0, 1])]);
    assert_eq!(run(Op::Unary(Unary::Not), &arguments[..1], &types), [Data::Integer(vec![1, 1, 0, 0])]);
}

#[test]
fn attention_masks_and_shares_groups() {
    // Two heads share one group; the first query sees one key, the second both.
    let query = floats(&[1, 2, 2, 1], &[1.0, 1.0, 0.0, 2.0]);
    let key = floats(&[1, 1, 2, 1], &[0.0, 1.0]);
    let value = floats(&[1, 1, 2, 1], &[10.0, 20.0]);
    let op = Op::Attention(Box::new(Attention { scale: 1.0, causal: true, bias: false, statistics: false }));
    let types = [Type::new(DType::F32, &[1, 2, 2, 1])];
    let result = run(op, &[query, key, value], &types);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    close(&result[0], &[10.0, 10.0 + 10.0 * sigmoid(1.0), 10.0, 10.0 + 10.0 * sigmoid(2.0)]);
}

#[test]
fn attention_and_its_gradient_agree_with_jax() {
    let query = floats(&[1, 2, 2, 2], &[1.0, -2.0, 0.5, 1.0, -1.0, 0.5, 2.0, 1.0]);
    let key = floats(&[1, 1, 3, 2], &[1.0, 0.0, 0.5, -1.0, 2.0, 1.0]);
    let value = floats(&[1, 1, 3, 1], &[1.0, -2.0, 3.0]);
    let bias = floats(&[1, 2, 1, 3], &[0.5, -1.0, 0.0, 1.0, 0.0, -0.5]);
    let output = floats(&[1, 2, 2, 1], &[0.0375361, 1.9194051, 0.1931757, 1.7464842]);
    let statistics = floats(&[1, 2, 2], &[1.386871, 1.6269087, 0.8132617, 2.7586237]);
    let output_gradient = floats(&[1, 2, 2, 1], &[1.0, 2.0, -1.0, 0.5]);
    let input_types = [&query, &key, &value, &bias].map(|tensor| tensor.ty.clone());
    let output_types = [&output, &statistics].map(|tensor| tensor.ty.clone());
    let (scale, causal) = (0.5, true);
    let inputs = [query, key, value, bias];

    let attention = Op::Attention(Box::new(Attention { scale, causal, bias: true, statistics: true }));
    let results = run(attention, &inputs, &output_types);
    close(&results[0], output.floats().unwrap());
    close(&results[1], statistics.floats().unwrap());

    let grad = Op::AttentionGrad(Box::new(AttentionGrad { scale, causal, bias: true, bias_gradient: true }));
    let operands: Vec<Tensor> = inputs.into_iter().chain([output, statistics, output_gradient]).collect();
    let gradients = run(grad, &operands, &input_types);
    let query = [0.1634212, 0.3268425, 0.6746796, 0.7720614, -0.1474589, -0.2949179, 0.1764397, 0.2061207];
    close(&gradients[0], &query);
    close(&gradients[1], &[0.2557001, -1.2710748, -0.8378663, 0.5470183, 0.5821662, 0.7240565]);
    close(&gradients[2], &[1.0144096, 0.1829536, 1.3026368]);
    close(&gradients[3], &[-0.1113835, -1.0432122, 1.1545957, -0.764629, 0.4711117, 0.2935173]);
}

#[test]
fn batch_norm_follows_the_examples_of_the_specification() {
    let input = floats(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 1.0, 2.0]);
    let ones = floats(&[2], &[1.0, 1.0]);
    let norm = BatchNorm { epsilon: 0.0, feature_dim: 2 };
    let (whole, feature) = (input.ty.clone(), ones.ty.clone());
    let types = [whole.clone(), feature.clone(), feature.clone()];
    let training = run(Op::BatchNormTraining(norm), &[input.clone(), ones.clone(), ones.clone()], &types);
    close(&training[0], &[0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0]);
    close(&training[1], &[2.0, 3.0]);
    close(&training[2], &[1.0, 1.0]);
    let mean = floats(&[2], &[2.0, 3.0]);
    let arguments = [input.clone(), ones.clone(), ones.clone(), mean.clone(), ones.clone()];
    close(&run(Op::BatchNormInference(norm), &arguments, &[whole])[0], &[0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0]);
    let gradient = floats(&[2, 2, 2], &[0.1; 8]);
    let gradients = run(Op::BatchNormGrad(norm), &[input, ones.clone(), mean, ones, gradient], &types);
    close(&gradients[0], &[0.0; 8]);
    close(&gradients[1], &[0.0, 0.0]);
    close(&gradients[2], &[0.4, 0.4]);
}

#[test]
fn a_loop_updates_its_tensor_once_per_step() {
    // i from 0 to 4: row i of the carried tensor becomes i.
    let mut program = Program::new("test");
    let (index_type, tensor_type) = (Type::scalar(DType::I32), Type::new(DType::I32, &[4]));
    let start = program.add_argument(Argument::default(), index_type.clone());
    let tensor = program.add_argument(Argument::default(), tensor_type.clone());
    let flag = Type::scalar(DType::Bool);
    let condition = program.add_region();
    let index = program.add_region_argument(condition, index_type.clone());
    program.add_region_argument(condition, tensor_type.clone());
    let constant = |program: &mut Program, region, value: f64| {
        let literal = Literal::splat_number(index_type.clone(), value);
        let id =
            program.add_op_with_types(region, Op::Constant(Box::new(literal)), &[], &[], [index_type.clone()], HERE);
        program.ops[id].results[0]
    };
    let limit = constant(&mut program, condition, 4.0);
    let compare = Op::Compare { direction: Direction::Less, order: Order::Signed };
    let id = program.add_op_with_types(condition, compare, &[index, limit], &[], [flag], HERE);
    program.regions[condition].results = program.ops[id].results.to_vec();
    let body = program.add_region();
    let index = program.add_region_argument(body, index_type.clone());
    let carried = program.add_region_argument(body, tensor_type.clone());
    let one = constant(&mut program, body, 1.0);
    let reshape = Op::Reshape { shape: smallvec::smallvec![1] };
    let id = program.add_op_with_types(body, reshape, &[index], &[], [Type::new(DType::I32, &[1])], HERE);
    let row = program.ops[id].results[0];
    let operands = [carried, row, index];
    let id = program.add_op_with_types(body, Op::DynamicUpdateSlice, &operands, &[], [tensor_type.clone()], HERE);
    let updated = program.ops[id].results[0];
    let id = program.add_op_with_types(body, Op::Binary(Binary::Add), &[index, one], &[], [index_type.clone()], HERE);
    program.regions[body].results = vec![program.ops[id].results[0], updated];
    let types = [index_type.clone(), tensor_type];
    let id = program.add_op_with_types(program.body, Op::While, &[start, tensor], &[condition, body], types, HERE);
    program.add_result(program.ops[id].results[1], ResultInfo::default());
    let start = Tensor::zeros(&index_type);
    let evaluation = evaluate(&program, &[start, integers(DType::I32, &[9; 4])], Options { wide: false }).unwrap();
    assert_eq!(evaluation.results[0].data, Data::Integer(vec![0, 1, 2, 3]));
}

#[test]
fn what_has_no_meaning_says_so() {
    let check = |op: Op, argument: Tensor, expected: &str| {
        let types = [argument.ty.clone()];
        let (program, _) = program_of(op, std::slice::from_ref(&argument), &types);
        assert_eq!(evaluate(&program, &[argument], Options { wide: false }).unwrap_err().message, expected);
    };
    let complex = Tensor::zeros(&Type::new(DType::Complex64, &[2]));
    let negate = Op::Unary(Unary::Negate);
    check(negate.clone(), complex, "arithmetic on `complex<f32>` is not supported by the interpreter");
    let small = Tensor::zeros(&Type::new(DType::F8E4M3FN, &[2]));
    check(negate, small, "arithmetic on `f8E4M3FN` is not supported by the interpreter");
    let call = CustomCall {
        target: "mine".to_owned(),
        has_side_effect: false,
        result_types: vec![Type::scalar(DType::F32)],
        attributes: Vec::new(),
        rule: None,
    };
    check(Op::CustomCall(Box::new(call)), floats(&[], &[1.0]), "custom call `mine` has no meaning here");
    let collective = Collective { groups: vec![vec![0, 1]].into(), channel: 0, global_ids: false };
    let several = "a group of `stablehlo.all_reduce` has replica 1, which is not below 1";
    check(Op::AllReduce(Box::new(collective)), floats(&[], &[1.0]), several);
}

#[test]
fn types_without_arithmetic_are_moved() {
    let ty = Type::new(DType::F8E5M2, &[2, 2]);
    let tensor = Tensor { ty: ty.clone(), data: Data::Raw(vec![1, 2, 3, 4]) };
    let transposed = run(
        Op::Transpose { permutation: smallvec::smallvec![1, 0] },
        std::slice::from_ref(&tensor),
        std::slice::from_ref(&ty),
    );
    assert_eq!(transposed, [Data::Raw(vec![1, 3, 2, 4])]);
    let reversed = run(Op::Reverse { dims: smallvec::smallvec![0] }, &[tensor], &[ty]);
    assert_eq!(reversed, [Data::Raw(vec![3, 4, 1, 2])]);
}

fn checked(check: Check, actual: &Tensor, expected: &Tensor) -> Evaluation {
    let arguments = [actual.clone(), expected.clone()];
    let (program, _) = program_of(Op::Check(check), &arguments, &[]);
    evaluate(&program, &arguments, Options { wide: false }).unwrap()
}

#[test]
fn checks_count_and_name_the_element() {
    let actual = floats(&[2, 2], &[1.0, f64::NAN, 1.5, 0.0]);
    assert_eq!(checked(Check::Equal, &actual, &actual).checks_passed, 1);
    let expected = floats(&[2, 2], &[1.0, f64::NAN, 1.5 + 8.0 * f64::from(f32::EPSILON), -0.0]);
    let close = Check::Close { min_ulps: 0, max_ulps: 3 };
    let failures = checked(close, &actual, &expected).failures;
    assert_eq!(failures[0].message, "element [1, 0]: 1.5 is 8 ulps from 1.5000009536743164");
    assert_eq!(checked(Check::Close { min_ulps: 0, max_ulps: 8 }, &actual, &expected).checks_passed, 1);
    assert_eq!(checked(Check::AlmostEqual { tolerance: 1e-5 }, &actual, &expected).checks_passed, 1);
    let infinite = floats(&[2, 2], &[f64::INFINITY; 4]);
    assert_eq!(checked(Check::AlmostEqual { tolerance: 1e30 }, &actual, &infinite).failures.len(), 1);
}

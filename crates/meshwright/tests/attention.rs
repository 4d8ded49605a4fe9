//! Attention and its gradient: the gradient is that of the forward op, and written out in smaller ops
//! they compute the same.

use std::borrow::Cow;
use std::sync::Arc;

use meshwright::import::import;
use meshwright::interpret::{Data, Options, Tensor, evaluate, generate};
use meshwright::program::{
    Argument, Attention, AttentionForm, AttentionGrad, DType, Location, Op, PrintOptions, Program, ResultInfo, Type,
    ValueId, expand_attention, print,
};

struct Case {
    dtype: DType,
    /// Batch, heads, groups, queries, keys, width, depth.
    sizes: [usize; 7],
    causal: bool,
    bias: Option<(DType, [usize; 4])>,
}

const SCALE: f64 = 0.625;

/// Every kind of bias, shared heads, and queries that see no key: the first ones of a causal mask
/// that is higher than wide.
const CASES: [Case; 7] = [
    Case { dtype: DType::F32, sizes: [2, 2, 2, 3, 4, 2, 3], causal: false, bias: None },
    Case { dtype: DType::F32, sizes: [2, 4, 2, 3, 5, 2, 3], causal: true, bias: None },
    Case { dtype: DType::F32, sizes: [1, 4, 1, 5, 3, 2, 2], causal: true, bias: Some((DType::F32, [1, 4, 1, 3])) },
    Case { dtype: DType::F64, sizes: [2, 2, 1, 3, 4, 2, 3], causal: false, bias: Some((DType::F64, [2, 2, 3, 4])) },
    Case { dtype: DType::F32, sizes: [2, 2, 1, 3, 4, 2, 3], causal: false, bias: Some((DType::F32, [1, 1, 1, 4])) },
    Case { dtype: DType::F32, sizes: [2, 2, 2, 4, 2, 2, 3], causal: false, bias: Some((DType::Bool, [1, 2, 4, 2])) },
    Case { dtype: DType::BF16, sizes: [2, 4, 2, 3, 4, 8, 8], causal: false, bias: Some((DType::BF16, [2, 1, 3, 4])) },
];

impl Case {
    fn has_bias_gradient(&self) -> bool {
        self.bias.is_some_and(|(dtype, _)| dtype != DType::Bool)
    }

    /// The inputs of the attention, then the gradient of its output.
    fn arguments(&self) -> Vec<Tensor> {
        let [batch, heads, groups, queries, keys, width, depth] = self.sizes;
        let mut types = vec![
            Type::new(self.dtype, &[batch, heads, queries, width]),
            Type::new(self.dtype, &[batch, groups, keys, width]),
            Type::new(self.dtype, &[batch, groups, keys, depth]),
        ];
        types.extend(self.bias.map(|(dtype, shape)| Type::new(dtype, &shape)));
        types.push(Type::new(self.dtype, &[batch, heads, queries, depth]));
        types.iter().zip(1..).map(|(ty, seed)| generate(ty, seed)).collect()
    }

    /// Gives back the output, the statistics and all gradients.
    fn program(&self) -> Program {
        self.program_with(self.has_bias_gradient())
    }

    fn program_with(&self, bias_gradient: bool) -> Program {
        let mut program = Program::new("test");
        let arguments = self.arguments();
        let values: Vec<ValueId> =
            arguments.iter().map(|tensor| program.add_argument(Argument::default(), tensor.ty.clone())).collect();
        let (output_gradient, inputs) = values.split_last().expect("there are arguments");
        let (scale, causal, bias) = (SCALE, self.causal, self.bias.is_some());
        let forward = Op::Attention(Box::new(Attention { scale, causal, bias, statistics: true }));
        let (body, nowhere) = (program.body, Program::UNKNOWN_LOCATION);
        let forward = program.add_op(body, forward, inputs, &[], nowhere).expect("an attention");
        let forward = program.ops[forward].results.clone();
        let grad = Op::AttentionGrad(Box::new(AttentionGrad { scale, causal, bias, bias_gradient }));
        let operands = [inputs, &forward, &[*output_gradient]].concat();
        let grad = program.add_op(body, grad, &operands, &[], nowhere).expect("a gradient");
        for value in forward.into_iter().chain(program.ops[grad].results.clone()) {
            program.add_result(value, ResultInfo::default());
        }
        program
    }
}

fn run(program: &Program, arguments: &[Tensor], wide: bool) -> Vec<Tensor> {
    evaluate(program, arguments, Options { wide }).expect("an evaluation").results
}

fn read(text: &str) -> Program {
    import(&Arc::from(text)).program.expect("a program")
}

fn floats(tensor: &Tensor) -> &[f64] {
    match &tensor.data {
        Data::Float(values) => values,
        other => panic!("{other:?} are not floats"),
    }
}

#[test]
fn gradients_are_those_of_the_forward_op() {
    const STEP: f64 = 1e-5;
    for (number, case) in CASES.iter().enumerate() {
        let (program, arguments) = (case.program(), case.arguments());
        let results = run(&program, &arguments, true);
        let inputs = if case.has_bias_gradient() { 4 } else { 3 };
        for input in 0..inputs {
            for element in 0..arguments[input].ty.elements() {
                let loss = |step: f64| -> f64 {
                    let mut arguments = arguments.clone();
                    let Data::Float(values) = &mut arguments[input].data else { panic!("inputs are floats") };
                    values[element] += step;
                    let results = run(&program, &arguments, true);
                    let output_gradient = arguments.last().expect("there are arguments");
                    floats(&results[0]).iter().zip(floats(output_gradient)).map(|(a, b)| a * b).sum()
                };
                let slope = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                let gradient = floats(&results[2 + input])[element];
                let difference = (slope - gradient).abs();
                assert!(
                    difference < 1e-8,
                    "case {number}, input {input}, element {element}: {gradient} is not {slope}"
                );
            }
        }
    }
}

#[test]
fn statistics_say_which_queries_see_no_key() {
    let case = &CASES[2];
    let results = run(&case.program(), &case.arguments(), false);
    for (index, statistic) in floats(&results[1]).iter().enumerate() {
        // The first two of five queries come before the first of three keys.
        assert_eq!(*statistic == f64::NEG_INFINITY, index % 5 < 2, "query {index}: {statistic}");
    }
}

#[test]
fn what_is_printed_reads_back() {
    for case in &CASES {
        let program = case.program();
        program.verify().expect("a well-formed program");
        let text = print(&program, PrintOptions { locations: true, attention: AttentionForm::CustomCall });
        assert_eq!(read(&text), program);
    }
}

#[test]
fn the_expanded_form_computes_the_same() {
    for (number, case) in CASES.iter().enumerate() {
        // Weights are rounded to the element type before they are multiplied, so in bf16 a few units
        // in the last place of the largest number remain.
        let limit = match case.dtype {
            DType::BF16 => 1e-2,
            DType::F64 => 1e-14,
            _ => 1e-6,
        };
        check_expanded(&case.program(), &case.arguments(), false, limit, &format!("case {number}"));
    }
}

/// Where nothing is rounded to narrow types, hardly anything may differ.
#[test]
fn the_expanded_form_is_the_same_mathematics() {
    for seed in 0..300 {
        let case = random_case(seed);
        for bias_gradient in [false, case.has_bias_gradient()] {
            let program = case.program_with(bias_gradient);
            check_expanded(&program, &case.arguments(), true, 1e-12, &format!("seed {seed}"));
        }
    }
}

#[track_caller]
fn check_expanded(program: &Program, arguments: &[Tensor], wide: bool, limit: f64, name: &str) {
    let expanded = expand_attention(program);
    expanded.verify().expect("a well-formed program");
    assert!(!expanded.to_string().contains("meshwright"), "{expanded}");
    let results = run(program, arguments, wide).into_iter().zip(run(&expanded, arguments, wide));
    for (index, (whole, expanded)) in results.enumerate() {
        assert_eq!(whole.ty, expanded.ty);
        let finite = floats(&whole).iter().filter(|value| value.is_finite());
        let largest = finite.fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        for (whole, expanded) in floats(&whole).iter().zip(floats(&expanded)) {
            let same = whole == expanded || (whole - expanded).abs() <= limit * largest;
            assert!(same, "{name}, result {index}: {whole} is {expanded} when expanded");
        }
    }
}

/// Any number of heads per group, more queries than keys and fewer, and a bias along any dimensions.
fn random_case(seed: u64) -> Case {
    let mut state = seed;
    // SplitMix64.
    let mut below = |limit: u64| -> usize {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ bits >> 31) % limit) as usize
    };
    let dtype = [DType::BF16, DType::F16, DType::F32, DType::F64][below(4)];
    let (batch, groups, queries, keys) = (1 + below(3), 1 + below(3), 1 + below(6), 1 + below(6));
    let heads = groups * (1 + below(3));
    let kept = [batch, heads, queries, keys].map(|size| if below(2) == 0 { 1 } else { size });
    let bias = [None, Some((dtype, kept)), Some((DType::Bool, kept))][below(3)];
    let sizes = [batch, heads, groups, queries, keys, 1 + below(5), 1 + below(5)];
    Case { dtype, sizes, causal: below(2) == 0, bias }
}

#[test]
fn what_is_expanded_stands_where_the_op_stood() {
    let mut program = CASES[2].program();
    let ops: Vec<_> = program.ops.ids().collect();
    for (op, scope) in ops.into_iter().zip(["forward", "backward"]) {
        let location = Location { scope: Arc::from(scope), ..Location::unknown() };
        program.ops[op].location = program.locations.push(location);
    }
    let expanded = expand_attention(&program);
    let scopes: Vec<&str> =
        expanded.ops.iter().map(|(_, operation)| &*expanded.locations[operation.location].scope).collect();
    let forward = scopes.iter().take_while(|scope| scope.starts_with("forward/")).count();
    assert!(forward > 0 && forward < scopes.len(), "{scopes:?}");
    assert!(scopes[forward..].iter().all(|scope| scope.starts_with("backward/")), "{scopes:?}");
}

#[test]
fn printing_the_expanded_form_is_printing_what_is_expanded() {
    for case in &CASES {
        let program = case.program();
        let print = |program: &Program, attention| print(program, PrintOptions { locations: true, attention });
        let text = print(&program, AttentionForm::Expanded);
        assert_eq!(text, print(&expand_attention(&program), AttentionForm::CustomCall));
        assert!(matches!(expand_attention(&expand_attention(&program)), Cow::Borrowed(_)));
        read(&text);
    }
}

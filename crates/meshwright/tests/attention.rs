//! Attention and its gradient: the gradient is that of the forward op, and every form in which they
//! are printed computes the same.

use std::sync::Arc;

use meshwright::import::import;
use meshwright::interpret::{Data, Options, Tensor, evaluate, generate};
use meshwright::program::{
    Argument, Attention, AttentionForm, AttentionGrad, DType, Op, PrintOptions, Program, ResultInfo, Type, ValueId,
    print,
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
        let bias_gradient = self.has_bias_gradient();
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
        let (program, arguments) = (case.program(), case.arguments());
        let text = print(&program, PrintOptions { locations: false, attention: AttentionForm::Expanded });
        assert!(!text.contains("meshwright"), "{text}");
        let expanded = read(&text);
        // Weights are rounded to the element type before they are multiplied, so in bf16 a few units
        // in the last place of the largest number remain.
        let limit = match case.dtype {
            DType::BF16 => 1e-2,
            DType::F64 => 1e-14,
            _ => 1e-6,
        };
        let results = run(&program, &arguments, false).into_iter().zip(run(&expanded, &arguments, false));
        for (index, (whole, expanded)) in results.enumerate() {
            assert_eq!(whole.ty, expanded.ty);
            let finite = floats(&whole).iter().filter(|value| value.is_finite());
            let largest = finite.fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
            for (whole, expanded) in floats(&whole).iter().zip(floats(&expanded)) {
                let same = whole == expanded || (whole - expanded).abs() <= limit * largest;
                assert!(same, "case {number}, result {index}: {whole} is {expanded} when expanded");
            }
        }
    }
}

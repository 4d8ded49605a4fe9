//! One op at a time: the op with the types of its operands and results, and the text expected.

use std::sync::Arc;

use smallvec::smallvec;

use super::super::*;
use super::*;

/// A program of one op whose operands are its arguments and whose results it returns.
struct OneOp {
    program: Program,
    operands: Vec<ValueId>,
    regions: Vec<RegionId>,
}

impl OneOp {
    fn new(operands: &[&str]) -> OneOp {
        let mut program = Program::new("test");
        let operands = operands.iter().map(|text| program.add_argument(Argument::default(), ty(text))).collect();
        OneOp { program, operands, regions: Vec::new() }
    }

    /// Adds a region of one op on its arguments.
    fn region(mut self, op: Op, arguments: &[&str], result: &str) -> OneOp {
        let region = self.program.add_region();
        let arguments: Vec<ValueId> =
            arguments.iter().map(|text| self.program.add_region_argument(region, ty(text))).collect();
        let operands = &arguments[..2];
        let op =
            self.program.add_op_with_types(region, op, operands, &[], [ty(result)], Program::UNKNOWN_LOCATION);
        self.program.regions[region].results = self.program.ops[op].results.to_vec();
        self.regions.push(region);
        self
    }

    /// Adds a region that adds up two scalars of the type.
    fn sum(self, element: &str) -> OneOp {
        self.region(Op::Binary(Binary::Add), &[element, element], element)
    }

    /// Adds a region without ops that gives back some of its arguments.
    fn giving(mut self, arguments: &[&str], results: &[usize]) -> OneOp {
        let region = self.program.add_region();
        for text in arguments {
            self.program.add_region_argument(region, ty(text));
        }
        let results = results.iter().map(|&index| self.program.regions[region].arguments[index]).collect();
        self.program.regions[region].results = results;
        self.regions.push(region);
        self
    }

    /// Adds a region without arguments that gives back the operands of these numbers.
    fn branch(mut self, operands: &[usize]) -> OneOp {
        let region = self.program.add_region();
        self.program.regions[region].results = operands.iter().map(|&index| self.operands[index]).collect();
        self.regions.push(region);
        self
    }

    fn finish(mut self, op: Op, operands: usize, results: &[&str]) -> Program {
        let (body, location) = (self.program.body, Program::UNKNOWN_LOCATION);
        let types = results.iter().map(|text| ty(text));
        let operands = &self.operands[..operands];
        let op = self.program.add_op_with_types(body, op, operands, &self.regions, types, location);
        for result in self.program.ops[op].results.clone() {
            self.program.add_result(result, ResultInfo::default());
        }
        self.program
    }

    #[track_caller]
    fn check(self, op: Op, results: &[&str], expected: &str) {
        let operands = self.operands.len();
        self.check_first(op, operands, results, expected);
    }

    /// Checks an op that reads the first operands only; its regions may read the others.
    #[track_caller]
    fn check_first(self, op: Op, operands: usize, results: &[&str], expected: &str) {
        assert_eq!(body_text(&self.finish(op, operands, results).to_string()), expected);
    }
}

/// Checks an op without regions.
#[track_caller]
fn check(op: Op, operands: &[&str], results: &[&str], expected: &str) {
    OneOp::new(operands).check(op, results, expected);
}

/// The text between the function's header and its return, without the indent.
fn body_text(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let body = &lines[2..lines.len() - 3];
    body.iter().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// Reads `4x4xf32`, `f32` or `token`.
fn ty(text: &str) -> Type {
    if text == "token" {
        return Type::token();
    }
    let (mut shape, mut rest) = (Shape::new(), text);
    while let Some((size, inner)) = rest.split_once('x')
        && let Ok(size) = size.parse()
    {
        shape.push(size);
        rest = inner;
    }
    Type { dtype: DType::from_name(rest).expect("an element type"), shape }
}

fn collective() -> Collective {
    Collective { groups: vec![vec![0, 1], vec![2, 3]], channel: 0, global_ids: false }
}

fn channeled() -> Collective {
    Collective { channel: 7, global_ids: true, ..collective() }
}

#[test]
fn a_module_names_arguments_and_results() {
    let mut program = Program::new("my step");
    program.partitions = 4;
    let weight = Argument { name: "params.w".to_owned(), alias: Some(0), donated: false };
    let weight = program.add_argument(weight, ty("4x4xf32"));
    let bias = Argument { name: "a\"b\\c\né".to_owned(), alias: None, donated: true };
    let bias = program.add_argument(bias, ty("4x4xf32"));
    let location = program.locations.push(Location {
        scope: Arc::from("jit(step)/add"),
        file: Arc::from("step.py"),
        line: 3,
        column: 5,
    });
    let body = program.body;
    let add = Op::Binary(Binary::Add);
    let add = program.add_op_with_types(body, add, &[weight, bias], &[], [ty("4x4xf32")], location);
    let sum = program.ops[add].results[0];
    program.add_result(sum, ResultInfo { name: "result.0".to_owned() });
    program.add_result(weight, ResultInfo::default());
    let expected = r#"module @"my step" attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<4x4xf32> {tf.aliasing_output = 0 : i32} loc("params.w"), %1: tensor<4x4xf32> {jax.buffer_donor = true} loc("a\22b\\c\0A\C3\A9")) -> (tensor<4x4xf32> {jax.result_info = "result.0"}, tensor<4x4xf32>) {
    %2 = stablehlo.add %0, %1 : tensor<4x4xf32>
    return %2, %0 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}
"#;
    assert_eq!(program.to_string(), expected);
    let options = PrintOptions { locations: true, attention: AttentionForm::CustomCall };
    let located = expected.replace("%1 : tensor<4x4xf32>", r#"%1 : tensor<4x4xf32> loc("jit(step)/add"("step.py":3:5))"#);
    assert_eq!(print(&program, options), located);
}

#[test]
fn an_empty_program_is_a_module() {
    assert_eq!(
        Program::new("").to_string(),
        "module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n  \
         func.func public @main() {\n    return\n  }\n}\n"
    );
}

#[test]
fn locations_say_what_is_known() {
    let text = |scope: &str, file: &str| {
        LocationText(&Location { scope: Arc::from(scope), file: Arc::from(file), line: 1, column: 2 }).to_string()
    };
    assert_eq!(text("", ""), "unknown");
    assert_eq!(text("scope", ""), r#""scope""#);
    assert_eq!(text("", "file.py"), r#""file.py":1:2"#);
    assert_eq!(text("scope", "file.py"), r#""scope"("file.py":1:2)"#);
}

#[test]
fn after_all() {
    check(Op::AfterAll, &["token", "token"], &["token"], "%2 = stablehlo.after_all %0, %1 : !stablehlo.token");
    check(Op::AfterAll, &[], &["token"], "%0 = stablehlo.after_all  : !stablehlo.token");
}

#[test]
fn all_gather() {
    check(
        Op::AllGather(Box::new(AllGather { dim: 1, factor: 2, collective: channeled() })),
        &["4x4xf32", "4x4xf32"],
        &["4x8xf32", "4x8xf32"],
        r#"%2, %3 = "stablehlo.all_gather"(%0, %1) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)"#,
    );
}

#[test]
fn all_reduce() {
    OneOp::new(&["4xf32"]).sum("f32").check(
        Op::AllReduce(Box::new(collective())),
        &["4xf32"],
        r#"%4 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
^bb0(%1: tensor<f32>, %2: tensor<f32>):
  %3 = stablehlo.add %1, %2 : tensor<f32>
  stablehlo.return %3 : tensor<f32>
}) : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
    let uneven = Collective { groups: vec![vec![0, 1], vec![2]], ..collective() };
    assert_eq!(DenseGroups(&uneven.groups).to_string(), "dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>");
    assert_eq!(DenseGroups(&[]).to_string(), "dense<> : tensor<0x0xi64>");
}

#[test]
fn all_to_all() {
    check(
        Op::AllToAll(Box::new(AllToAll { split_dim: 0, concat_dim: 1, split_count: 2, collective: collective() })),
        &["4x4xf32"],
        &["2x8xf32"],
        r#"%1 = "stablehlo.all_to_all"(%0) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4x4xf32>) -> tensor<2x8xf32>"#,
    );
}

#[test]
fn attention_as_a_custom_call() {
    check(
        Op::Attention(Box::new(Attention { scale: 0.125, causal: true, bias: false })),
        &["2x4x8x16xbf16", "2x4x8x16xbf16", "2x4x8x16xbf16"],
        &["2x4x8x16xbf16"],
        "%3 = stablehlo.custom_call @meshwright.attention(%0, %1, %2) {meshwright.causal = true, meshwright.scale = 0.125 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16>",
    );
}

#[track_caller]
fn check_expanded(attention: Attention, operands: &[&str], result: &str, expected: &str) {
    let program = OneOp::new(operands).finish(Op::Attention(Box::new(attention)), operands.len(), &[result]);
    let options = PrintOptions { locations: false, attention: AttentionForm::Expanded };
    assert_eq!(body_text(&print(&program, options)), expected);
}

#[test]
fn attention_expanded() {
    check_expanded(
        Attention { scale: 0.125, causal: false, bias: false },
        &["2x4x8x16xf32", "2x4x6x16xf32", "2x4x6x5xf32"],
        "2x4x8x5xf32",
        "%a3_0 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x8x16xf32>, tensor<2x4x6x16xf32>) -> tensor<2x4x8x6xf32>
%a3_1 = stablehlo.constant dense<0.125> : tensor<f32>
%a3_2 = stablehlo.broadcast_in_dim %a3_1, dims = [] : (tensor<f32>) -> tensor<2x4x8x6xf32>
%a3_3 = stablehlo.multiply %a3_0, %a3_2 : tensor<2x4x8x6xf32>
%a3_4 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a3_5 = stablehlo.reduce(%a3_3 init: %a3_4) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x8xf32>
%a3_6 = stablehlo.broadcast_in_dim %a3_5, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x6xf32>
%a3_7 = stablehlo.subtract %a3_3, %a3_6 : tensor<2x4x8x6xf32>
%a3_8 = stablehlo.exponential %a3_7 : tensor<2x4x8x6xf32>
%a3_9 = stablehlo.constant dense<0.0> : tensor<f32>
%a3_10 = stablehlo.reduce(%a3_8 init: %a3_9) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x8xf32>
%a3_11 = stablehlo.constant dense<1.0> : tensor<f32>
%a3_12 = stablehlo.broadcast_in_dim %a3_11, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
%a3_13 = stablehlo.maximum %a3_10, %a3_12 : tensor<2x4x8xf32>
%a3_14 = stablehlo.broadcast_in_dim %a3_13, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x6xf32>
%a3_15 = stablehlo.divide %a3_8, %a3_14 : tensor<2x4x8x6xf32>
%3 = stablehlo.dot_general %a3_15, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x8x6xf32>, tensor<2x4x6x5xf32>) -> tensor<2x4x8x5xf32>",
    );
}

#[test]
fn attention_expanded_with_groups_bias_and_causal_mask() {
    check_expanded(
        Attention { scale: 1.0, causal: true, bias: true },
        &["2x4x3x16xbf16", "2x2x6x16xbf16", "2x2x6x5xbf16", "1x4x1x6xbf16"],
        "2x4x3x5xbf16",
        "%a4_0 = stablehlo.reshape %0 : (tensor<2x4x3x16xbf16>) -> tensor<2x2x6x16xbf16>
%a4_1 = stablehlo.dot_general %a4_0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x6x16xbf16>, tensor<2x2x6x16xbf16>) -> tensor<2x2x6x6xf32>
%a4_2 = stablehlo.reshape %a4_1 : (tensor<2x2x6x6xf32>) -> tensor<2x4x3x6xf32>
%a4_3 = stablehlo.constant dense<1.0> : tensor<f32>
%a4_4 = stablehlo.broadcast_in_dim %a4_3, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
%a4_5 = stablehlo.multiply %a4_2, %a4_4 : tensor<2x4x3x6xf32>
%a4_6 = stablehlo.convert %3 : (tensor<1x4x1x6xbf16>) -> tensor<1x4x1x6xf32>
%a4_7 = stablehlo.broadcast_in_dim %a4_6, dims = [0, 1, 2, 3] : (tensor<1x4x1x6xf32>) -> tensor<2x4x3x6xf32>
%a4_8 = stablehlo.add %a4_5, %a4_7 : tensor<2x4x3x6xf32>
%a4_9 = stablehlo.iota dim = 0 : tensor<3x6xi32>
%a4_10 = stablehlo.iota dim = 1 : tensor<3x6xi32>
%a4_11 = stablehlo.constant dense<3> : tensor<3x6xi32>
%a4_12 = stablehlo.add %a4_9, %a4_11 : tensor<3x6xi32>
%a4_13 = stablehlo.compare LE, %a4_10, %a4_12, SIGNED : (tensor<3x6xi32>, tensor<3x6xi32>) -> tensor<3x6xi1>
%a4_14 = stablehlo.broadcast_in_dim %a4_13, dims = [2, 3] : (tensor<3x6xi1>) -> tensor<2x4x3x6xi1>
%a4_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
%a4_16 = stablehlo.broadcast_in_dim %a4_15, dims = [] : (tensor<f32>) -> tensor<2x4x3x6xf32>
%a4_17 = stablehlo.select %a4_14, %a4_8, %a4_16 : tensor<2x4x3x6xi1>, tensor<2x4x3x6xf32>
%a4_18 = stablehlo.constant dense<-3.4028235e+38> : tensor<f32>
%a4_19 = stablehlo.reduce(%a4_17 init: %a4_18) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<2x4x3xf32>
%a4_20 = stablehlo.broadcast_in_dim %a4_19, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
%a4_21 = stablehlo.subtract %a4_17, %a4_20 : tensor<2x4x3x6xf32>
%a4_22 = stablehlo.exponential %a4_21 : tensor<2x4x3x6xf32>
%a4_23 = stablehlo.constant dense<0.0> : tensor<f32>
%a4_24 = stablehlo.reduce(%a4_22 init: %a4_23) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x6xf32>, tensor<f32>) -> tensor<2x4x3xf32>
%a4_25 = stablehlo.constant dense<1.0> : tensor<f32>
%a4_26 = stablehlo.broadcast_in_dim %a4_25, dims = [] : (tensor<f32>) -> tensor<2x4x3xf32>
%a4_27 = stablehlo.maximum %a4_24, %a4_26 : tensor<2x4x3xf32>
%a4_28 = stablehlo.broadcast_in_dim %a4_27, dims = [0, 1, 2] : (tensor<2x4x3xf32>) -> tensor<2x4x3x6xf32>
%a4_29 = stablehlo.divide %a4_22, %a4_28 : tensor<2x4x3x6xf32>
%a4_30 = stablehlo.convert %a4_29 : (tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xbf16>
%a4_31 = stablehlo.reshape %a4_30 : (tensor<2x4x3x6xbf16>) -> tensor<2x2x6x6xbf16>
%a4_32 = stablehlo.dot_general %a4_31, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x6x6xbf16>, tensor<2x2x6x5xbf16>) -> tensor<2x2x6x5xbf16>
%4 = stablehlo.reshape %a4_32 : (tensor<2x2x6x5xbf16>) -> tensor<2x4x3x5xbf16>",
    );
}

#[test]
fn attention_expanded_with_boolean_mask() {
    check_expanded(
        Attention { scale: 1.0, causal: false, bias: true },
        &["1x1x2x4xf64", "1x1x2x4xf64", "1x1x2x4xf64", "1x1x2x2xi1"],
        "1x1x2x4xf64",
        "%a4_0 = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x1x2x4xf64>, tensor<1x1x2x4xf64>) -> tensor<1x1x2x2xf64>
%a4_1 = stablehlo.constant dense<1.0> : tensor<f64>
%a4_2 = stablehlo.broadcast_in_dim %a4_1, dims = [] : (tensor<f64>) -> tensor<1x1x2x2xf64>
%a4_3 = stablehlo.multiply %a4_0, %a4_2 : tensor<1x1x2x2xf64>
%a4_4 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
%a4_5 = stablehlo.broadcast_in_dim %a4_4, dims = [] : (tensor<f64>) -> tensor<1x1x2x2xf64>
%a4_6 = stablehlo.select %3, %a4_3, %a4_5 : tensor<1x1x2x2xi1>, tensor<1x1x2x2xf64>
%a4_7 = stablehlo.constant dense<-1.7976931348623157e+308> : tensor<f64>
%a4_8 = stablehlo.reduce(%a4_6 init: %a4_7) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x2xf64>
%a4_9 = stablehlo.broadcast_in_dim %a4_8, dims = [0, 1, 2] : (tensor<1x1x2xf64>) -> tensor<1x1x2x2xf64>
%a4_10 = stablehlo.subtract %a4_6, %a4_9 : tensor<1x1x2x2xf64>
%a4_11 = stablehlo.exponential %a4_10 : tensor<1x1x2x2xf64>
%a4_12 = stablehlo.constant dense<0.0> : tensor<f64>
%a4_13 = stablehlo.reduce(%a4_11 init: %a4_12) applies stablehlo.add across dimensions = [3] : (tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x2xf64>
%a4_14 = stablehlo.constant dense<1.0> : tensor<f64>
%a4_15 = stablehlo.broadcast_in_dim %a4_14, dims = [] : (tensor<f64>) -> tensor<1x1x2xf64>
%a4_16 = stablehlo.maximum %a4_13, %a4_15 : tensor<1x1x2xf64>
%a4_17 = stablehlo.broadcast_in_dim %a4_16, dims = [0, 1, 2] : (tensor<1x1x2xf64>) -> tensor<1x1x2x2xf64>
%a4_18 = stablehlo.divide %a4_11, %a4_17 : tensor<1x1x2x2xf64>
%4 = stablehlo.dot_general %a4_18, %2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x1x2x2xf64>, tensor<1x1x2x4xf64>) -> tensor<1x1x2x4xf64>",
    );
}

#[test]
fn batch_norm() {
    let norm = BatchNorm { epsilon: 1e-5, feature_dim: 1 };
    let (image, feature) = ("2x4xf32", "4xf32");
    check(
        Op::BatchNormGrad(norm),
        &[image, feature, feature, feature, image],
        &[image, feature, feature],
        r#"%5, %6, %7 = "stablehlo.batch_norm_grad"(%0, %1, %2, %3, %4) <{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)"#,
    );
    check(
        Op::BatchNormInference(norm),
        &[image, feature, feature, feature, feature],
        &[image],
        r#"%5 = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) <{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>"#,
    );
    check(
        Op::BatchNormTraining(norm),
        &[image, feature, feature],
        &[image, feature, feature],
        r#"%3, %4, %5 = "stablehlo.batch_norm_training"(%0, %1, %2) <{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)"#,
    );
}

#[test]
fn binary() {
    for &binary in Binary::ALL {
        let name = binary.name();
        let bits = matches!(
            binary,
            Binary::And
                | Binary::Or
                | Binary::ShiftLeft
                | Binary::ShiftRightArithmetic
                | Binary::ShiftRightLogical
                | Binary::Xor
        );
        let element = if bits { "4xi32" } else { "4xf32" };
        let tensor = format!("tensor<{element}>");
        let types = if name.starts_with("chlo.") { format!("{tensor}, {tensor} -> {tensor}") } else { tensor };
        check(Op::Binary(binary), &[element, element], &[element], &format!("%2 = {name} %0, %1 : {types}"));
    }
}

#[test]
fn bitcast_convert() {
    check(
        Op::BitcastConvert { dtype: DType::I32 },
        &["4xf32"],
        &["4xi32"],
        "%1 = stablehlo.bitcast_convert %0 : (tensor<4xf32>) -> tensor<4xi32>",
    );
}

#[test]
fn broadcast_in_dim() {
    let broadcast = |shape: &[usize], dims: &[usize]| {
        Op::BroadcastInDim(Box::new(BroadcastInDim { shape: Shape::from_slice(shape), dims: Dims::from_slice(dims) }))
    };
    check(
        broadcast(&[4, 2, 3], &[0, 2]),
        &["4x3xf32"],
        &["4x2x3xf32"],
        "%1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x2x3xf32>",
    );
    check(
        broadcast(&[4], &[]),
        &["f32"],
        &["4xf32"],
        "%1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4xf32>",
    );
}

#[test]
fn case() {
    OneOp::new(&["i32", "4xf32"]).branch(&[1]).branch(&[1]).check_first(
        Op::Case,
        1,
        &["4xf32"],
        r#"%2 = "stablehlo.case"(%0) ({
  stablehlo.return %1 : tensor<4xf32>
}, {
  stablehlo.return %1 : tensor<4xf32>
}) : (tensor<i32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn checks() {
    let operands = &["4xf32", "4xf32"];
    let check_text = |limits: &str, name: &str| {
        format!(
            "stablehlo.custom_call @check.{name}(%0, %1) {{has_side_effect = true{limits}}} : (tensor<4xf32>, tensor<4xf32>) -> ()"
        )
    };
    let close = |min_ulps, max_ulps| Op::Check(Check::Close { min_ulps, max_ulps });
    let almost = |tolerance| Op::Check(Check::AlmostEqual { tolerance });
    check(Op::Check(Check::Equal), operands, &[], &check_text("", "expect_eq"));
    check(close(0, 3), operands, &[], &check_text("", "expect_close"));
    check(
        close(1, 7),
        operands,
        &[],
        &check_text(", max_ulp_difference = 7 : i64, min_ulp_difference = 1 : i64", "expect_close"),
    );
    check(almost(1e-3), operands, &[], &check_text("", "expect_almost_eq"));
    check(almost(1e-6), operands, &[], &check_text(", tolerance = 1.0e-06 : f64", "expect_almost_eq"));
}

#[test]
fn cholesky() {
    let lower = Op::Cholesky { lower: true };
    check(lower, &["4x4xf32"], &["4x4xf32"], "%1 = stablehlo.cholesky %0, lower = true : tensor<4x4xf32>");
    let upper = Op::Cholesky { lower: false };
    check(upper, &["4x4xf32"], &["4x4xf32"], "%1 = stablehlo.cholesky %0 : tensor<4x4xf32>");
}

#[test]
fn clamp() {
    check(
        Op::Clamp,
        &["f32", "4xf32", "f32"],
        &["4xf32"],
        "%3 = stablehlo.clamp %0, %1, %2 : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
    );
    check(
        Op::Clamp,
        &["4xf32", "4xf32", "4xf32"],
        &["4xf32"],
        "%3 = stablehlo.clamp %0, %1, %2 : tensor<4xf32>",
    );
}

#[test]
fn collective_broadcast() {
    check(
        Op::CollectiveBroadcast(Box::new(collective())),
        &["4xf32"],
        &["4xf32"],
        r#"%1 = "stablehlo.collective_broadcast"(%0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn collective_permute() {
    check(
        Op::CollectivePermute(Box::new(CollectivePermute { pairs: vec![(0, 1), (1, 0)], channel: 3 })),
        &["4xf32"],
        &["4xf32"],
        r#"%1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
    check(
        Op::CollectivePermute(Box::new(CollectivePermute { pairs: Vec::new(), channel: 0 })),
        &["4xf32"],
        &["4xf32"],
        r#"%1 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn compare() {
    check(
        Op::Compare { direction: Direction::Less, order: Order::Natural },
        &["4xf32", "4xf32"],
        &["4xi1"],
        "%2 = stablehlo.compare LT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
    );
    check(
        Op::Compare { direction: Direction::NotEqual, order: Order::TotalOrder },
        &["4xf32", "4xf32"],
        &["4xi1"],
        "%2 = stablehlo.compare NE, %0, %1, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
    );
}

#[test]
fn complex() {
    check(
        Op::Complex,
        &["4xf32", "4xf32"],
        &["4xcomplex<f32>"],
        "%2 = stablehlo.complex %0, %1 : tensor<4xcomplex<f32>>",
    );
}

#[test]
fn concatenate() {
    check(
        Op::Concatenate { dim: 1 },
        &["4x2xf32", "4x3xf32"],
        &["4x5xf32"],
        "%2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>",
    );
}

#[track_caller]
fn check_constant(literal: Literal, expected: &str) {
    let tensor = literal.ty.clone();
    let text = format!("%0 = stablehlo.constant dense<{expected}> : {tensor}");
    let mut program = Program::new("test");
    let body = program.body;
    program.add_op_with_types(body, Op::Constant(literal), &[], &[], [tensor], Program::UNKNOWN_LOCATION);
    assert_eq!(body_text(&program.to_string()), text);
}

#[track_caller]
fn check_bytes(text: &str, bytes: &[u8], expected: &str) {
    check_constant(Literal::packed(ty(text), bytes), expected);
}

#[test]
fn splat_constants() {
    let splat = |text: &str, bits: u128| Literal::splat(ty(text), bits);
    check_constant(splat("4xi1", 1), "true");
    check_constant(splat("4xi4", 0xF), "-1");
    check_constant(splat("4xi2", 2), "-2");
    check_constant(splat("4xui4", 0xF), "15");
    check_constant(splat("i64", 1 << 63), "-9223372036854775808");
    check_constant(splat("ui64", u128::from(u64::MAX)), "18446744073709551615");
    check_constant(splat("4xf8E4M3FN", 0x3C), "0x3C");
    check_constant(splat("4xf4E2M1FN", 0xF), "0x0F");
    check_constant(splat("f8E8M0FNU", 0), "0x00");
    check_constant(splat("0x4xf32", 0), "");
    for dtype in DType::all().filter(|dtype| dtype.kind() == DTypeKind::SmallFloat) {
        check_constant(Literal::splat(Type::new(dtype, &[2]), 5), "0x05");
    }
}

#[test]
fn floats_read_back_to_the_same_bits() {
    let number = |text: &str, value: f64| Literal::splat_number(ty(text), value);
    let single = |bits: u128| Literal::splat(ty("4xf32"), bits);
    check_constant(number("4xf32", 1.0), "1.0");
    check_constant(number("4xf32", -0.0), "-0.0");
    check_constant(number("4xf32", 0.1), "0.1");
    check_constant(number("4xf32", 1e-5), "1.0e-05");
    check_constant(number("4xf32", 1e20), "1.0e+20");
    check_constant(number("4xf64", 1.5e-300), "1.5e-300");
    check_constant(number("4xf64", 0.1), "0.1");
    check_constant(number("4xf64", f64::NEG_INFINITY), "0xFFF0000000000000");
    check_constant(number("4xbf16", 0.1), "0.100097656");
    check_constant(number("4xbf16", f64::INFINITY), "0x7F80");
    check_constant(number("4xf16", 65504.0), "65504.0");
    check_constant(Literal::splat(ty("4xf16"), 0xFE01), "0xFE01");
    check_constant(single(0x7F80_0000), "0x7F800000");
    check_constant(single(0xFFC0_0001), "0xFFC00001");
    // Rounded to f64 first, 7.038531e-26 would read back as the number above it.
    check_constant(single(0x15AE_43FD), "0x15AE43FD");
    let complex = (0xFF80_0000 << 32) | u128::from(1.5f32.to_bits());
    check_constant(Literal::splat(ty("4xcomplex<f32>"), complex), "(1.5, 0xFF800000)");
    let complex = (u128::from(0.25f64.to_bits()) << 64) | u128::from(1.5f64.to_bits());
    check_constant(Literal::splat(ty("complex<f64>"), complex), "(1.5, 0.25)");
}

#[test]
fn listed_constants() {
    check_bytes("2x2xi8", &[1, 2, 255, 128], "[[1, 2], [-1, -128]]");
    check_bytes("2xi1", &[1, 0], "[true, false]");
    check_bytes("2x1xf8E5M2", &[0x3C, 1], "[[0x3C], [0x01]]");
    check_bytes("2xf16", &[0, 0x3C, 0, 0xC0], "[1.0, -2.0]");
    // Stored element by element, and still a splat.
    check_bytes("2x2xui16", &[7, 0, 7, 0, 7, 0, 7, 0], "7");
    check_bytes("0xi8", &[], "");
    check_bytes("i8", &[3], "3");
}

#[test]
fn large_constants_are_hex() {
    let bytes: Vec<u8> = (0..33).collect();
    let digits = "\"0x000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F20\"";
    check_bytes("33xi8", &bytes, digits);
    check_bytes("33xf8E4M3FN", &bytes, digits);
    let bits: Vec<u8> = (0..40).map(|index| u8::from(index >= 38)).collect();
    check_bytes("40xi1", &bits, &format!("\"0x{}0101\"", "00".repeat(38)));
    check_bytes("40xi4", &bits, &format!("\"0x{}0101\"", "00".repeat(38)));
    let wide: Vec<u8> = (0..1000u16).flat_map(u16::to_le_bytes).collect();
    let digits: String = wide.iter().map(|byte| format!("{byte:02X}")).collect();
    check_bytes("1000xui16", &wide, &format!("\"0x{digits}\""));
}

#[test]
fn convert() {
    check(
        Op::Convert { dtype: DType::BF16 },
        &["4xf32"],
        &["4xbf16"],
        "%1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>",
    );
    check(Op::Convert { dtype: DType::F32 }, &["4xf32"], &["4xf32"], "%1 = stablehlo.convert %0 : tensor<4xf32>");
}

#[test]
fn convolution() {
    let convolution = Convolution {
        strides: smallvec![2, 1],
        padding: smallvec![(1, 0), (0, -1)],
        lhs_dilation: smallvec![1, 1],
        rhs_dilation: smallvec![1, 1],
        reversal: smallvec![false, true],
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: smallvec![0, 1],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2, 3],
        feature_groups: 1,
        batch_groups: 1,
        precision: smallvec![Precision::Default, Precision::Highest],
        dtype: DType::F32,
    };
    check(
        Op::Convolution(Box::new(convolution)),
        &["1x8x8x3xf32", "3x3x3x5xf32"],
        &["1x5x4x5xf32"],
        "%2 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, f, 0, 1], window = {stride = [2, 1], pad = [[1, 0], [0, -1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]} : (tensor<1x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<1x5x4x5xf32>",
    );
    let matrix_product = Convolution {
        strides: smallvec![],
        padding: smallvec![],
        lhs_dilation: smallvec![],
        rhs_dilation: smallvec![],
        reversal: smallvec![],
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![],
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        kernel_spatial: smallvec![],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![],
        feature_groups: 1,
        batch_groups: 1,
        precision: smallvec![],
        dtype: DType::F32,
    };
    check(
        Op::Convolution(Box::new(matrix_product)),
        &["2x3xf32", "3x4xf32"],
        &["2x4xf32"],
        "%2 = stablehlo.convolution(%0, %1) dim_numbers = [b, f]x[i, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
    );
}

#[test]
fn custom_call() {
    let call = CustomCall {
        target: "my kernel".to_owned(),
        has_side_effect: true,
        result_types: vec![ty("4xf32"), ty("f32")],
        attributes: vec![
            ("backend_config".to_owned(), "\"x\"".to_owned()),
            ("mhlo.frontend attribute".to_owned(), String::new()),
        ],
        rule: Some("(i) -> (i), ()".to_owned()),
    };
    check(
        Op::CustomCall(Box::new(call)),
        &["4xf32"],
        &["4xf32", "f32"],
        r#"%1, %2 = stablehlo.custom_call @"my kernel"(%0) {has_side_effect = true, backend_config = "x", "mhlo.frontend attribute", meshwright.rule = "(i) -> (i), ()"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)"#,
    );
    let call = CustomCall {
        target: "Sharding".to_owned(),
        has_side_effect: false,
        result_types: Vec::new(),
        attributes: Vec::new(),
        rule: None,
    };
    check(Op::CustomCall(Box::new(call)), &[], &[], "stablehlo.custom_call @Sharding() : () -> ()");
}

#[test]
fn dot_general() {
    let dot = DotGeneral {
        lhs_batch: smallvec![0],
        rhs_batch: smallvec![0],
        lhs_contract: smallvec![2],
        rhs_contract: smallvec![1],
        precision: smallvec![Precision::High, Precision::Default],
        dtype: DType::F32,
    };
    check(
        Op::DotGeneral(Box::new(dot)),
        &["2x3x4xbf16", "2x4x5xbf16"],
        &["2x3x5xf32"],
        "%2 = stablehlo.dot_general %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGH, DEFAULT] : (tensor<2x3x4xbf16>, tensor<2x4x5xbf16>) -> tensor<2x3x5xf32>",
    );
    let outer = DotGeneral {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![],
        rhs_contract: smallvec![],
        precision: smallvec![],
        dtype: DType::F32,
    };
    check(
        Op::DotGeneral(Box::new(outer)),
        &["2xf32", "3xf32"],
        &["2x3xf32"],
        "%2 = stablehlo.dot_general %0, %1, contracting_dims = [] x [] : (tensor<2xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
    );
}

#[test]
fn dynamic_slices() {
    check(
        Op::DynamicSlice { sizes: smallvec![2, 3] },
        &["4x4xf32", "i32", "i32"],
        &["2x3xf32"],
        "%3 = stablehlo.dynamic_slice %0, %1, %2, sizes = [2, 3] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
    );
    check(
        Op::DynamicUpdateSlice,
        &["4xf32", "2xf32", "i32"],
        &["4xf32"],
        "%3 = stablehlo.dynamic_update_slice %0, %1, %2 : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>",
    );
}

#[test]
fn fft() {
    check(
        Op::Fft { kind: FftKind::Rfft, lengths: smallvec![8] },
        &["4x8xf32"],
        &["4x5xcomplex<f32>"],
        "%1 = stablehlo.fft %0, type = RFFT, length = [8] : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>",
    );
}

#[test]
fn gather() {
    let gather = Gather {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![0],
        operand_batching_dims: smallvec![],
        start_indices_batching_dims: smallvec![],
        start_index_map: smallvec![0],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, 4],
        indices_are_sorted: false,
    };
    check(
        Op::Gather(Box::new(gather)),
        &["8x4xf32", "3x1xi32"],
        &["3x4xf32"],
        r#"%2 = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>"#,
    );
}

#[test]
fn if_of_two_branches() {
    OneOp::new(&["i1", "4xf32", "4xf32"]).branch(&[1, 2]).branch(&[2, 1]).check_first(
        Op::If,
        1,
        &["4xf32", "4xf32"],
        r#"%3, %4 = "stablehlo.if"(%0) ({
  stablehlo.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}, {
  stablehlo.return %2, %1 : tensor<4xf32>, tensor<4xf32>
}) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)"#,
    );
    OneOp::new(&["i1"]).branch(&[]).branch(&[]).check(
        Op::If,
        &[],
        "\"stablehlo.if\"(%0) ({\n  stablehlo.return\n}, {\n  stablehlo.return\n}) : (tensor<i1>) -> ()",
    );
}

#[test]
fn feeds_and_transfers() {
    check(
        Op::Infeed(Box::new(Feed { config: "a\"b".to_owned(), result_types: vec![ty("4xf32"), ty("token")] })),
        &["token"],
        &["4xf32", "token"],
        r#"%1, %2 = "stablehlo.infeed"(%0) <{infeed_config = "a\22b"}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)"#,
    );
    check(
        Op::Outfeed(Box::new(Feed { config: String::new(), result_types: vec![ty("token")] })),
        &["4xf32", "token"],
        &["token"],
        r#"%2 = "stablehlo.outfeed"(%0, %1) <{outfeed_config = ""}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token"#,
    );
    let transfer = |channel_type| {
        Box::new(Transfer { channel: 5, channel_type, is_host_transfer: true, result_types: vec![ty("token")] })
    };
    check(
        Op::Recv(transfer(3)),
        &["token"],
        &["4xf32", "token"],
        r#"%1, %2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)"#,
    );
    check(
        Op::Send(transfer(2)),
        &["4xf32", "token"],
        &["token"],
        r#"%2 = "stablehlo.send"(%0, %1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token"#,
    );
}

#[test]
fn iota() {
    check(
        Op::Iota { dim: 1, ty: Box::new(ty("4x3xi32")) },
        &[],
        &["4x3xi32"],
        "%0 = stablehlo.iota dim = 1 : tensor<4x3xi32>",
    );
}

#[test]
fn map() {
    OneOp::new(&["4x3xf32", "4x3xf32"]).sum("f32").check(
        Op::Map,
        &["4x3xf32"],
        r#"%5 = "stablehlo.map"(%0, %1) <{dimensions = array<i64: 0, 1>}> ({
^bb0(%2: tensor<f32>, %3: tensor<f32>):
  %4 = stablehlo.add %2, %3 : tensor<f32>
  stablehlo.return %4 : tensor<f32>
}) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>"#,
    );
}

#[test]
fn opaque() {
    let opaque = Opaque {
        name: "stablehlo.dynamic_iota".to_owned(),
        result_types: vec![ty("4xf32")],
        attributes: vec![("iota_dimension".to_owned(), "0 : i64".to_owned())],
    };
    check(
        Op::Opaque(Box::new(opaque)),
        &["1xi64"],
        &["4xf32"],
        r#"%1 = "stablehlo.dynamic_iota"(%0) {iota_dimension = 0 : i64} : (tensor<1xi64>) -> tensor<4xf32>"#,
    );
}

#[test]
fn optimization_barrier() {
    check(
        Op::OptimizationBarrier,
        &["4xf32", "i32"],
        &["4xf32", "i32"],
        "%2, %3 = stablehlo.optimization_barrier %0, %1 : tensor<4xf32>, tensor<i32>",
    );
    check(Op::OptimizationBarrier, &[], &[], r#""stablehlo.optimization_barrier"() : () -> ()"#);
}

#[test]
fn pad() {
    check(
        Op::Pad(Box::new(Pad { low: smallvec![0, -1], high: smallvec![1, 1], interior: smallvec![0, 1] })),
        &["4x4xf32", "f32"],
        &["5x7xf32"],
        "%2 = stablehlo.pad %0, %1, low = [0, -1], high = [1, 1], interior = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<5x7xf32>",
    );
}

#[test]
fn process_ids() {
    check(Op::PartitionId, &[], &["ui32"], "%0 = stablehlo.partition_id : tensor<ui32>");
    check(Op::ReplicaId, &[], &["ui32"], "%0 = stablehlo.replica_id : tensor<ui32>");
}

#[test]
fn reduce() {
    OneOp::new(&["4x3xf32", "f32"]).sum("f32").check(
        Op::Reduce { dims: smallvec![1] },
        &["4xf32"],
        "%5 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>",
    );
    // The short form stands for commutative ops only.
    OneOp::new(&["4xf32", "f32"]).region(Op::Binary(Binary::Subtract), &["f32", "f32"], "f32").check(
        Op::Reduce { dims: smallvec![0] },
        &["f32"],
        "%5 = stablehlo.reduce(%0 init: %1) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
 reducer(%2: tensor<f32>, %3: tensor<f32>) {
  %4 = stablehlo.subtract %2, %3 : tensor<f32>
  stablehlo.return %4 : tensor<f32>
}",
    );
    OneOp::new(&["4xf32", "4xi32", "f32", "i32"]).giving(&["f32", "i32", "f32", "i32"], &[2, 1]).check(
        Op::Reduce { dims: smallvec![0] },
        &["f32", "i32"],
        "%8, %9 = stablehlo.reduce(%0 init: %2), (%1 init: %3) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
 reducer(%4: tensor<f32>, %6: tensor<f32>) (%5: tensor<i32>, %7: tensor<i32>) {
  stablehlo.return %6, %5 : tensor<f32>, tensor<i32>
}",
    );
}

#[test]
fn reduce_keeps_the_location_of_its_region() {
    let op = Op::Reduce { dims: smallvec![0] };
    let mut program = OneOp::new(&["4xf32", "f32"]).sum("f32").finish(op, 2, &["f32"]);
    let location = Location { scope: Arc::from("sum"), ..Location::unknown() };
    let reduce = program.body().ops[0];
    program.ops[reduce].location = program.locations.push(location);
    let options = PrintOptions { locations: true, attention: AttentionForm::CustomCall };
    assert_eq!(
        body_text(&print(&program, options)),
        r#"%5 = stablehlo.reduce(%0 init: %1) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
 reducer(%2: tensor<f32>, %3: tensor<f32>) {
  %4 = stablehlo.add %2, %3 : tensor<f32> loc(unknown)
  stablehlo.return %4 : tensor<f32>
} loc("sum")"#
    );
}

#[test]
fn reduce_precision() {
    check(
        Op::ReducePrecision { exponent_bits: 5, mantissa_bits: 10 },
        &["4xf32"],
        &["4xf32"],
        "%1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<4xf32>",
    );
}

#[test]
fn reduce_scatter() {
    OneOp::new(&["4x4xf32"]).sum("f32").check(
        Op::ReduceScatter(Box::new(ReduceScatter { dim: 0, factor: 2, collective: channeled() })),
        &["2x4xf32"],
        r#"%4 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
^bb0(%1: tensor<f32>, %2: tensor<f32>):
  %3 = stablehlo.add %1, %2 : tensor<f32>
  stablehlo.return %3 : tensor<f32>
}) : (tensor<4x4xf32>) -> tensor<2x4xf32>"#,
    );
}

#[test]
fn reduce_window() {
    let window = Window {
        sizes: smallvec![2, 1],
        strides: smallvec![2, 1],
        base_dilation: smallvec![1, 1],
        window_dilation: smallvec![1, 1],
        padding: smallvec![(0, 0), (1, 0)],
    };
    OneOp::new(&["4x4xf32", "f32"]).sum("f32").check(
        Op::ReduceWindow(Box::new(window)),
        &["2x5xf32"],
        r#"%5 = "stablehlo.reduce_window"(%0, %1) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
^bb0(%2: tensor<f32>, %3: tensor<f32>):
  %4 = stablehlo.add %2, %3 : tensor<f32>
  stablehlo.return %4 : tensor<f32>
}) : (tensor<4x4xf32>, tensor<f32>) -> tensor<2x5xf32>"#,
    );
}

#[test]
fn reshape() {
    check(
        Op::Reshape { shape: smallvec![8] },
        &["4x2xf32"],
        &["8xf32"],
        "%1 = stablehlo.reshape %0 : (tensor<4x2xf32>) -> tensor<8xf32>",
    );
}

#[test]
fn reverse() {
    check(
        Op::Reverse { dims: smallvec![0, 1] },
        &["4x2xf32"],
        &["4x2xf32"],
        "%1 = stablehlo.reverse %0, dims = [0, 1] : tensor<4x2xf32>",
    );
}

#[test]
fn random_numbers() {
    check(
        Op::Rng { distribution: Distribution::Uniform, shape: smallvec![4, 2] },
        &["f32", "f32", "2xi64"],
        &["4x2xf32"],
        "%3 = stablehlo.rng %0, %1, %2, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x2xf32>",
    );
    check(
        Op::RngBitGenerator { algorithm: Algorithm::ThreeFry, ty: Box::new(ty("4xui32")) },
        &["2xui64"],
        &["2xui64", "4xui32"],
        "%1, %2 = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)",
    );
}

#[test]
fn scatter() {
    let scatter = Scatter {
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        input_batching_dims: smallvec![],
        scatter_indices_batching_dims: smallvec![],
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: true,
    };
    OneOp::new(&["8x4xf32", "3x1xi32", "3x4xf32"]).sum("f32").check(
        Op::Scatter(Box::new(scatter)),
        &["8x4xf32"],
        r#"%6 = "stablehlo.scatter"(%0, %1, %2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
^bb0(%3: tensor<f32>, %4: tensor<f32>):
  %5 = stablehlo.add %3, %4 : tensor<f32>
  stablehlo.return %5 : tensor<f32>
}) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>"#,
    );
}

#[test]
fn select() {
    check(
        Op::Select,
        &["i1", "4xf32", "4xf32"],
        &["4xf32"],
        "%3 = stablehlo.select %0, %1, %2 : tensor<i1>, tensor<4xf32>",
    );
}

#[test]
fn select_and_scatter() {
    let greater = Op::Compare { direction: Direction::GreaterOrEqual, order: Order::Natural };
    let window =
        SelectAndScatter { window: smallvec![2], strides: smallvec![2], padding: smallvec![(0, 0)] };
    OneOp::new(&["4xf32", "2xf32", "f32"]).region(greater, &["f32", "f32"], "i1").sum("f32").check(
        Op::SelectAndScatter(Box::new(window)),
        &["4xf32"],
        r#"%9 = "stablehlo.select_and_scatter"(%0, %1, %2) <{padding = dense<[[0, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
^bb0(%3: tensor<f32>, %4: tensor<f32>):
  %5 = stablehlo.compare GE, %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %5 : tensor<i1>
}, {
^bb0(%6: tensor<f32>, %7: tensor<f32>):
  %8 = stablehlo.add %6, %7 : tensor<f32>
  stablehlo.return %8 : tensor<f32>
}) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>"#,
    );
}

#[test]
fn slice() {
    let slice = Slice { start: smallvec![0, 1], limit: smallvec![2, 4], strides: smallvec![1, 2] };
    check(
        Op::Slice(Box::new(slice)),
        &["4x4xf32"],
        &["2x2xf32"],
        "%1 = stablehlo.slice %0 [0:2, 1:4:2] : (tensor<4x4xf32>) -> tensor<2x2xf32>",
    );
}

#[test]
fn sort() {
    let less = Op::Compare { direction: Direction::Less, order: Order::TotalOrder };
    OneOp::new(&["4x3xf32", "4x3xi32"]).region(less, &["f32", "f32", "i32", "i32"], "i1").check(
        Op::Sort { dim: 1, stable: true },
        &["4x3xf32", "4x3xi32"],
        r#"%7, %8 = "stablehlo.sort"(%0, %1) <{dimension = 1 : i64, is_stable = true}> ({
^bb0(%2: tensor<f32>, %3: tensor<f32>, %4: tensor<i32>, %5: tensor<i32>):
  %6 = stablehlo.compare LT, %2, %3, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %6 : tensor<i1>
}) : (tensor<4x3xf32>, tensor<4x3xi32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)"#,
    );
}

#[test]
fn top_k() {
    check(
        Op::TopK { k: 2 },
        &["4x8xf32"],
        &["4x2xf32", "4x2xi32"],
        "%1, %2 = chlo.top_k(%0, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)",
    );
}

#[test]
fn transpose() {
    check(
        Op::Transpose { permutation: smallvec![1, 0] },
        &["4x2xf32"],
        &["2x4xf32"],
        "%1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>",
    );
}

#[test]
fn triangular_solve() {
    let solve =
        TriangularSolve { left_side: true, lower: false, unit_diagonal: false, transpose_a: TransposeA::Adjoint };
    check(
        Op::TriangularSolve(solve),
        &["4x4xf32", "4x2xf32"],
        &["4x2xf32"],
        r#"%2 = "stablehlo.triangular_solve"(%0, %1) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>"#,
    );
}

#[test]
fn unary() {
    for &unary in Unary::ALL {
        let name = unary.name();
        let (operand, result) = match unary {
            Unary::Conj => ("4xcomplex<f32>", "4xcomplex<f32>"),
            Unary::CountLeadingZeros | Unary::Not | Unary::PopulationCount => ("4xi32", "4xi32"),
            Unary::Imag | Unary::Real => ("4xcomplex<f32>", "4xf32"),
            Unary::IsFinite | Unary::IsInf | Unary::IsNegInf | Unary::IsPosInf => ("4xf32", "4xi1"),
            _ => ("4xf32", "4xf32"),
        };
        let types = match (name.starts_with("chlo."), operand == result) {
            (true, _) => format!("tensor<{operand}> -> tensor<{result}>"),
            (false, true) => format!("tensor<{operand}>"),
            (false, false) => format!("(tensor<{operand}>) -> tensor<{result}>"),
        };
        check(Op::Unary(unary), &[operand], &[result], &format!("%1 = {name} %0 : {types}"));
    }
}

#[test]
fn while_loop() {
    let less = Op::Compare { direction: Direction::Less, order: Order::Signed };
    OneOp::new(&["i32", "i32"]).region(less, &["i32", "i32"], "i1").giving(&["i32", "i32"], &[1, 0]).check(
        Op::While,
        &["i32", "i32"],
        r#"%7, %8 = "stablehlo.while"(%0, %1) ({
^bb0(%2: tensor<i32>, %3: tensor<i32>):
  %4 = stablehlo.compare LT, %2, %3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %4 : tensor<i1>
}, {
^bb0(%5: tensor<i32>, %6: tensor<i32>):
  stablehlo.return %6, %5 : tensor<i32>, tensor<i32>
}) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)"#,
    );
}

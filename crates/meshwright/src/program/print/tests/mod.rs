//! One op at a time: the op with the types of its operands and results, and the text expected.

mod attention;
mod generic;
mod literal;
mod short;

use std::sync::Arc;

use super::parts::LocationText;
use super::{AttentionForm, PrintOptions, print};
use crate::program::{Argument, Binary, DType, Location, Op, Program, RegionId, ResultInfo, Shape, Type, ValueId};

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
        let op = self.program.add_op_with_types(region, op, operands, &[], [ty(result)], Program::UNKNOWN_LOCATION);
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
    let located =
        expected.replace("%1 : tensor<4x4xf32>", r#"%1 : tensor<4x4xf32> loc("jit(step)/add"("step.py":3:5))"#);
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

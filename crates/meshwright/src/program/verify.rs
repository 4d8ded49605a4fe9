//! Checks that a program is well formed.

use std::error::Error;
use std::fmt;

use super::{Definition, Id, MAXIMUM_NESTING, OpId, Operation, Program, RegionId, ValueId, countable, infer, plural};

impl Program {
    /// Whether every value is defined once, before it is used and where it can be seen, every
    /// region has one place, and every op has the types that follow from its operands. Rows that
    /// nothing reaches from the body are not looked at.
    pub fn verify(&self) -> Result<(), VerifyError> {
        let mut verifier = Verifier {
            program: self,
            visible: vec![false; self.values.len()],
            ops_seen: vec![false; self.ops.len()],
            regions_seen: vec![false; self.regions.len()],
        };
        verifier.region(self.body, 0).map_err(|(op, message)| VerifyError { op, message })?;
        self.verify_interface().map_err(|message| VerifyError { op: None, message })
    }

    /// Whether what callers know of the arguments and results fits the body, which is already checked.
    pub(crate) fn verify_interface(&self) -> Result<(), String> {
        let (program, body) = (self, self.body());
        if program.arguments.len() != body.arguments.len() {
            let (described, actual) = (program.arguments.len(), body.arguments.len());
            return Err(format!("{described} arguments are described, the body has {actual}"));
        }
        if program.results.len() != body.results.len() {
            let (described, actual) = (program.results.len(), body.results.len());
            return Err(format!("{described} results are described, the body has {actual}"));
        }
        let mut overwrites: Vec<Option<usize>> = vec![None; body.results.len()];
        for (index, argument) in program.arguments.iter().enumerate() {
            let Some(alias) = argument.alias else { continue };
            let Some(&result) = body.results.get(alias) else {
                return Err(format!("argument {index} becomes result {alias}, but there are {}", body.results.len()));
            };
            let (from, to) = (program.ty(body.arguments[index]), program.ty(result));
            if from != to {
                return Err(format!("argument {index} is `{from}` and cannot become result {alias}, `{to}`"));
            }
            if let Some(other) = overwrites[alias].replace(index) {
                return Err(format!("arguments {other} and {index} both become result {alias}"));
            }
        }
        Ok(())
    }
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The op at fault, where it is one.
    pub op: Option<OpId>,
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.op {
            write!(f, "{op}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl Error for VerifyError {}

/// The op at fault, if any, and the message.
type Fault = (Option<OpId>, String);

struct Verifier<'a> {
    program: &'a Program,
    /// For each value, whether it is defined before the current place, in this region or around it.
    visible: Vec<bool>,
    ops_seen: Vec<bool>,
    regions_seen: Vec<bool>,
}

impl Verifier<'_> {
    fn region(&mut self, id: RegionId, depth: usize) -> Result<(), Fault> {
        let outside = |message: String| (None, message);
        let program = self.program;
        let Some(region) = program.regions.get(id) else {
            return Err(outside(format!("there is no region {id}")));
        };
        if depth > MAXIMUM_NESTING {
            return Err(outside(format!("regions are nested more than {MAXIMUM_NESTING} deep")));
        }
        if std::mem::replace(&mut self.regions_seen[id.index()], true) {
            return Err(outside(format!("region {id} has two places")));
        }
        for (index, &argument) in region.arguments.iter().enumerate() {
            self.define(argument, index, |index| Definition::Argument { region: id, index }).map_err(outside)?;
        }
        for &op in &region.ops {
            let Some(operation) = program.ops.get(op) else {
                return Err(outside(format!("there is no {op}")));
            };
            if std::mem::replace(&mut self.ops_seen[op.index()], true) {
                return Err((Some(op), format!("{op} has two places")));
            }
            self.operation(op, operation, depth)?;
        }
        for &result in &region.results {
            self.is_visible(result).map_err(outside)?;
        }
        // From here on only the regions around this one matter.
        for &argument in &region.arguments {
            self.visible[argument.index()] = false;
        }
        for &op in &region.ops {
            for result in &program.ops[op].results {
                self.visible[result.index()] = false;
            }
        }
        Ok(())
    }

    fn operation(&mut self, id: OpId, operation: &Operation, depth: usize) -> Result<(), Fault> {
        let program = self.program;
        let at_fault = |message: String| (Some(id), message);
        for &operand in &operation.operands {
            self.is_visible(operand).map_err(at_fault)?;
        }
        for &region in &operation.regions {
            // The innermost op at fault is the one to name.
            self.region(region, depth + 1).map_err(|(op, message)| (op.or(Some(id)), message))?;
        }
        if program.locations.get(operation.location).is_none() {
            return Err(at_fault(format!("there is no location {}", operation.location)));
        }
        let types = infer(program, &operation.op, &operation.operands, &operation.regions).map_err(at_fault)?;
        if types.len() != operation.results.len() {
            let expected = plural(types.len(), "result");
            return Err(at_fault(format!("expected {expected}, got {}", operation.results.len())));
        }
        for (index, (&result, ty)) in operation.results.iter().zip(&types).enumerate() {
            self.define(result, index, |index| Definition::Result { op: id, index }).map_err(at_fault)?;
            let declared = program.ty(result);
            if declared != ty {
                return Err(at_fault(format!("result {index} is `{ty}`, but `{declared}` is declared")));
            }
        }
        Ok(())
    }

    /// Makes a value visible. That its row says where it is defined also rules out that another
    /// place defines it.
    fn define(&mut self, id: ValueId, index: usize, definition: impl Fn(u32) -> Definition) -> Result<(), String> {
        let value = self.program.values.get(id).ok_or_else(|| format!("there is no value {id}"))?;
        if u32::try_from(index).ok().map(definition) != Some(value.definition) {
            return Err(format!("value {id} is defined in another place"));
        }
        countable(&value.ty)?;
        self.visible[id.index()] = true;
        Ok(())
    }

    fn is_visible(&self, id: ValueId) -> Result<(), String> {
        match self.visible.get(id.index()) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("value {id} is used where it cannot be seen")),
            None => Err(format!("there is no value {id}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    const HERE: LocationId = Program::UNKNOWN_LOCATION;

    fn scalar() -> Type {
        Type::scalar(DType::F32)
    }

    /// `(x, p) -> tanh(x), if p { x } else { tanh(x) }`: ops 0 and 1 in the body, op 2 in the
    /// first branch, which is region 1. The first argument becomes the first result.
    fn example() -> Program {
        let mut program = Program::new("example");
        let body = program.body;
        let x = program.add_argument(Argument { alias: Some(0), ..Argument::default() }, scalar());
        let p = program.add_argument(Argument::default(), Type::scalar(DType::Bool));
        let tanh = program.add_op(body, Op::Unary(Unary::Tanh), &[x], &[], HERE).unwrap();
        let y = program.ops[tanh].results[0];
        let (on_true, on_false) = (program.add_region(), program.add_region());
        let sine = Op::Unary(Unary::Sine);
        let inner = program.add_op(on_true, sine, &[x], &[], HERE).unwrap();
        program.regions[on_true].results = vec![program.ops[inner].results[0]];
        program.regions[on_false].results = vec![y];
        let branch = program.add_op(body, Op::If, &[p], &[on_true, on_false], HERE).unwrap();
        program.add_result(y, ResultInfo::default());
        program.add_result(program.ops[branch].results[0], ResultInfo::default());
        program
    }

    /// Changes the example and says what is then wrong with it, or nothing.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Program), expected: &str) {
        let mut program = example();
        change(&mut program);
        let actual = program.verify().map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(actual, expected);
    }

    const TANH: OpId = OpId(0);
    const SINE: OpId = OpId(1);
    const IF: OpId = OpId(2);
    const BODY: RegionId = RegionId(0);
    const ON_TRUE: RegionId = RegionId(1);
    const ON_FALSE: RegionId = RegionId(2);

    #[test]
    fn the_example_is_well_formed() {
        check(|_| (), "");
    }

    #[test]
    fn rows_that_nothing_reaches_are_not_looked_at() {
        check(
            |program| {
                let region = program.add_region();
                program.add_op_with_types(region, Op::Clamp, &[ValueId(99)], &[], [], HERE);
            },
            "",
        );
    }

    #[test]
    fn values_are_defined_before_use_and_visible() {
        check(|it| it.regions[BODY].ops.swap(0, 1), "op2: value %2 is used where it cannot be seen");
        check(|it| it.ops[TANH].operands[0] = ValueId(2), "op0: value %2 is used where it cannot be seen");
        check(|it| it.ops[IF].operands[0] = ValueId(3), "op2: value %3 is used where it cannot be seen");
        check(|it| it.regions[ON_FALSE].results[0] = ValueId(3), "op2: value %3 is used where it cannot be seen");
        check(|it| it.regions[BODY].results[0] = ValueId(3), "value %3 is used where it cannot be seen");
        check(|it| it.ops[SINE].operands[0] = ValueId(4), "op1: value %4 is used where it cannot be seen");
    }

    #[test]
    fn everything_has_one_place() {
        check(|it| it.ops[IF].regions[1] = ON_TRUE, "op2: region ^bb1 has two places");
        check(|it| it.ops[IF].regions[1] = BODY, "op2: region ^bb0 has two places");
        check(|it| it.regions[ON_FALSE].ops.push(SINE), "op1: op1 has two places");
        check(|it| it.regions[ON_TRUE].ops.push(IF), "op2: op2 has two places");
        check(|it| it.ops[SINE].results[0] = ValueId(2), "op1: value %2 is defined in another place");
        check(|it| it.regions[BODY].arguments.swap(0, 1), "value %1 is defined in another place");
        check(|it| it.regions[ON_TRUE].arguments.push(ValueId(0)), "op2: value %0 is defined in another place");
    }

    #[test]
    fn ids_that_name_nothing_are_errors() {
        check(|it| it.body = RegionId(9), "there is no region ^bb9");
        check(|it| it.regions[BODY].ops.push(OpId(9)), "there is no op9");
        check(|it| it.regions[BODY].arguments.push(ValueId(9)), "there is no value %9");
        check(|it| it.regions[BODY].results.push(ValueId(9)), "there is no value %9");
        check(|it| it.ops[TANH].operands[0] = ValueId(9), "op0: there is no value %9");
        check(|it| it.ops[TANH].results[0] = ValueId(9), "op0: there is no value %9");
        check(|it| it.ops[IF].regions[0] = RegionId(9), "op2: there is no region ^bb9");
        check(|it| it.ops[TANH].location = LocationId(9), "op0: there is no location #loc9");
    }

    #[test]
    fn declared_types_are_the_inferred_ones() {
        let message = "op0: result 0 is `tensor<f32>`, but `tensor<i32>` is declared";
        check(|it| it.values[ValueId(2)].ty.dtype = DType::I32, message);
        check(|it| it.ops[TANH].results.clear(), "op0: expected 1 result, got 0");
        let message = "op2: result 0 of branch 1 must be `tensor<f32>`, got `tensor<i1>`";
        check(|it| it.regions[ON_FALSE].results[0] = ValueId(1), message);
        let message = "`tensor<4611686018427387904xf32>` has more elements than 63 bits can count";
        check(|it| it.values[ValueId(0)].ty.shape.push(1 << 62), message);
    }

    #[test]
    fn the_interface_fits_the_body() {
        check(|it| it.arguments.truncate(1), "1 arguments are described, the body has 2");
        check(|it| it.results.push(ResultInfo::default()), "3 results are described, the body has 2");
        check(|it| it.arguments[0].alias = Some(2), "argument 0 becomes result 2, but there are 2");
        let message = "argument 1 is `tensor<i1>` and cannot become result 1, `tensor<f32>`";
        check(|it| it.arguments[1].alias = Some(1), message);
        check(
            |program| {
                program.add_argument(Argument { alias: Some(0), ..Argument::default() }, scalar());
            },
            "arguments 0 and 2 both become result 0",
        );
    }

    /// A program of `depth` regions, each inside the one before.
    fn nested(depth: usize) -> Program {
        let mut program = Program::new("nested");
        let mut region = program.body;
        for _ in 0..depth {
            let inner = program.add_region();
            let opaque = Opaque { name: "x.nest".to_owned(), result_types: Vec::new(), attributes: Vec::new() };
            program.add_op(region, Op::Opaque(Box::new(opaque)), &[], &[inner], HERE).unwrap();
            region = inner;
        }
        program
    }

    #[test]
    fn nesting_is_limited() {
        assert_eq!(nested(MAXIMUM_NESTING).verify(), Ok(()));
        let error = nested(100_000).verify().unwrap_err();
        assert_eq!(error.to_string(), "op128: regions are nested more than 128 deep");
    }
}

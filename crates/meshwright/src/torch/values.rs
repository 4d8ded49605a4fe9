//! What values are in the source: tensors, or numbers of Python.

use crate::program::{Binary, DType, Id, Literal, Op, OpId, Program, RegionId, Type, ValueId};

/// How a value stands in the source.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// A tensor under the value's own name.
    Tensor,
    /// A number that is in every place of the value. Nothing is made of it before it is read.
    Number { text: String, known: Option<f64> },
}

/// The forms of all values. Constants that are the same everywhere are numbers, and so is what follows from the number
/// of a device or of a trip alone: PyTorch would have to wait for a device to know where a slice begins.
pub(super) fn forms(program: &Program) -> Vec<Form> {
    let mut forms = vec![Form::Tensor; program.values.len()];
    region(program, program.body, &mut forms);
    forms
}

pub(super) fn name(value: ValueId) -> String {
    format!("v{}", value.index())
}

fn region(program: &Program, region_id: RegionId, forms: &mut [Form]) {
    for &op in &program.regions[region_id].ops {
        if let Op::While = program.ops[op].op {
            carried(program, op, forms);
        }
        program.ops[op].regions.iter().for_each(|&inner| region(program, inner, forms));
        if let Some(form) = number(program, op, forms) {
            forms[program.ops[op].results[0].index()] = form;
        }
    }
}

/// What a loop counts with is a number, and what it carries unchanged stays what it is.
fn carried(program: &Program, op: OpId, forms: &mut [Form]) {
    let operation = &program.ops[op];
    let counted = program.counted_loop(op);
    for (index, &operand) in operation.operands.iter().enumerate() {
        let is_counter = counted.as_ref().is_some_and(|counted| counted.counter == index);
        let argument = |region: usize| program.regions[operation.regions[region]].arguments[index];
        let (inside, after) = match (&counted, &forms[operand.index()]) {
            (Some(counted), _) if is_counter => {
                let last = counted.start + counted.trips as i64 * counted.step;
                let inside = Form::Number { text: name(argument(1)), known: None };
                (inside, Form::Number { text: last.to_string(), known: Some(last as f64) })
            }
            (_, number @ Form::Number { .. }) if program.carries_unchanged(op, index) => {
                (number.clone(), number.clone())
            }
            _ => continue,
        };
        forms[argument(0).index()] = inside.clone();
        forms[argument(1).index()] = inside;
        forms[operation.results[index].index()] = after;
    }
}

fn number(program: &Program, op: OpId, forms: &[Form]) -> Option<Form> {
    let operation = &program.ops[op];
    let &[result] = operation.results.as_slice() else { return None };
    let ty = program.ty(result);
    let operand = |index: usize| match &forms[operation.operands[index].index()] {
        Form::Number { text, known } => Some((text, *known)),
        Form::Tensor => None,
    };
    match &operation.op {
        Op::Constant(literal) => literal_number(literal),
        Op::BroadcastInDim(_) | Op::Reshape { .. } => {
            let (text, known) = operand(0)?;
            Some(Form::Number { text: text.clone(), known })
        }
        Op::Convert { dtype } => match operand(0)? {
            (_, Some(number)) => literal_number(&Literal::splat_number(Type::scalar(*dtype), number)),
            (text, None) if dtype.is_integer() => Some(Form::Number { text: text.clone(), known: None }),
            (text, None) if *dtype == DType::Bool => Some(Form::Number { text: format!("bool({text})"), known: None }),
            (text, None) => Some(Form::Number { text: format!("float({text})"), known: None }),
        },
        Op::PartitionId => Some(Form::Number { text: "rank".to_owned(), known: None }),
        Op::ReplicaId => Some(Form::Number { text: "0".to_owned(), known: Some(0.0) }),
        Op::Binary(_) | Op::Compare { .. } | Op::Select | Op::Clamp => {
            let is_whole = |value: ValueId| {
                let ty = program.ty(value);
                ty.rank() == 0 && !ty.dtype.is_float() && !ty.dtype.is_complex()
            };
            let numbers = (0..operation.operands.len()).all(|index| operand(index).is_some());
            let whole = is_whole(result) && operation.operands.iter().all(|&value| is_whole(value));
            let has_words = !matches!(&operation.op, Op::Binary(binary) if !IN_PYTHON.contains(binary));
            (numbers && whole && has_words && ty.dtype != DType::Token)
                .then(|| Form::Number { text: name(result), known: None })
        }
        _ => None,
    }
}

/// Binary ops that Python computes on whole numbers as programs do.
const IN_PYTHON: [Binary; 8] = [
    Binary::Add,
    Binary::And,
    Binary::Divide,
    Binary::Maximum,
    Binary::Minimum,
    Binary::Multiply,
    Binary::Remainder,
    Binary::Subtract,
];

fn literal_number(literal: &Literal) -> Option<Form> {
    if literal.ty.dtype == DType::Bool {
        let is_true = literal.as_splat()? != 0;
        let text = if is_true { "True" } else { "False" };
        return Some(Form::Number { text: text.to_owned(), known: Some(f64::from(u8::from(is_true))) });
    }
    if let Some(integer) = literal.as_splat_integer() {
        return Some(Form::Number { text: integer.to_string(), known: Some(integer as f64) });
    }
    let number = literal.as_splat_number()?;
    Some(Form::Number { text: number_text(literal.ty.dtype, number), known: Some(number) })
}

/// The shortest text that is read back as the number, once that is rounded to the type. Of the largest number that would be
/// more than there is in the type.
fn number_text(dtype: DType, number: f64) -> String {
    let text = match dtype {
        DType::F32 if number.abs() < f64::from(f32::MAX) => format!("{:?}", number as f32),
        _ => format!("{number:?}"),
    };
    if number.is_nan() { "nan".to_owned() } else { text }
}

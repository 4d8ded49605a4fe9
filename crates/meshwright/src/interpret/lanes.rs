//! Regions that compute scalars from scalars: the functions of reductions, sorts and scatters.
//!
//! A region of elementwise ops is run on many scalars side by side, one lane each, with the
//! kernels that whole tensors use. A region with anything else in it is evaluated scalar by scalar.

use std::sync::Arc;

use crate::program::{Binary, Definition, Op, Program, RegionId, Type, Unary, ValueId};

use super::control::Machine;
use super::elementwise::{
    binary_float, binary_integer, classify, compare_data, convert_data, reduce_precision_float, select_data,
    unary_float, unary_integer,
};
use super::tensor::{Data, Tensor, unsupported};

/// A region ready to be called on scalars.
pub(super) struct Function<'p> {
    region: RegionId,
    /// One register for each value the region reads or makes, or `None` where the region has to be
    /// evaluated scalar by scalar.
    registers: Option<Registers<'p>>,
}

struct Registers<'p> {
    lanes: usize,
    values: Vec<Data>,
    types: Vec<&'p Type>,
    arguments: Vec<usize>,
    results: Vec<usize>,
    steps: Vec<Step<'p>>,
}

struct Step<'p> {
    op: &'p Op,
    operands: [usize; 3],
    result: usize,
}

/// The region is one commutative op of its two arguments, or gives back one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Simple {
    Combine(Binary),
    First,
    Second,
}

/// What a region of two scalar arguments does, where it is one of the common things.
pub(super) fn simple(program: &Program, id: RegionId) -> Option<Simple> {
    let region = &program.regions[id];
    let (&[first, second], &[result]) = (&region.arguments[..], &region.results[..]) else { return None };
    if program.ty(first) != program.ty(second) {
        return None;
    }
    if region.ops.is_empty() {
        let given = [(first, Simple::First), (second, Simple::Second)];
        return given.into_iter().find(|(argument, _)| *argument == result).map(|(_, simple)| simple);
    }
    let binary = program.applied_binary(id)?;
    let commutes = matches!(
        binary,
        Binary::Add | Binary::And | Binary::Maximum | Binary::Minimum | Binary::Multiply | Binary::Or | Binary::Xor
    );
    commutes.then_some(Simple::Combine(binary))
}

impl<'p> Function<'p> {
    pub(super) fn new(machine: &Machine<'p>, region: RegionId, lanes: usize) -> Function<'p> {
        Function { region, registers: compile(machine, region, lanes) }
    }

    /// Calls the region on as many scalars at once as there are lanes. Inputs and outputs have that
    /// length; `types` are those of the inputs.
    pub(super) fn call(
        &mut self,
        machine: &mut Machine<'p>,
        inputs: &[&Data],
        types: &[&Type],
        outputs: &mut [&mut Data],
    ) -> Result<(), String> {
        let Some(registers) = &mut self.registers else {
            return call_one_by_one(machine, self.region, inputs, types, outputs);
        };
        for (&register, input) in registers.arguments.iter().zip(inputs) {
            copy(&mut registers.values[register], input);
        }
        for index in 0..registers.steps.len() {
            registers.step(index, machine.options.wide)?;
        }
        for (&register, output) in registers.results.iter().zip(outputs) {
            copy(output, &registers.values[register]);
        }
        Ok(())
    }
}

impl Registers<'_> {
    fn step(&mut self, index: usize, wide: bool) -> Result<(), String> {
        let Step { op, operands: [a, b, c], result } = self.steps[index];
        // The result is taken out of the table while the operands are read from it.
        let mut target = std::mem::replace(&mut self.values[result], Data::Raw(Vec::new()));
        let dtype = self.types[a].dtype;
        let values = &self.values;
        match (op, &mut target) {
            (Op::Unary(unary), Data::Float(target)) => {
                let Data::Float(source) = &values[a] else { return Err(unsupported(dtype)) };
                target.copy_from_slice(source);
                unary_float(*unary, dtype, wide, target)?;
            }
            (Op::Unary(unary), Data::Integer(target)) => match &values[a] {
                Data::Float(source) => classify(*unary, source, target),
                Data::Integer(source) => {
                    target.copy_from_slice(source);
                    unary_integer(*unary, dtype, target)?;
                }
                Data::Raw(_) => return Err(unsupported(dtype)),
            },
            (Op::Binary(binary), Data::Float(target)) => {
                let (Data::Float(left), Data::Float(right)) = (&values[a], &values[b]) else {
                    return Err(unsupported(dtype));
                };
                target.copy_from_slice(left);
                binary_float(*binary, dtype, wide, target, right)?;
            }
            (Op::Binary(binary), Data::Integer(target)) => {
                let (Data::Integer(left), Data::Integer(right)) = (&values[a], &values[b]) else {
                    return Err(unsupported(dtype));
                };
                target.copy_from_slice(left);
                binary_integer(*binary, dtype, target, right)?;
            }
            (Op::Compare { direction, order }, Data::Integer(target)) => {
                compare_data(*direction, *order, dtype, &values[a], &values[b], target)?;
            }
            (Op::Convert { dtype: to }, target) => convert_data(dtype, *to, wide, &values[a], target)?,
            (Op::Select, target) => {
                let Data::Integer(flags) = &values[a] else { return Err(unsupported(dtype)) };
                copy(target, &values[c]);
                select_data(flags, &values[b], target, self.types[b].dtype.stored_bytes());
            }
            (Op::ReducePrecision { exponent_bits, mantissa_bits }, target) => {
                copy(target, &values[a]);
                let Data::Float(target) = target else { return Err(unsupported(dtype)) };
                reduce_precision_float(dtype, *exponent_bits, *mantissa_bits, target);
            }
            (Op::Clamp, Data::Float(target)) => {
                let (Data::Float(low), Data::Float(operand), Data::Float(high)) = (&values[a], &values[b], &values[c])
                else {
                    return Err(unsupported(dtype));
                };
                target.copy_from_slice(operand);
                binary_float(Binary::Maximum, dtype, true, target, low)?;
                binary_float(Binary::Minimum, dtype, true, target, high)?;
            }
            (Op::Clamp, Data::Integer(target)) => {
                let (Data::Integer(low), Data::Integer(operand), Data::Integer(high)) =
                    (&values[a], &values[b], &values[c])
                else {
                    return Err(unsupported(dtype));
                };
                target.copy_from_slice(operand);
                binary_integer(Binary::Maximum, dtype, target, low)?;
                binary_integer(Binary::Minimum, dtype, target, high)?;
            }
            // Reshapes and the like of scalars.
            (_, target) => copy(target, &values[a]),
        }
        self.values[result] = target;
        Ok(())
    }
}

/// `None` where the region holds an op that does not work lane by lane.
fn compile<'p>(machine: &Machine<'p>, region: RegionId, lanes: usize) -> Option<Registers<'p>> {
    let program = machine.program;
    let body = &program.regions[region];
    let mut registers = Registers {
        lanes,
        values: Vec::new(),
        types: Vec::new(),
        arguments: Vec::new(),
        results: Vec::new(),
        steps: Vec::new(),
    };
    let mut known: Vec<(ValueId, usize)> = Vec::new();
    for &argument in &body.arguments {
        let register = registers.add(program.ty(argument))?;
        registers.arguments.push(register);
        known.push((argument, register));
    }
    for &id in &body.ops {
        let operation = &program.ops[id];
        let &[result] = &operation.results[..] else { return None };
        let ty = program.ty(result);
        if let Op::Constant(literal) = &operation.op {
            let register = registers.add(ty)?;
            fill(&mut registers.values[register], &Tensor::from_literal(literal));
            known.push((result, register));
            continue;
        }
        let works = match &operation.op {
            Op::Binary(_)
            | Op::BroadcastInDim(_)
            | Op::Clamp
            | Op::Compare { .. }
            | Op::Convert { .. }
            | Op::OptimizationBarrier
            | Op::ReducePrecision { .. }
            | Op::Reshape { .. }
            | Op::Select
            | Op::Transpose { .. } => true,
            Op::Unary(unary) => {
                // These two read the parts of a complex number as well.
                !matches!(unary, Unary::Real | Unary::Imag)
            }
            _ => false,
        };
        if !works || operation.operands.is_empty() || operation.operands.len() > 3 {
            return None;
        }
        let mut operands = [0; 3];
        for (slot, &operand) in operands.iter_mut().zip(&operation.operands) {
            *slot = registers.find(machine, &mut known, operand)?;
        }
        let register = registers.add(ty)?;
        registers.steps.push(Step { op: &operation.op, operands, result: register });
        known.push((result, register));
    }
    for &result in &body.results {
        let register = registers.find(machine, &mut known, result)?;
        registers.results.push(register);
    }
    Some(registers)
}

impl<'p> Registers<'p> {
    /// Only scalars (or tensors of one element) have lanes.
    fn add(&mut self, ty: &'p Type) -> Option<usize> {
        if ty.elements() != 1 {
            return None;
        }
        let wide = Type::new(ty.dtype, &[self.lanes]);
        self.values.push(Tensor::zeros(&wide).data);
        self.types.push(ty);
        Some(self.values.len() - 1)
    }

    fn find(&mut self, machine: &Machine<'p>, known: &mut Vec<(ValueId, usize)>, value: ValueId) -> Option<usize> {
        if let Some(&(_, register)) = known.iter().find(|(known, _)| *known == value) {
            return Some(register);
        }
        // A value of a region around this one: the same for every lane.
        let program = machine.program;
        if matches!(program.values[value].definition, Definition::Result { .. } | Definition::Argument { .. }) {
            let tensor = machine.value(value)?;
            let register = self.add(program.ty(value))?;
            fill(&mut self.values[register], &tensor);
            known.push((value, register));
            return Some(register);
        }
        None
    }
}

fn call_one_by_one<'p>(
    machine: &mut Machine<'p>,
    region: RegionId,
    inputs: &[&Data],
    types: &[&Type],
    outputs: &mut [&mut Data],
) -> Result<(), String> {
    let lanes = match inputs.first() {
        Some(Data::Float(values)) => values.len(),
        Some(Data::Integer(values)) => values.len(),
        Some(Data::Raw(bytes)) => bytes.len() / types[0].dtype.stored_bytes().max(1),
        None => 0,
    };
    for lane in 0..lanes {
        let arguments = inputs
            .iter()
            .zip(types)
            .map(|(data, ty)| Arc::new(Tensor { ty: Type::scalar(ty.dtype), data: element(data, ty, lane) }))
            .collect();
        let results = machine.region(region, arguments).map_err(|error| error.message)?;
        for (output, result) in outputs.iter_mut().zip(&results) {
            set_element(output, lane, &result.data);
        }
    }
    Ok(())
}

fn element(data: &Data, ty: &Type, index: usize) -> Data {
    match data {
        Data::Float(values) => Data::Float(vec![values[index]]),
        Data::Integer(values) => Data::Integer(vec![values[index]]),
        Data::Raw(bytes) => {
            let width = ty.dtype.stored_bytes();
            Data::Raw(bytes[index * width..][..width].to_vec())
        }
    }
}

fn set_element(data: &mut Data, index: usize, value: &Data) {
    match (data, value) {
        (Data::Float(values), Data::Float(value)) => values[index] = value[0],
        (Data::Integer(values), Data::Integer(value)) => values[index] = value[0],
        (Data::Raw(bytes), Data::Raw(value)) => bytes[index * value.len()..][..value.len()].copy_from_slice(value),
        _ => {}
    }
}

fn fill(data: &mut Data, scalar: &Tensor) {
    match (data, &scalar.data) {
        (Data::Float(values), Data::Float(one)) => values.fill(one[0]),
        (Data::Integer(values), Data::Integer(one)) => values.fill(one[0]),
        (Data::Raw(bytes), Data::Raw(one)) => {
            bytes.chunks_exact_mut(one.len().max(1)).for_each(|chunk| chunk.copy_from_slice(one));
        }
        _ => {}
    }
}

pub(super) fn copy(target: &mut Data, source: &Data) {
    match (target, source) {
        (Data::Float(target), Data::Float(source)) => target.copy_from_slice(source),
        (Data::Integer(target), Data::Integer(source)) => target.copy_from_slice(source),
        (Data::Raw(target), Data::Raw(source)) => target.copy_from_slice(source),
        _ => {}
    }
}

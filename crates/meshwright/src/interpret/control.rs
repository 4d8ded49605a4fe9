//! The machine that walks regions, and the ops that steer it.

use std::sync::Arc;

use crate::program::{Definition, Id, LocationId, Op, OpId, Operation, Program, RegionId, ValueId};

use super::devices::Process;
use super::lanes::Function;
use super::tensor::{Data, Tensor};
use super::{CheckFailure, EvaluateError, Options, apply};

/// The values a program has at one moment.
pub(super) struct Machine<'p> {
    pub(super) program: &'p Program,
    pub(super) options: Options,
    pub(super) process: Process<'p>,
    values: Vec<Option<Arc<Tensor>>>,
    lifetimes: &'p Lifetimes,
    pub(super) checks_passed: usize,
    pub(super) failures: Vec<CheckFailure>,
}

/// Where values are used for the last time, by op. A value that dies as an operand is handed over,
/// so that an op that changes a tensor can do so in place.
pub(super) struct Lifetimes {
    /// Values that nobody but the op itself reads.
    taken: Vec<Vec<ValueId>>,
    /// Values that a region of the op reads, and results that nobody reads.
    dropped: Vec<Vec<ValueId>>,
    /// The region each op stands in.
    home: Vec<Option<RegionId>>,
}

impl<'p> Machine<'p> {
    pub(super) fn new(
        program: &'p Program,
        lifetimes: &'p Lifetimes,
        options: Options,
        process: Process<'p>,
    ) -> Machine<'p> {
        Machine {
            program,
            options,
            process,
            values: vec![None; program.values.len()],
            lifetimes,
            checks_passed: 0,
            failures: Vec::new(),
        }
    }

    pub(super) fn value(&self, value: ValueId) -> Option<Arc<Tensor>> {
        self.values[value.index()].clone()
    }

    /// Evaluates a region on its arguments.
    pub(super) fn region(
        &mut self,
        id: RegionId,
        arguments: Vec<Arc<Tensor>>,
    ) -> Result<Vec<Arc<Tensor>>, EvaluateError> {
        let program = self.program;
        let region = &program.regions[id];
        for (&value, argument) in region.arguments.iter().zip(arguments) {
            self.values[value.index()] = Some(argument);
        }
        for &op in &region.ops {
            self.operation(op)?;
        }
        let mut results = Vec::with_capacity(region.results.len());
        for &value in &region.results {
            // A result may be given back twice, and may belong to a region around this one.
            let tensor = self.values[value.index()].clone();
            results.push(tensor.ok_or_else(|| missing(value, Program::UNKNOWN_LOCATION))?);
        }
        for &value in region.arguments.iter().chain(&region.results) {
            if home_of(program, value, &self.lifetimes.home) == Some(id) {
                self.values[value.index()] = None;
            }
        }
        Ok(results)
    }

    fn operation(&mut self, id: OpId) -> Result<(), EvaluateError> {
        let operation = &self.program.ops[id];
        let mut operands: Vec<Arc<Tensor>> = Vec::with_capacity(operation.operands.len());
        for (index, &value) in operation.operands.iter().enumerate() {
            let last = !operation.operands[index + 1..].contains(&value);
            let slot = &mut self.values[value.index()];
            let taken = last && self.lifetimes.taken[id.index()].contains(&value);
            let tensor = if taken { slot.take() } else { slot.clone() };
            operands.push(tensor.ok_or_else(|| missing(value, operation.location))?);
        }
        let results = match operation.op {
            // Errors inside these already know where they are.
            Op::If | Op::Case => self.branch(operation, &operands)?,
            Op::While => self.repeat(operation, operands)?,
            _ => {
                apply(self, id, operands).map_err(|message| EvaluateError { location: operation.location, message })?
            }
        };
        for (&value, tensor) in operation.results.iter().zip(results) {
            debug_assert_eq!(self.program.ty(value), &tensor.ty, "{}", operation.op.name());
            self.values[value.index()] = Some(tensor);
        }
        for value in &self.lifetimes.dropped[id.index()] {
            self.values[value.index()] = None;
        }
        Ok(())
    }

    fn branch(
        &mut self,
        operation: &'p Operation,
        operands: &[Arc<Tensor>],
    ) -> Result<Vec<Arc<Tensor>>, EvaluateError> {
        let fail = |message| EvaluateError { location: operation.location, message };
        let choice = operands.first().ok_or_else(|| fail("no branch index".to_owned()))?.index().map_err(fail)?;
        let branch = match operation.op {
            Op::If => usize::from(choice == 0),
            // An index out of range picks the last branch.
            _ => usize::try_from(choice).unwrap_or(usize::MAX).min(operation.regions.len() - 1),
        };
        self.region(operation.regions[branch], Vec::new())
    }

    fn repeat(
        &mut self,
        operation: &'p Operation,
        operands: Vec<Arc<Tensor>>,
    ) -> Result<Vec<Arc<Tensor>>, EvaluateError> {
        let (condition, body) = (operation.regions[0], operation.regions[1]);
        let mut carried = operands;
        loop {
            let flags = self.region(condition, carried.clone())?;
            let go_on = flags.first().map_or(Ok(0), |flag| flag.index());
            if go_on.map_err(|message| EvaluateError { location: operation.location, message })? == 0 {
                return Ok(carried);
            }
            carried = self.region(body, carried)?;
        }
    }

    /// Applies a scalar function to every element.
    pub(super) fn map(
        &mut self,
        operation: &'p Operation,
        operands: &[Arc<Tensor>],
    ) -> Result<Vec<Arc<Tensor>>, String> {
        let program = self.program;
        let result = program.ty(operation.results[0]);
        let mut function = Function::new(self, operation.regions[0], result.elements());
        let mut tensor = Tensor::zeros(result);
        let inputs: Vec<&Data> = operands.iter().map(|operand| &operand.data).collect();
        let types: Vec<_> = operands.iter().map(|operand| &operand.ty).collect();
        function.call(self, &inputs, &types, &mut [&mut tensor.data])?;
        Ok(vec![Arc::new(tensor)])
    }
}

fn missing(value: ValueId, location: LocationId) -> EvaluateError {
    EvaluateError { location, message: format!("{value} is read before it is made") }
}

pub(super) fn lifetimes(program: &Program) -> Lifetimes {
    // For each value the last op of its own region that reads it, itself or inside a region.
    let mut last: Vec<Option<(OpId, bool)>> = vec![None; program.values.len()];
    let mut kept = vec![false; program.values.len()];
    let mut home: Vec<Option<RegionId>> = vec![None; program.ops.len()];
    let mut stack = Vec::new();
    visit(program, program.body, &mut home, &mut stack, &mut last, &mut kept);
    let mut taken = vec![Vec::new(); program.ops.len()];
    let mut dropped = vec![Vec::new(); program.ops.len()];
    for (value, row) in program.values.iter() {
        if kept[value.index()] {
            continue;
        }
        match (last[value.index()], row.definition) {
            (Some((op, true)), _) => dropped[op.index()].push(value),
            (Some((op, false)), _) => taken[op.index()].push(value),
            (None, Definition::Result { op, .. }) => dropped[op.index()].push(value),
            (None, Definition::Argument { .. }) => {}
        }
    }
    Lifetimes { taken, dropped, home }
}

/// Walks a region in order and notes for every value that is read the op of its own region that
/// reads it, and whether the op does so only inside its regions.
fn visit(
    program: &Program,
    region: RegionId,
    home: &mut [Option<RegionId>],
    stack: &mut Vec<(RegionId, OpId)>,
    last: &mut [Option<(OpId, bool)>],
    kept: &mut [bool],
) {
    let body = &program.regions[region];
    for &id in &body.ops {
        home[id.index()] = Some(region);
    }
    for &id in &body.ops {
        stack.push((region, id));
        let operation = &program.ops[id];
        for &value in &operation.operands {
            note(program, value, home, stack, last);
        }
        for &inner in &operation.regions {
            visit(program, inner, home, stack, last, kept);
        }
        stack.pop();
    }
    for &value in &body.results {
        if home_of(program, value, home) == Some(region) {
            kept[value.index()] = true;
        } else {
            note(program, value, home, stack, last);
        }
    }
}

fn note(
    program: &Program,
    value: ValueId,
    home: &[Option<RegionId>],
    stack: &[(RegionId, OpId)],
    last: &mut [Option<(OpId, bool)>],
) {
    let own = home_of(program, value, home);
    let depth = stack.iter().rposition(|(region, _)| Some(*region) == own);
    if let Some(depth) = depth {
        let inside = depth + 1 < stack.len();
        let op = stack[depth].1;
        let slot = &mut last[value.index()];
        // Once a region of the op has read the value, the op must not take it away.
        let inside = inside || matches!(slot, Some((other, true)) if *other == op);
        *slot = Some((op, inside));
    }
}

fn home_of(program: &Program, value: ValueId, home: &[Option<RegionId>]) -> Option<RegionId> {
    match program.values[value].definition {
        Definition::Argument { region, .. } => Some(region),
        Definition::Result { op, .. } => home[op.index()],
    }
}

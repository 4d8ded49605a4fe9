//! Checks that a program is well formed.

use std::error::Error;
use std::fmt;

use super::infer::countable;
use super::{Definition, Id, OpId, Operation, Program, RegionId, ValueId, infer};

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
        interface(self).map_err(|message| VerifyError { op: None, message })
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

/// Regions inside regions, the body not counted. Everything that walks a program by recursion
/// relies on it.
const MAXIMUM_NESTING: usize = 256;

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
            return Err(at_fault(format!("expected {} results, got {}", types.len(), operation.results.len())));
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

/// What callers know of the arguments and results fits the body, which is already checked.
fn interface(program: &Program) -> Result<(), String> {
    let body = program.body();
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

//! Calls replaced by what they call, so that one function is left.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cursor::{Parse, error};
use super::parse::{Call, Function, Parsed};
use crate::program::{Copier, Location, LocationId, MAXIMUM_NESTING, OpId, Program, RegionId, ValueId};

/// A module whose calls expand to more ops than this is refused: it would not fit in memory.
const MAXIMUM_OPS: usize = 5_000_000;

/// The program of `main` (or of the only public function), calls inlined.
pub(super) fn inline(parsed: &Parsed<'_>) -> Parse<Program> {
    let main = choose_main(&parsed.functions)?;
    let by_name = parsed.functions.iter().enumerate().map(|(index, function)| (function.name, index)).collect();
    let mut inliner =
        Inliner { parsed, by_name, open: vec![main], depth: 0, composed: FxHashMap::default(), problem: None };
    let mut copier = Copier::new(&parsed.program);
    let function = &parsed.functions[main];
    copier.new.arguments = function.arguments.clone();
    copier.new.results = function.results.clone();
    let body = copier.new.body;
    inliner.copy_region(&mut copier, function.region, body, None);
    match inliner.problem {
        Some(problem) => Err(problem),
        None => Ok(copier.new),
    }
}

fn choose_main(functions: &[Function<'_>]) -> Parse<usize> {
    if let Some(main) = functions.iter().position(|function| function.name == "main") {
        return Ok(main);
    }
    let mut public = functions.iter().enumerate().filter(|(_, function)| function.is_public);
    match (public.next(), public.next()) {
        (Some((index, _)), None) => Ok(index),
        (None, _) => Err(error(0..0, "no function `main`", "the text has no public function")),
        (Some(_), Some((_, second))) => {
            Err(error(second.span.clone(), "no function `main`", "one of several public functions"))
        }
    }
}

struct Inliner<'f, 'a> {
    parsed: &'f Parsed<'a>,
    by_name: FxHashMap<&'a str, usize>,
    /// The functions that are being copied, outermost first.
    open: Vec<usize>,
    /// How many regions and calls the copy stands inside.
    depth: usize,
    /// Locations of (call, op of the callee).
    composed: FxHashMap<(LocationId, LocationId), LocationId>,
    /// The first error; copying stops at it.
    problem: Option<Box<super::Diagnostic>>,
}

impl<'f> Inliner<'f, '_> {
    /// Copies a region of main, or with `call` one of a callee as seen from there.
    fn copy_region(&mut self, copier: &mut Copier<'f>, from: RegionId, to: RegionId, call: Option<LocationId>) {
        copier.copy_arguments(from, to);
        self.copy_ops(copier, from, to, call);
        if self.problem.is_none() {
            copier.copy_results(from, to);
        }
    }

    fn copy_ops(&mut self, copier: &mut Copier<'f>, from: RegionId, to: RegionId, call: Option<LocationId>) {
        self.depth += 1;
        let parsed = self.parsed;
        for &op in &parsed.program.regions[from].ops {
            let location = self.location(copier, call, parsed.program.ops[op].location);
            match parsed.calls.get(&op) {
                Some(callee) => self.copy_call(copier, op, callee, to, location),
                None => {
                    copier.copy_op(op, to, location, &mut |copier, from, to| self.copy_region(copier, from, to, call));
                }
            }
            if self.problem.is_some() {
                return;
            }
        }
        self.depth -= 1;
    }

    fn copy_call(&mut self, copier: &mut Copier<'f>, op: OpId, call: &Call<'_>, to: RegionId, location: LocationId) {
        if let Err(problem) = self.try_copy_call(copier, op, call, to, location) {
            self.problem = Some(problem);
        }
    }

    fn try_copy_call(
        &mut self,
        copier: &mut Copier<'f>,
        op: OpId,
        call: &Call<'_>,
        to: RegionId,
        location: LocationId,
    ) -> Parse<()> {
        let parsed = self.parsed;
        let index = self.callee(call)?;
        let function = &parsed.functions[index];
        let (operation, callee) = (&parsed.program.ops[op], &parsed.program.regions[function.region]);
        check_types(&parsed.program, &operation.operands, &callee.arguments, &call.span, "takes other arguments")?;
        check_types(&parsed.program, &operation.results, &callee.results, &call.span, "gives other results")?;
        if self.depth >= MAXIMUM_NESTING {
            return Err(error(call.span.clone(), format!("calls nested deeper than {MAXIMUM_NESTING}"), "called here"));
        }
        if copier.new.ops.len() > MAXIMUM_OPS {
            return Err(error(
                call.span.clone(),
                format!("calls expand to more than {MAXIMUM_OPS} ops"),
                "called here",
            ));
        }
        let operands = copier.values(&operation.operands);
        for (&argument, &operand) in callee.arguments.iter().zip(&operands) {
            copier.set_value(argument, operand);
        }
        self.open.push(index);
        self.copy_ops(copier, function.region, to, Some(location));
        self.open.pop();
        if self.problem.is_none() {
            let returned = copier.values(&callee.results);
            for (&result, &value) in operation.results.iter().zip(&returned) {
                copier.set_value(result, value);
            }
        }
        Ok(())
    }

    fn callee(&self, call: &Call<'_>) -> Parse<usize> {
        let Some(&index) = self.by_name.get(call.callee) else {
            let message = format!("call of an unknown function `@{}`", call.callee);
            return Err(error(call.span.clone(), message, "not defined in this module"));
        };
        if self.open.contains(&index) {
            let message = format!("`@{}` calls itself", call.callee);
            return Err(error(call.span.clone(), message, "recursion is not supported"));
        }
        Ok(index)
    }

    /// The location of an op as seen from a call: the scopes of both.
    fn location(&mut self, copier: &mut Copier<'f>, call: Option<LocationId>, inner: LocationId) -> LocationId {
        let Some(call) = call else { return copier.location(inner) };
        if let Some(&composed) = self.composed.get(&(call, inner)) {
            return composed;
        }
        let composed = compose_locations(&copier.new.locations[call], &self.parsed.program.locations[inner]);
        let id = copier.add_location(composed);
        self.composed.insert((call, inner), id);
        id
    }
}

fn check_types(
    program: &Program,
    given: &[ValueId],
    taken: &[ValueId],
    span: &Range<usize>,
    message: &str,
) -> Parse<()> {
    let same = given.len() == taken.len()
        && given.iter().zip(taken).all(|(&given, &taken)| program.ty(given) == program.ty(taken));
    if same { Ok(()) } else { Err(error(span.clone(), format!("the called function {message}"), "called here")) }
}

fn compose_locations(outside: &Location, inside: &Location) -> Location {
    let place = if inside.file.is_empty() { outside } else { inside };
    let root = |scope: &str| scope.split('/').next().unwrap_or("").to_owned();
    // Some versions of JAX write the whole path into the callee already.
    let is_whole = root(&inside.scope).starts_with("jit(") && root(&inside.scope) == root(&outside.scope);
    let scope: Arc<str> = match (outside.scope.is_empty(), inside.scope.is_empty()) {
        (true, _) => inside.scope.clone(),
        (false, true) => outside.scope.clone(),
        (false, false) if is_whole => inside.scope.clone(),
        (false, false) => Arc::from(format!("{}/{}", outside.scope, inside.scope)),
    };
    Location { scope, file: place.file.clone(), line: place.line, column: place.column }
}

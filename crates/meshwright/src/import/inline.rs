//! Calls replaced by what they call, so that one function is left.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cursor::{Parse, error, with_hint};
use super::diagnostic::Diagnostic;
use super::parse::{Call, Function, Parsed};
use crate::codes::Code;
use crate::program::{Copier, Location, LocationId, MAXIMUM_NESTING, OpId, Program, RegionId, ValueId};

/// A module whose calls expand to more ops than this is refused: it would not fit in memory.
const MAXIMUM_OPS: usize = 5_000_000;

/// The same for the bytes of the scopes that ops have as seen from their calls.
const MAXIMUM_SCOPES: usize = 1 << 30;

/// The program of `main` (or of the only public function), calls inlined; or all that is wrong
/// with the calls.
pub(super) fn inline(parsed: &Parsed<'_>) -> Result<Program, Vec<Diagnostic>> {
    let main = choose_main(&parsed.functions).map_err(|problem| vec![*problem])?;
    let by_name = parsed.functions.iter().enumerate().map(|(index, function)| (function.name, index)).collect();
    let mut measurer = Measurer {
        parsed,
        by_name: &by_name,
        open: Vec::new(),
        extents: vec![None; parsed.functions.len()],
        problems: Vec::new(),
    };
    measurer.function(main, 0);
    if !measurer.problems.is_empty() {
        return Err(measurer.problems);
    }
    let mut inliner = Inliner { parsed, by_name: &by_name, composed: FxHashMap::default() };
    let mut copier = Copier::new(&parsed.program);
    let function = &parsed.functions[main];
    copier.new.arguments = function.arguments.clone();
    copier.new.results = function.results.clone();
    let body = copier.new.body;
    inliner.copy_region(&mut copier, function.region, body, None);
    match copier.new.verify_interface() {
        Ok(()) => Ok(copier.new),
        Err(message) => Err(vec![*error(Code::Attribute, function.span.clone(), message, "as its attributes say")]),
    }
}

fn choose_main(functions: &[Function<'_>]) -> Parse<usize> {
    let hint = "name the function `main`, or make all others `private`";
    let main = functions.iter().position(|function| function.name == "main");
    let mut public = functions.iter().enumerate().filter(|(_, function)| function.is_public);
    let index = match (main, public.next(), public.next()) {
        (Some(main), ..) => main,
        (None, Some((index, _)), None) => index,
        (None, None, _) => {
            let problem = error(Code::NoMain, 0..0, "no function `main`", "the text has no public function");
            return Err(with_hint(problem, hint));
        }
        (None, Some(_), Some((_, second))) => {
            let problem =
                error(Code::NoMain, second.span.clone(), "no function `main`", "one of several public functions");
            return Err(with_hint(problem, hint));
        }
    };
    let function = &functions[index];
    if !function.has_body {
        let message = format!("function `@{}` has no body", function.name);
        return Err(error(Code::NoMain, function.span.clone(), message, "only declared"));
    }
    Ok(index)
}

/// How large a function is once its calls are expanded.
#[derive(Clone, Copy, Default)]
struct Extent {
    ops: usize,
    /// Bytes of the scopes of its ops.
    scopes: usize,
    /// How many regions and calls stand inside each other.
    height: usize,
}

/// Checks all calls before any is expanded, so that each problem is found, and found once.
struct Measurer<'f, 'a> {
    parsed: &'f Parsed<'a>,
    by_name: &'f FxHashMap<&'a str, usize>,
    /// The functions that are being measured, outermost first.
    open: Vec<usize>,
    extents: Vec<Option<Extent>>,
    problems: Vec<Diagnostic>,
}

impl Measurer<'_, '_> {
    /// `depth` regions and calls stand around the function.
    fn function(&mut self, index: usize, depth: usize) -> Extent {
        if let Some(extent) = self.extents[index] {
            return extent;
        }
        self.open.push(index);
        let extent = self.region(self.parsed.functions[index].region, depth + 1);
        self.open.pop();
        self.extents[index] = Some(extent);
        extent
    }

    fn region(&mut self, region: RegionId, depth: usize) -> Extent {
        let parsed = self.parsed;
        let mut extent = Extent { height: 1, ..Extent::default() };
        for &op in &parsed.program.regions[region].ops {
            let operation = &parsed.program.ops[op];
            extent.ops = extent.ops.saturating_add(1);
            let mut height = 0;
            if let Some(call) = parsed.calls.get(&op) {
                let inside = self.call(op, call, depth).unwrap_or_else(|problem| {
                    self.problems.push(*problem);
                    Extent::default()
                });
                let scope = parsed.program.locations[operation.location].scope.len();
                let scopes = inside.ops.saturating_mul(scope).saturating_add(inside.scopes);
                extent.ops = extent.ops.saturating_add(inside.ops);
                extent.scopes = extent.scopes.saturating_add(scopes);
                height = inside.height;
                if extent.ops > MAXIMUM_OPS || extent.scopes > MAXIMUM_SCOPES {
                    let message = format!("calls expand to more than {MAXIMUM_OPS} ops");
                    self.problems.push(*error(Code::TooLarge, call.span.clone(), message, "with this call"));
                    extent = Extent::default();
                }
            }
            for &inner in &operation.regions {
                let inside = self.region(inner, depth + 1);
                extent.ops = extent.ops.saturating_add(inside.ops);
                extent.scopes = extent.scopes.saturating_add(inside.scopes);
                height = height.max(inside.height);
            }
            extent.height = extent.height.max(height + 1);
        }
        extent
    }

    /// The extent of what is called.
    fn call(&mut self, op: OpId, call: &Call<'_>, depth: usize) -> Parse<Extent> {
        let parsed = self.parsed;
        let name = call.callee;
        let Some(&index) = self.by_name.get(name) else {
            let message = format!("call of an unknown function `@{name}`");
            return Err(error(Code::Undefined, call.span.clone(), message, "not defined in this module"));
        };
        let function = &parsed.functions[index];
        if !function.has_body {
            let message = format!("call of function `@{name}`, which has no body");
            return Err(error(Code::Undefined, call.span.clone(), message, "only declared in this module"));
        }
        let (operation, callee) = (&parsed.program.ops[op], &parsed.program.regions[function.region]);
        for (given, taken, does) in
            [(&operation.operands, &callee.arguments, "takes"), (&operation.results, &callee.results, "returns")]
        {
            let (given, taken) = (types(&parsed.program, given), types(&parsed.program, taken));
            if given != taken {
                let label = format!("`@{name}` {does} ({taken}), the call says ({given})");
                return Err(error(
                    Code::Signature,
                    call.span.clone(),
                    format!("call does not fit function `@{name}`"),
                    label,
                ));
            }
        }
        if self.open.contains(&index) {
            let problem = error(
                Code::ControlFlow,
                call.span.clone(),
                format!("`@{name}` calls itself"),
                "recursion is not supported",
            );
            return Err(with_hint(problem, "use `stablehlo.while`"));
        }
        let height = match self.extents[index] {
            Some(extent) => extent.height,
            None => 0,
        };
        if depth + height >= MAXIMUM_NESTING {
            let message = format!("calls and regions nested deeper than {MAXIMUM_NESTING}");
            return Err(error(Code::TooLarge, call.span.clone(), message, "with this call"));
        }
        Ok(self.function(index, depth))
    }
}

fn types(program: &Program, values: &[ValueId]) -> String {
    super::parse::join(values.iter().map(|&value| program.ty(value)))
}

/// Copies functions whose calls are known to be right.
struct Inliner<'f, 'a> {
    parsed: &'f Parsed<'a>,
    by_name: &'f FxHashMap<&'a str, usize>,
    /// Locations of (call, op of the callee).
    composed: FxHashMap<(LocationId, LocationId), LocationId>,
}

impl<'f> Inliner<'f, '_> {
    /// Copies a region of main, or with `call` one of a callee as seen from there.
    fn copy_region(&mut self, copier: &mut Copier<'f>, from: RegionId, to: RegionId, call: Option<LocationId>) {
        copier.copy_arguments(from, to);
        self.copy_ops(copier, from, to, call);
        copier.copy_results(from, to);
    }

    fn copy_ops(&mut self, copier: &mut Copier<'f>, from: RegionId, to: RegionId, call: Option<LocationId>) {
        let parsed = self.parsed;
        for &op in &parsed.program.regions[from].ops {
            let location = self.location(copier, call, parsed.program.ops[op].location);
            match parsed.calls.get(&op) {
                Some(callee) => self.copy_call(copier, op, callee, to, location),
                None => {
                    copier.copy_op(op, to, location, &mut |copier, from, to| self.copy_region(copier, from, to, call));
                }
            }
        }
    }

    fn copy_call(&mut self, copier: &mut Copier<'f>, op: OpId, call: &Call<'_>, to: RegionId, location: LocationId) {
        let parsed = self.parsed;
        let region = parsed.functions[self.by_name[call.callee]].region;
        let (operation, callee) = (&parsed.program.ops[op], &parsed.program.regions[region]);
        let operands = copier.values(&operation.operands);
        for (&argument, &operand) in callee.arguments.iter().zip(&operands) {
            copier.set_value(argument, operand);
        }
        self.copy_ops(copier, region, to, Some(location));
        let returned = copier.values(&callee.results);
        for (&result, &value) in operation.results.iter().zip(&returned) {
            copier.set_value(result, value);
        }
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

//! Calls replaced by what they call, so that one function is left.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cursor::{Parse, error};
use super::parse::{Function, Parsed};
use crate::program::{Location, LocationId, MAXIMUM_NESTING, OpId, Program, RegionId, ValueId, Values};

/// A module whose calls expand to more ops than this is refused: it would not fit in memory.
const MAXIMUM_OPS: usize = 50_000_000;

/// The program of `main` (or of the only public function), calls inlined.
pub(super) fn inline(parsed: Parsed<'_>) -> Parse<Program> {
    let Parsed { program, functions, calls, .. } = parsed;
    let main = choose_main(&functions)?;
    let order = callees_first(&program, &functions, &calls, main)?;
    let mut inliner = Inliner {
        program,
        functions: &functions,
        by_name: functions.iter().enumerate().map(|(index, function)| (function.name, index)).collect(),
        calls,
        replaced: FxHashMap::default(),
        composed: FxHashMap::default(),
    };
    for index in order {
        inliner.inline_region(functions[index].region)?;
    }
    let Inliner { mut program, replaced, .. } = inliner;
    let main = &functions[main];
    program.body = main.region;
    program.arguments = main.arguments.clone();
    program.results = main.results.clone();
    substitute(&mut program, &replaced);
    check_nesting(&program, main)?;
    Ok(program.compact())
}

fn choose_main<'f>(functions: &'f [Function<'_>]) -> Parse<usize> {
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

/// The functions that `main` needs, each after the ones it calls.
fn callees_first(
    program: &Program,
    functions: &[Function<'_>],
    calls: &FxHashMap<OpId, super::parse::Call<'_>>,
    main: usize,
) -> Parse<Vec<usize>> {
    let by_name: FxHashMap<&str, usize> =
        functions.iter().enumerate().map(|(index, function)| (function.name, index)).collect();
    let mut callees: Vec<Vec<(usize, OpId)>> = Vec::with_capacity(functions.len());
    for function in functions {
        let mut list = Vec::new();
        for op in ops_inside(program, function.region) {
            if let Some(call) = calls.get(&op) {
                let Some(&callee) = by_name.get(call.callee) else {
                    let message = format!("call of an unknown function `@{}`", call.callee);
                    return Err(error(call.span.clone(), message, "not defined in this module"));
                };
                list.push((callee, op));
            }
        }
        callees.push(list);
    }
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unseen,
        Open,
        Done,
    }
    let mut states = vec![State::Unseen; functions.len()];
    let mut order = Vec::new();
    // An explicit stack: a chain of calls may be as long as the file.
    let mut stack = vec![(main, 0)];
    states[main] = State::Open;
    while let Some((function, next)) = stack.last_mut() {
        let function = *function;
        let Some(&(callee, op)) = callees[function].get(*next) else {
            states[function] = State::Done;
            order.push(function);
            stack.pop();
            continue;
        };
        *next += 1;
        match states[callee] {
            State::Done => {}
            State::Open => {
                let message = format!("`@{}` calls itself", functions[callee].name);
                return Err(error(calls[&op].span.clone(), message, "recursion is not supported"));
            }
            State::Unseen => {
                states[callee] = State::Open;
                stack.push((callee, 0));
            }
        }
    }
    Ok(order)
}

/// All ops of a region and of the regions inside it.
fn ops_inside(program: &Program, region: RegionId) -> Vec<OpId> {
    let mut ops = Vec::new();
    let mut regions = vec![region];
    while let Some(region) = regions.pop() {
        for &op in &program.regions[region].ops {
            ops.push(op);
            regions.extend(program.ops[op].regions.iter().copied());
        }
    }
    ops
}

struct Inliner<'f, 'a> {
    program: Program,
    functions: &'f [Function<'a>],
    by_name: FxHashMap<&'a str, usize>,
    calls: FxHashMap<OpId, super::parse::Call<'a>>,
    /// Results of calls, and what they are instead.
    replaced: FxHashMap<ValueId, ValueId>,
    /// Locations of (call, op of the callee).
    composed: FxHashMap<(LocationId, LocationId), LocationId>,
}

impl Inliner<'_, '_> {
    /// Replaces the calls in a region, whose callees contain none any more.
    fn inline_region(&mut self, region: RegionId) -> Parse<()> {
        let ops = std::mem::take(&mut self.program.regions[region].ops);
        let mut kept = Vec::with_capacity(ops.len());
        for op in ops {
            for inner in self.program.ops[op].regions.clone() {
                self.inline_region(inner)?;
            }
            if self.calls.contains_key(&op) { self.inline_call(op, &mut kept)? } else { kept.push(op) }
        }
        self.program.regions[region].ops = kept;
        Ok(())
    }

    fn inline_call(&mut self, op: OpId, kept: &mut Vec<OpId>) -> Parse<()> {
        let call = &self.calls[&op];
        let function = &self.functions[self.by_name[call.callee]];
        let span = call.span.clone();
        let operation = self.program.ops[op].clone();
        let callee = self.program.regions[function.region].clone();
        let same_types = |left: &[ValueId], right: &[ValueId]| {
            left.len() == right.len()
                && left.iter().zip(right).all(|(&left, &right)| self.program.ty(left) == self.program.ty(right))
        };
        if !same_types(&operation.operands, &callee.arguments) {
            return Err(error(span, format!("`@{}` takes other arguments", function.name), "called here"));
        }
        if !same_types(&operation.results, &callee.results) {
            return Err(error(span, format!("`@{}` gives other results", function.name), "called here"));
        }
        let mut map: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for (&argument, &operand) in callee.arguments.iter().zip(&operation.operands) {
            map.insert(argument, self.resolve(operand));
        }
        for &inner in &callee.ops {
            kept.push(self.copy_op(inner, &mut map, operation.location, &span)?);
        }
        for (&result, &returned) in operation.results.iter().zip(&callee.results) {
            let returned = self.resolve(returned);
            self.replaced.insert(result, map.get(&returned).copied().unwrap_or(returned));
        }
        Ok(())
    }

    fn resolve(&self, mut value: ValueId) -> ValueId {
        while let Some(&next) = self.replaced.get(&value) {
            value = next;
        }
        value
    }

    /// A copy of an op, its regions included, with values renamed and its location inside that of
    /// the call.
    fn copy_op(
        &mut self,
        op: OpId,
        map: &mut FxHashMap<ValueId, ValueId>,
        call: LocationId,
        span: &std::ops::Range<usize>,
    ) -> Parse<OpId> {
        if self.program.ops.len() > MAXIMUM_OPS {
            return Err(error(span.clone(), format!("calls expand to more than {MAXIMUM_OPS} ops"), "called here"));
        }
        let source = self.program.ops[op].clone();
        let rename = |inliner: &Self, map: &FxHashMap<ValueId, ValueId>, value: ValueId| {
            let value = inliner.resolve(value);
            map.get(&value).copied().unwrap_or(value)
        };
        let operands: Values = source.operands.iter().map(|&operand| rename(self, map, operand)).collect();
        let mut regions = Vec::with_capacity(source.regions.len());
        for &region in &source.regions {
            let copy = self.program.add_region();
            let region = self.program.regions[region].clone();
            for &argument in &region.arguments {
                let ty = self.program.ty(argument).clone();
                let value = self.program.add_region_argument(copy, ty);
                map.insert(argument, value);
            }
            for &inner in &region.ops {
                let inner = self.copy_op(inner, map, call, span)?;
                self.program.regions[copy].ops.push(inner);
            }
            self.program.regions[copy].results =
                region.results.iter().map(|&result| rename(self, map, result)).collect();
            regions.push(copy);
        }
        let types: Vec<_> = source.results.iter().map(|&result| self.program.ty(result).clone()).collect();
        let location = self.compose(call, source.location);
        let copy = self.program.add_detached_op(source.op, &operands, &regions, types, location);
        for (&old, &new) in source.results.iter().zip(&self.program.ops[copy].results) {
            map.insert(old, new);
        }
        Ok(copy)
    }

    /// The location of a callee's op as seen from a call: the scopes of both.
    fn compose(&mut self, call: LocationId, inner: LocationId) -> LocationId {
        if let Some(&composed) = self.composed.get(&(call, inner)) {
            return composed;
        }
        let (outside, inside) = (&self.program.locations[call], &self.program.locations[inner]);
        let composed = compose_locations(outside, inside);
        let id = if composed == *inside { inner } else { self.program.locations.push(composed) };
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

/// Reads of call results become reads of what the callee returned.
fn substitute(program: &mut Program, replaced: &FxHashMap<ValueId, ValueId>) {
    if replaced.is_empty() {
        return;
    }
    let resolve = |value: &mut ValueId| {
        while let Some(&next) = replaced.get(value) {
            *value = next;
        }
    };
    for op in program.ops.ids() {
        program.ops[op].operands.iter_mut().for_each(resolve);
    }
    for region in program.regions.ids() {
        program.regions[region].results.iter_mut().for_each(resolve);
    }
}

/// Inlining puts the regions of callees inside those of callers.
fn check_nesting(program: &Program, main: &Function<'_>) -> Parse<()> {
    let mut level = vec![program.body];
    for _ in 0..MAXIMUM_NESTING {
        level = level
            .iter()
            .flat_map(|&region| &program.regions[region].ops)
            .flat_map(|&op| program.ops[op].regions.iter().copied())
            .collect();
        if level.is_empty() {
            return Ok(());
        }
    }
    let message = format!("after inlining, regions are nested deeper than {MAXIMUM_NESTING}");
    Err(error(main.span.clone(), message, "in this function"))
}

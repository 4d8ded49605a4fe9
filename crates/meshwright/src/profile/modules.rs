//! Costs by module: the tree of scopes that ops stand in.

use rustc_hash::FxHashMap;

use super::functions::{Fused, function};
use super::memory::{Class, Holds, Memory};
use super::{OpRecord, Work};
use crate::program::{Anatomy, Id, Location, LocationId, Phase, Program};

/// A module with what is inside of it, in the order of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// Its own name, without those around it; empty for the whole step.
    pub name: String,
    /// Ops, those in loops once.
    pub ops: usize,
    /// By phase.
    pub work: [Work; 3],
    /// Numbers in the weights that only this module reads.
    pub parameters: usize,
    pub parameter_bytes: usize,
    /// What its forward ops keep for the backward pass.
    pub saved_activation_bytes: usize,
    pub modules: Vec<Module>,
}

impl Module {
    pub fn work(&self, phase: Phase) -> Work {
        self.work[phase as usize]
    }

    pub fn total_work(&self) -> Work {
        self.work.iter().fold(Work::default(), |sum, &work| sum.plus(work))
    }

    fn inner(&mut self, name: &str) -> &mut Module {
        let index = self.modules.iter().position(|module| module.name == name).unwrap_or_else(|| {
            self.modules.push(Module { name: name.to_owned(), ..Module::default() });
            self.modules.len() - 1
        });
        &mut self.modules[index]
    }

    /// Does something to a module and to all around it.
    fn along(&mut self, path: &[&str], change: &mut impl FnMut(&mut Module)) {
        change(self);
        if let [first, rest @ ..] = path {
            self.inner(first).along(rest, change);
        }
    }
}

/// The whole step as a module.
pub(super) fn modules(program: &Program, anatomy: &Anatomy, ops: &[OpRecord], memory: &Memory) -> Module {
    let mut root = Module::default();
    // Most ops share their place with others: these are added up before the tree is walked.
    let paths: Vec<Vec<&str>> = program.locations.iter().map(|(_, location)| module_path(location)).collect();
    let mut places: Vec<Module> = vec![Module::default(); program.locations.len()];
    for record in ops {
        let place = &mut places[program.ops[record.op].location.index()];
        place.ops += 1;
        place.work[record.phase as usize] = place.work[record.phase as usize].plus(record.work);
    }
    for buffer in memory.buffers.iter().filter(|buffer| buffer.class == Class::Activations) {
        if let Holds::Made(op) | Holds::Scratch(op) | Holds::Guest(op) = buffer.holds {
            places[program.ops[op].location.index()].saved_activation_bytes += buffer.bytes;
        }
    }
    for (place, path) in places.iter().zip(&paths).filter(|(place, _)| place.ops > 0) {
        root.along(path, &mut |module| {
            module.ops += place.ops;
            module.saved_activation_bytes += place.saved_activation_bytes;
            let sums = module.work.iter_mut().zip(place.work);
            sums.for_each(|(sum, work)| *sum = sum.plus(work));
        });
    }
    for (argument, path) in weight_paths(program, anatomy, &paths) {
        let ty = program.ty(program.body().arguments[argument]);
        root.along(path, &mut |module| {
            module.parameters += ty.elements();
            module.parameter_bytes += ty.bytes();
        });
    }
    root
}

/// The modules around an op, outermost first, without the function that it is part of.
pub fn module_path(location: &Location) -> Vec<&str> {
    let mut path = location.modules();
    if path.last().is_some_and(|name| function(name, Fused::NONE).is_some()) {
        path.pop();
    }
    path
}

/// For each weight, the innermost module that all forward ops which read it are in.
fn weight_paths<'a>(program: &Program, anatomy: &Anatomy, paths: &'a [Vec<&'a str>]) -> Vec<(usize, &'a [&'a str])> {
    let mut found: FxHashMap<usize, &[&str]> = FxHashMap::default();
    let mut meet = |argument: usize, location: LocationId| {
        let path = paths[location.index()].as_slice();
        let known = found.entry(argument).or_insert(path);
        let common = known.iter().zip(path).take_while(|(left, right)| left == right).count();
        *known = &known[..common];
    };
    for (op, operation) in program.ops.iter().filter(|&(op, _)| anatomy.is_forward(op)) {
        // Another form of a weight is made wherever that was convenient.
        let is_form = operation.results.first().is_some_and(|result| anatomy.origins[result.index()].is_some());
        if !is_form {
            let origins = operation.operands.iter().filter_map(|operand| anatomy.origins[operand.index()]);
            origins.for_each(|argument| meet(argument, program.ops[op].location));
        }
    }
    let is_weight = |argument: &usize| Class::of_argument(program, anatomy, *argument) == Class::Weights;
    let of = |argument| (argument, found.get(&argument).copied().unwrap_or(&[]));
    (0..program.arguments.len()).filter(is_weight).map(of).collect()
}

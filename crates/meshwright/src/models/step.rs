//! A training step around a forward pass: parameters in, loss, gradients, update, parameters out.

use rustc_hash::FxHashMap;

use super::gradient::gradients;
use super::optimizer;
use super::settings::{Optimizer, Settings};
use crate::program::{Builder, DType, Program, RegionId, Type, ValueId};

/// A step under construction: the forward pass adds to `builder` and asks for parameters and inputs.
#[derive(Debug)]
pub(super) struct Step<'s> {
    pub(super) builder: Builder,
    pub(super) settings: &'s Settings,
    parameters: Vec<Parameter>,
    /// State that the forward pass updates itself, such as running statistics, with its next value.
    kept: Vec<(Parameter, ValueId)>,
    /// Parameters are stored in the type of computation, as nothing updates them.
    is_inference: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Without `params.` in front.
    pub(super) name: String,
    /// As it is stored.
    pub(super) value: ValueId,
}

impl<'s> Step<'s> {
    pub(super) fn new(name: &str, settings: &'s Settings) -> Step<'s> {
        Step { builder: Builder::new(name), settings, parameters: Vec::new(), kept: Vec::new(), is_inference: false }
    }

    /// A program that only reads its parameters, which are stored in the type of computation. It ends
    /// with [`finish_with`](Step::finish_with).
    pub(super) fn inference(name: &str, settings: &'s Settings) -> Step<'s> {
        Step { is_inference: true, ..Step::new(name, settings) }
    }

    /// A parameter, in the type of computation.
    pub(super) fn parameter(&mut self, name: &str, shape: &[usize]) -> ValueId {
        let value = self.add_parameter(name, shape);
        let dtype = self.settings.dtype;
        self.builder.convert(value, dtype)
    }

    /// A parameter for what is computed in `f32` whatever the type of computation: norms, gates.
    pub(super) fn stored_parameter(&mut self, name: &str, shape: &[usize]) -> ValueId {
        let value = self.add_parameter(name, shape);
        let dtype = self.stored_dtype();
        self.builder.convert(value, dtype)
    }

    fn add_parameter(&mut self, name: &str, shape: &[usize]) -> ValueId {
        let dtype = if self.is_inference { self.settings.dtype } else { self.stored_dtype() };
        let value = self.builder.argument(format!("params.{name}"), Type::new(dtype, shape));
        self.parameters.push(Parameter { name: name.to_owned(), value });
        value
    }

    /// The type that parameters and optimizer state are stored in.
    pub(super) fn stored_dtype(&self) -> DType {
        if self.settings.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    /// State that the forward pass reads; [`keep`](Step::keep) gives its next value.
    pub(super) fn state(&mut self, name: &str, ty: Type) -> ValueId {
        self.builder.argument(format!("state.{name}"), ty)
    }

    pub(super) fn keep(&mut self, name: &str, value: ValueId, next: ValueId) {
        self.kept.push((Parameter { name: name.to_owned(), value }, next));
    }

    /// Part of the batch.
    pub(super) fn input(&mut self, name: &str, ty: Type) -> ValueId {
        self.builder.argument(format!("batch.{name}"), ty)
    }

    /// A layer, recomputed in the backward pass where that is set.
    pub(super) fn layer<T>(&mut self, name: &str, build: impl FnOnce(&mut Step<'s>) -> T) -> T {
        let start = self.settings.remat.then(|| self.builder.start_block());
        let outer = self.builder.enter(name);
        let made = build(self);
        self.builder.leave(outer);
        if let Some(start) = start {
            self.builder.end_block(start);
        }
        made
    }

    /// Everything that `build` adds stands in the scope `name`.
    pub(super) fn scoped<T>(&mut self, name: &str, build: impl FnOnce(&mut Step<'s>) -> T) -> T {
        let outer = self.builder.enter(name);
        let made = build(self);
        self.builder.leave(outer);
        made
    }

    /// What `build` adds is one function of the module that a dotted name ends in. Engines that run op by op
    /// have such functions whole.
    pub(super) fn function<T>(&mut self, name: &str, function: &str, build: impl FnOnce(&mut Step<'s>) -> T) -> T {
        let module = name.rsplit_once('.').map_or(name, |(_, module)| module);
        self.scoped(module, |step| step.scoped(function, build))
    }

    /// Adds ops to another region until `build` is done.
    pub(super) fn inside<T>(&mut self, region: RegionId, build: impl FnOnce(&mut Step<'s>) -> T) -> T {
        let outer = self.builder.enter_region(region);
        let made = build(self);
        self.builder.leave_region(outer);
        made
    }

    /// The whole step: gradients of the loss, the update, and the results.
    pub(super) fn finish(mut self, loss: ValueId) -> Result<Program, String> {
        let of: Vec<ValueId> = self.parameters.iter().map(|parameter| parameter.value).collect();
        let found = gradients(&mut self.builder, loss, &of)?;
        let mut results: Vec<(String, ValueId)> = Vec::new();
        if self.settings.optimizer == Optimizer::None {
            let named = self.parameters.iter().zip(&found);
            results.extend(named.map(|(parameter, &gradient)| (format!("grads.{}", parameter.name), gradient)));
        } else {
            optimizer::update(&mut self.builder, self.settings, &self.parameters, &found, &mut results);
        }
        results.extend(self.kept.iter().map(|(state, next)| (format!("state.{}", state.name), *next)));
        let loss = self.builder.convert(loss, self.stored_dtype());
        results.push(("loss".to_owned(), loss));
        self.finish_with(results)
    }

    /// A program with these results, results and arguments in order: parameters, other state, the rest.
    pub(super) fn finish_with(self, mut results: Vec<(String, ValueId)>) -> Result<Program, String> {
        let mut builder = self.builder;
        results.sort_by_key(|(name, _)| place(name));
        for (name, value) in results {
            builder.result(name, value);
        }
        let mut program = builder.finish()?;
        let body = program.body;
        let values = std::mem::take(&mut program.regions[body].arguments);
        let arguments = std::mem::take(&mut program.arguments);
        let mut order: Vec<usize> = (0..arguments.len()).collect();
        order.sort_by_key(|&index| place(&arguments[index].name));
        program.regions[body].arguments = order.iter().map(|&index| values[index]).collect();
        program.arguments = order.into_iter().map(|index| arguments[index].clone()).collect();
        donate(&mut program);
        Ok(program.compact())
    }
}

fn place(name: &str) -> usize {
    let prefixes = ["params.", "opt.", "state."];
    prefixes.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(prefixes.len())
}

/// State is overwritten by its next value, which has the same name.
fn donate(program: &mut Program) {
    let names = program.results.iter().enumerate().map(|(index, result)| (result.name.as_str(), index));
    let results: FxHashMap<&str, usize> = names.collect();
    for argument in &mut program.arguments {
        argument.alias = results.get(argument.name.as_str()).copied();
    }
}

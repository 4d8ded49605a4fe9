//! What takes the memory of a step that does not fit.

use std::cmp::Reverse;

use super::sketch::Outcome;
use crate::profile::{Buffer, ByClass, Class, Holds, Profile, module_path, profile};
use crate::program::{ArgumentClass, Op, OpId, Phase};
use crate::simulate::Engine;

/// When a device has most in memory, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The op that runs then, where it comes from, such as `layers.3.mlp.up`, and of which pass it is.
    pub op: String,
    pub scope: String,
    pub phase: Phase,
    /// What the step has in memory then, in the order of [`Class::ALL`].
    pub by_class: ByClass,
    /// What the engine takes for itself, and what is lost between buffers.
    pub engine_bytes: u64,
    /// What takes most of it, those of layers alike together.
    pub largest: Vec<Held>,
}

/// Values alike that are in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The name of an argument, or the scope of what made it and the name of its op, with `*` for numbers of layers.
    pub name: String,
    pub class: Class,
    pub count: usize,
    /// Of all of them.
    pub bytes: u64,
}

/// So many are told.
const MOST_HELD: usize = 6;

impl Binding {
    pub(super) fn new(engine: &Engine, outcome: &Outcome) -> Binding {
        let profile = profile(&outcome.local.program, engine.memory_model);
        let peak = profile.at_peak();
        let mut by_class = ByClass::default();
        let mut largest: Vec<Held> = Vec::new();
        // Simulations count no single numbers.
        for buffer in peak.buffers.iter().filter(|buffer| !buffer.is_number()) {
            let class = class_of(&profile, &outcome.classes, buffer);
            by_class[class as usize] += buffer.bytes;
            let (name, bytes) = (name_of(&profile, buffer), buffer.bytes as u64);
            match largest.iter_mut().find(|held| held.name == name && held.class == class) {
                Some(held) => {
                    held.count += 1;
                    held.bytes += bytes;
                }
                None => largest.push(Held { name, class, count: 1, bytes }),
            }
        }
        largest.sort_by_key(|held| Reverse(held.bytes));
        largest.truncate(MOST_HELD);
        let last = peak.ops.last().copied();
        Binding {
            op: last.map(|op| op_name(&profile, op)).unwrap_or_default(),
            scope: last.map(|op| scope(&profile, op)).unwrap_or_default(),
            phase: last.map_or(Phase::Forward, |op| profile.anatomy.phase(op)),
            by_class,
            engine_bytes: outcome.peak_bytes.saturating_sub(by_class.iter().sum::<usize>() as u64),
            largest,
        }
    }
}

/// What a buffer is for, as simulations count it.
fn class_of(profile: &Profile<'_>, arguments: &[ArgumentClass], buffer: &Buffer) -> Class {
    match buffer.holds {
        Holds::Argument(argument) => match arguments.get(argument) {
            Some(ArgumentClass::Parameter) => Class::Weights,
            Some(ArgumentClass::State) => Class::Optimizer,
            Some(ArgumentClass::Input) | None => Class::Inputs,
        },
        Holds::Made(op) => match carried(profile, op) {
            Some(Carried::Sums) => Class::Gradients,
            Some(Carried::Stacks) => Class::Activations,
            None => buffer.class,
        },
        Holds::Copy(_) | Holds::Guest(_) | Holds::Result(_) | Holds::Scratch(_) => buffer.class,
    }
}

/// What a loop over microbatches leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// Of gradients.
    Sums,
    /// Of what the next loop goes through again.
    Stacks,
}

/// The last loop leaves what the update reads.
fn carried(profile: &Profile<'_>, op: OpId) -> Option<Carried> {
    let program = &profile.program;
    let last = program.body().ops.iter().rfind(|op| program.ops[**op].op == Op::While);
    let carried = if last == Some(&op) { Carried::Sums } else { Carried::Stacks };
    (program.ops[op].op == Op::While).then_some(carried)
}

fn name_of(profile: &Profile<'_>, buffer: &Buffer) -> String {
    let made = |op: OpId| [scope(profile, op), op_name(profile, op)].join(" ").trim().to_owned();
    let name = match buffer.holds {
        Holds::Argument(argument) => match profile.program.arguments[argument].name.as_str() {
            "" => return format!("argument.{argument}"),
            name => name.to_owned(),
        },
        Holds::Copy(argument) => format!("{} copy", profile.program.arguments[argument].name),
        Holds::Result(result) => profile.program.results[result].name.clone(),
        Holds::Made(op) | Holds::Guest(op) => match carried(profile, op) {
            Some(Carried::Sums) => "sums over microbatches".to_owned(),
            Some(Carried::Stacks) => "stacks of microbatches".to_owned(),
            None => made(op),
        },
        // What a loop needs beside what is told inside is what it goes through.
        Holds::Scratch(op) if carried(profile, op).is_some() => "stacks of microbatches".to_owned(),
        Holds::Scratch(op) => format!("{} scratch", made(op)),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    parts.join(".")
}

fn scope(profile: &Profile<'_>, op: OpId) -> String {
    let location = &profile.program.locations[profile.program.ops[op].location];
    let modules = module_path(location);
    if modules.is_empty() { location.scope.to_string() } else { modules.join(".") }
}

/// The name of an op without its dialect.
fn op_name(profile: &Profile<'_>, op: OpId) -> String {
    let name = profile.program.ops[op].op.name();
    name.rsplit_once('.').map_or(name, |(_, name)| name).to_owned()
}

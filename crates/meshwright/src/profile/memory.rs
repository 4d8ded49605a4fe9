//! Memory over the time of a step: what runs after what, and which buffers are there from when to when.

use std::ops::Range;

use crate::program::{Anatomy, ArgumentClass, Id, OpId, Phase, Program, ValueId};

/// What a step has in memory while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What runs, one after the other: kernels, and loops as a whole.
    pub steps: Vec<Step>,
    pub buffers: Vec<Buffer>,
    /// Lost between temporaries, which stay where they are while others come and go, where somebody asked for it.
    pub lost_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The op whose results are written.
    pub op: OpId,
    pub phase: Phase,
    /// Of buffers, in one run.
    pub bytes_read: usize,
    pub bytes_written: usize,
}

/// A piece of memory that holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub holds: Holds,
    pub class: Class,
    pub bytes: usize,
    /// The steps that find it there.
    pub life: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// An argument of that number, and its next value where that overwrites it.
    Argument(usize),
    /// A result of that number that overwrites no argument.
    Result(usize),
    /// What an op made.
    Made(OpId),
    /// What an op needs while it runs.
    Scratch(OpId),
    /// A copy of an argument of that number, whose next value may overwrite it before its last reader runs.
    Copy(usize),
    /// What an op made, in the place of an argument or a result that is not there at the time. Its bytes
    /// are counted there.
    Guest(OpId),
}

impl Buffer {
    /// Whether it is none of the step's arguments and results.
    pub fn is_temporary(&self) -> bool {
        matches!(self.holds, Holds::Made(_) | Holds::Scratch(_) | Holds::Copy(_))
    }

    /// Whether its bytes are not those of an argument or a result, too.
    pub fn is_counted(&self) -> bool {
        !matches!(self.holds, Holds::Guest(_))
    }

    /// Whether it is a result of one number, such as a loss.
    pub fn is_number(&self) -> bool {
        matches!(self.holds, Holds::Result(_)) && self.bytes <= NUMBER_BYTES
    }
}

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Weights,
    /// Of weights, from the backward pass to the update.
    Gradients,
    /// State other than weights: an optimizer's moments, counters, running statistics, caches.
    Optimizer,
    /// Made by the forward pass and read by the backward pass.
    Activations,
    /// Everything else that is made on the way.
    Temporaries,
    /// What comes anew with every step.
    Inputs,
}

impl Class {
    pub const ALL: [Class; 6] =
        [Class::Weights, Class::Gradients, Class::Optimizer, Class::Activations, Class::Temporaries, Class::Inputs];

    pub fn name(self) -> &'static str {
        match self {
            Class::Weights => "weights",
            Class::Gradients => "gradients",
            Class::Optimizer => "optimizer",
            Class::Activations => "activations",
            Class::Temporaries => "temporaries",
            Class::Inputs => "inputs",
        }
    }

    /// What an argument is kept for. A step that updates nothing says by names which of its arguments are
    /// weights.
    pub(super) fn of_argument(program: &Program, anatomy: &Anatomy, argument: usize) -> Class {
        match anatomy.classes[argument] {
            ArgumentClass::Parameter => Class::Weights,
            ArgumentClass::State => Class::Optimizer,
            ArgumentClass::Input if program.arguments[argument].name.starts_with("params.") => Class::Weights,
            ArgumentClass::Input => Class::Inputs,
        }
    }

    /// What a value is made for, by who makes it and who reads it.
    pub(crate) fn of_made(made: Phase, mut readers: impl Iterator<Item = Phase>) -> Class {
        match made {
            Phase::Forward if readers.any(|reader| reader == Phase::Backward) => Class::Activations,
            Phase::Backward if readers.any(|reader| reader == Phase::Update) => Class::Gradients,
            _ => Class::Temporaries,
        }
    }
}

/// Bytes by [`Class`], in the order of [`Class::ALL`].
pub type ByClass = [usize; Class::ALL.len()];

impl Memory {
    /// Bytes of each class while each step runs.
    pub fn timeline(&self) -> Vec<ByClass> {
        self.over_time(|_| true)
    }

    /// Bytes of each class while each step runs, of some buffers.
    fn over_time(&self, counts: impl Fn(&Buffer) -> bool) -> Vec<ByClass> {
        let mut changes = vec![[0isize; Class::ALL.len()]; self.steps.len() + 1];
        for buffer in self.buffers.iter().filter(|buffer| counts(buffer) && buffer.is_counted()) {
            changes[buffer.life.start][buffer.class as usize] += buffer.bytes as isize;
            changes[buffer.life.end.max(buffer.life.start)][buffer.class as usize] -= buffer.bytes as isize;
        }
        let mut live = [0isize; Class::ALL.len()];
        changes.truncate(self.steps.len());
        let at = |change: [isize; Class::ALL.len()]| {
            live.iter_mut().zip(change).for_each(|(live, change)| *live += change);
            live.map(|bytes| bytes as usize)
        };
        changes.into_iter().map(at).collect()
    }

    /// The first of the steps that find most in memory.
    pub fn peak_step(&self) -> Option<usize> {
        let timeline = self.timeline();
        let total = |step: &usize| timeline[*step].iter().sum::<usize>();
        (0..timeline.len()).max_by_key(|step| (total(step), std::cmp::Reverse(*step)))
    }

    /// The most bytes that are there at a time.
    pub fn peak_bytes(&self) -> usize {
        largest(&self.timeline(), |_| true)
    }

    /// The most bytes besides arguments and results.
    pub fn temporary_bytes(&self) -> usize {
        self.temporary_classes().iter().sum()
    }

    /// Bytes besides arguments and results at every step.
    pub(crate) fn temporaries_over_time(&self) -> Vec<usize> {
        self.over_time(Buffer::is_temporary).iter().map(|classes| classes.iter().sum()).collect()
    }

    /// The same by class.
    pub fn temporary_classes(&self) -> ByClass {
        let timeline = self.over_time(Buffer::is_temporary);
        timeline.into_iter().max_by_key(|classes| classes.iter().sum::<usize>()).unwrap_or_default()
    }

    /// Bytes of results that take the place of no argument, by class. They are there for all of a step. Numbers such as a
    /// loss do not count.
    pub fn result_classes(&self) -> ByClass {
        let mut classes = ByClass::default();
        let results = self.buffers.iter().filter(|buffer| matches!(buffer.holds, Holds::Result(_)));
        results.filter(|buffer| !buffer.is_number()).for_each(|buffer| classes[buffer.class as usize] += buffer.bytes);
        classes
    }

    /// The most bytes besides arguments until the backward pass is over: activations, gradients, scratch.
    pub fn forward_backward_bytes(&self) -> usize {
        largest(&self.over_time(is_no_argument), |step| step < self.update_start())
    }

    /// The most bytes besides arguments from then on: gradients, and what the optimizer needs.
    pub fn update_bytes(&self) -> usize {
        largest(&self.over_time(is_no_argument), |step| step >= self.update_start())
    }

    /// The step after the last one of the backward pass. Statistics may be updated before.
    fn update_start(&self) -> usize {
        self.steps.iter().rposition(|step| step.phase != Phase::Update).map_or(0, |last| last + 1)
    }

    /// What the forward pass keeps for the backward pass.
    pub fn saved_activation_bytes(&self) -> usize {
        let saved = self.buffers.iter().filter(|buffer| buffer.class == Class::Activations);
        saved.map(|buffer| buffer.bytes).sum()
    }
}

fn is_no_argument(buffer: &Buffer) -> bool {
    !matches!(buffer.holds, Holds::Argument(_))
}

fn largest(timeline: &[ByClass], counts: impl Fn(usize) -> bool) -> usize {
    let counted = timeline.iter().enumerate().filter(|(step, _)| counts(*step));
    counted.map(|(_, classes)| classes.iter().sum()).max().unwrap_or(0)
}

/// The largest single number.
const NUMBER_BYTES: usize = 8;

/// Buffers of arguments and of results that overwrite none, for all of a step.
pub(super) fn outer_buffers(program: &Program, anatomy: &Anatomy, steps: usize) -> Vec<Buffer> {
    let mut buffers = argument_buffers(program, anatomy, steps);
    let on_host = program.on_host();
    for (index, class) in own_results(program, anatomy) {
        let bytes = device_bytes(program, &on_host, program.body().results[index]);
        buffers.push(Buffer { holds: Holds::Result(index), class, bytes, life: 0..steps });
    }
    buffers
}

pub(super) fn argument_buffers(program: &Program, anatomy: &Anatomy, steps: usize) -> Vec<Buffer> {
    let on_host = program.on_host();
    let buffer = |(index, &value): (usize, &ValueId)| {
        let class = Class::of_argument(program, anatomy, index);
        Buffer { holds: Holds::Argument(index), class, bytes: device_bytes(program, &on_host, value), life: 0..steps }
    };
    program.body().arguments.iter().enumerate().map(buffer).collect()
}

/// What a value takes of the device's own memory, by what [`Program::on_host`] says.
pub(crate) fn device_bytes(program: &Program, on_host: &[bool], value: ValueId) -> usize {
    if on_host.get(value.index()) == Some(&true) { 0 } else { program.ty(value).bytes() }
}

/// The results that take memory of their own, and for what: no argument is given up for them, and none
/// stands there twice.
fn own_results(program: &Program, anatomy: &Anatomy) -> Vec<(usize, Class)> {
    let body = program.body();
    let mut classes: Vec<Option<Class>> = vec![Some(Class::Temporaries); body.results.len()];
    for (argument, next) in anatomy.next.iter().enumerate() {
        if let Some(result) = *next {
            classes[result] = Some(Class::of_argument(program, anatomy, argument));
        }
    }
    let mut given_up: Vec<usize> = Vec::new();
    for (&value, argument) in body.arguments.iter().zip(&program.arguments) {
        match argument.alias {
            Some(result) if result < classes.len() => classes[result] = None,
            _ if argument.donated => given_up.push(program.ty(value).bytes()),
            _ => {}
        }
    }
    let mut seen = vec![false; program.values.len()];
    let mut own = Vec::new();
    for (index, (&value, class)) in body.results.iter().zip(classes).enumerate() {
        let is_known = std::mem::replace(&mut seen[value.index()], true) || program.producer(value).is_none();
        let Some(class) = class.filter(|_| !is_known) else { continue };
        match given_up.iter().position(|&bytes| bytes == program.ty(value).bytes()) {
            Some(place) => _ = given_up.swap_remove(place),
            None => own.push((index, class)),
        }
    }
    own
}

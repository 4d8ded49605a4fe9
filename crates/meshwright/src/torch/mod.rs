//! Local programs as Python source that PyTorch runs: ordinary tensor ops, and collectives by name.
//!
//! The source is a stage like any other: it is text, it can be read and stopped at, and what it does is what the
//! program says, op by op and in its order, but for collectives that run as one. Values are deleted after their last use, so that memory is
//! what was planned.

mod attention;
mod combine;
mod contract;
mod convolution;
mod experts;
mod ledger;
mod parts;
mod reuse;
mod scratch;
mod table;
mod values;
mod writer;

use crate::profile::{Memory, PartMemory, Shared};
use crate::program::{Anatomy, Phase, Program};

use parts::{Part, step_parts, whole};
use writer::Writer;

/// The source of a training step in three functions: `forward` gives the loss and the next buffers, `backward` the
/// gradients, and `update` overwrites parameters and state. Results of the program are told apart by their names.
///
/// What PyTorch has no words for is an error that names the op and its place.
pub fn step_source(program: &Program) -> Result<String, String> {
    source(program, step_parts)
}

/// The source of a program as one function, `run`, which gives all results.
pub fn piece_source(program: &Program) -> Result<String, String> {
    source(program, whole)
}

/// What such a step has in memory over time, besides its arguments: as its source says. Programs without a loss and
/// gradients among their results, or with ops that cannot be written, have none.
pub(crate) fn step_memory(program: &Program, anatomy: &Anatomy) -> Option<Memory> {
    let has = |start: &str| program.results.iter().any(|result| result.name.starts_with(start));
    if !has("loss") || !has("grads.") {
        return None;
    }
    let writer = written(program, step_parts).ok()?;
    Some(writer.ledger.memory(anatomy))
}

/// What a piece of a step needs while it runs, with what it makes, the bytes of each result that stay, and which results
/// lie where others do.
pub(crate) fn piece_memory(program: &Program) -> Option<PartMemory> {
    let writer = written(program, whole).ok()?;
    let left = writer.ledger.own_bytes(&program.body().results, writer.forms());
    let shared = writer.ledger.shared(program.body());
    let anatomy = Anatomy::of_part(program, Phase::Forward, &[]);
    Some(PartMemory { most: writer.ledger.memory(&anatomy).temporary_bytes(), left, shared })
}

/// The same of a piece that updates: its gradients are there for users until its end, and those of its arguments that are let
/// go once gradients are made of them are not there any more while it updates.
pub(crate) fn update_memory(program: &Program, is_let_go: &dyn Fn(usize) -> bool) -> Option<PartMemory> {
    let PartMemory { left, shared, .. } = piece_memory(program)?;
    let mut writer = Writer::new(program);
    let (mut start, mut needed) = (0, Vec::new());
    for part in &step_parts(&writer) {
        start = writer.ledger.steps_so_far();
        needed = writer.arguments(part);
        writer.part(part).ok()?;
    }
    let is_shared = |number: usize| shared.iter().any(|(_, other)| *other == Shared::Argument(number));
    let arguments = program.body().arguments.iter().enumerate();
    let gone = arguments.filter(|&(number, _)| is_let_go(number) && !needed.contains(&number) && !is_shared(number));
    let gone: usize = gone.map(|(_, &argument)| program.ty(argument).bytes()).sum();
    let memory = writer.ledger.memory(&Anatomy::of_part(program, Phase::Update, &[]));
    let within = memory.temporaries_over_time().into_iter().enumerate();
    let most = within.map(|(time, bytes)| if time < start { bytes } else { bytes.saturating_sub(gone) }).max();
    Some(PartMemory { most: most.unwrap_or(0), left, shared })
}

/// The most bytes that such a function has at a time, besides its arguments.
///
/// What PyTorch has no words for is an error that names the op and its place.
pub fn piece_bytes(program: &Program) -> Result<usize, String> {
    let writer = written(program, whole)?;
    Ok(writer.ledger.memory(&Anatomy::of_part(program, Phase::Forward, &[])).temporary_bytes())
}

fn source(program: &Program, cut: impl FnOnce(&Writer<'_>) -> Vec<Part>) -> Result<String, String> {
    Ok(written(program, cut)?.finish())
}

fn written<'p>(program: &'p Program, cut: impl FnOnce(&Writer<'_>) -> Vec<Part>) -> Result<Writer<'p>, String> {
    let mut writer = Writer::new(program);
    let parts = cut(&writer);
    for part in &parts {
        writer.part(part)?;
    }
    Ok(writer)
}

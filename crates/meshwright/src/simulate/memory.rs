//! Memory of a stage over its instruction list.

use rustc_hash::FxHashSet;

use super::engine::Engine;
use crate::pipeline::{Buffer, Instruction, Piece, PieceKind, Pipeline, Role};
use crate::profile::{ByClass, Class, MemoryModel, profile};
use crate::program::{ArgumentClass, Program};

/// The most bytes that a device of a stage has at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageMemory {
    pub peak_bytes: usize,
    /// What they are taken for, in the order of [`Class::ALL`].
    pub by_class: ByClass,
}

/// Bytes that a piece needs while it runs, besides what it reads and leaves.
pub(super) fn piece_memory(program: &Program, memory_model: MemoryModel) -> ByClass {
    profile(program, memory_model).memory.temporary_classes()
}

/// The bytes of a stage at a point of its list.
pub(super) struct LiveBytes {
    by_class: ByClass,
    /// How many parts of each buffer there are.
    parts: Vec<u32>,
    classes: Vec<Class>,
    /// Parts of sums, which are added as they are made and take no memory of their own.
    is_added: Vec<bool>,
    /// What each part takes.
    bytes: Vec<usize>,
    reserved_bytes: usize,
    fragmentation: f64,
    pub(super) memory: StageMemory,
}

impl LiveBytes {
    /// Arguments are there from the start, and results take the place of arguments.
    pub(super) fn new(pipeline: &Pipeline, classes: &[ArgumentClass], engine: &Engine, stage: usize) -> LiveBytes {
        let of_argument = |argument: usize| match classes.get(argument) {
            Some(ArgumentClass::Parameter) => Class::Weights,
            Some(ArgumentClass::State) => Class::Optimizer,
            Some(ArgumentClass::Input) | None => Class::Inputs,
        };
        let class = |buffer: &Buffer| match buffer.role {
            Role::Argument(argument) => of_argument(argument),
            Role::Activation | Role::Received => Class::Activations,
            Role::Gradient => Class::Gradients,
            Role::Result(_) | Role::Made | Role::Number => Class::Temporaries,
        };
        let mut live = LiveBytes {
            by_class: ByClass::default(),
            parts: vec![0; pipeline.buffers.len()],
            classes: pipeline.buffers.iter().map(class).collect(),
            is_added: added(pipeline, stage),
            bytes: pipeline.buffers.iter().map(|buffer| buffer_bytes(buffer, engine)).collect(),
            reserved_bytes: engine.reserved_bytes,
            fragmentation: engine.fragmentation,
            memory: StageMemory::default(),
        };
        for (number, buffer) in pipeline.buffers.iter().enumerate() {
            if buffer.stage == stage && matches!(buffer.role, Role::Argument(_)) {
                let parts = if buffer.each_microbatch { pipeline.microbatches } else { 1 };
                live.by_class[live.classes[number] as usize] += parts * live.bytes[number];
            }
        }
        live.note(&ByClass::default());
        live
    }

    /// Whether a buffer was not there before.
    pub(super) fn make(&mut self, pipeline: &Pipeline, buffer: usize) -> bool {
        let entry = &pipeline.buffers[buffer];
        // What replaces an argument takes its place.
        let has_place = matches!(entry.role, Role::Result(_) | Role::Argument(_)) || self.is_added[buffer];
        if has_place || !entry.each_microbatch && self.parts[buffer] > 0 {
            return false;
        }
        self.parts[buffer] += 1;
        self.by_class[self.classes[buffer] as usize] += self.bytes[buffer];
        self.note(&ByClass::default());
        true
    }

    pub(super) fn free(&mut self, pipeline: &Pipeline, buffer: usize) {
        let entry = &pipeline.buffers[buffer];
        match entry.role {
            // Inputs of a microbatch go with it; state stays.
            Role::Argument(_) if entry.each_microbatch => {}
            Role::Argument(_) | Role::Number | Role::Result(_) => return,
            Role::Activation | Role::Received | Role::Gradient | Role::Made => {
                if self.parts[buffer] == 0 {
                    return;
                }
                self.parts[buffer] -= 1;
            }
        }
        let live = &mut self.by_class[self.classes[buffer] as usize];
        *live = live.saturating_sub(self.bytes[buffer]);
    }

    /// Bytes at this point.
    pub(super) fn bytes(&self) -> usize {
        self.by_class.iter().sum()
    }

    /// Makes what a piece writes. Gives the bytes while it runs.
    pub(super) fn run(&mut self, pipeline: &Pipeline, piece: &Piece, temporaries: &ByClass) -> usize {
        let mut made = FxHashSet::default();
        for &buffer in &piece.writes {
            if made.insert(buffer) {
                self.make(pipeline, buffer);
            }
        }
        // The update works on a parameter at a time, in place.
        let temporaries = if piece.kind == PieceKind::Update { &ByClass::default() } else { temporaries };
        self.note(temporaries)
    }

    fn note(&mut self, temporaries: &ByClass) -> usize {
        let mut by_class = self.by_class;
        by_class.iter_mut().zip(temporaries).for_each(|(live, temporary)| *live += temporary);
        let lost = (self.fragmentation * by_class.iter().sum::<usize>() as f64) as usize;
        by_class[Class::Temporaries as usize] += lost + self.reserved_bytes;
        let bytes = by_class.iter().sum();
        if bytes > self.memory.peak_bytes {
            self.memory = StageMemory { peak_bytes: bytes, by_class };
        }
        bytes
    }
}

fn buffer_bytes(buffer: &Buffer, engine: &Engine) -> usize {
    let is_narrow = buffer.ty.dtype.is_float() && buffer.ty.dtype.stored_bytes() == 2;
    let is_widened = engine.wide_gradients && buffer.role == Role::Gradient && is_narrow;
    if is_widened { 2 * buffer.ty.bytes() } else { buffer.ty.bytes() }
}

/// For every buffer, whether a stage does nothing with it but add it to a sum.
fn added(pipeline: &Pipeline, stage: usize) -> Vec<bool> {
    let mut is_added = vec![false; pipeline.buffers.len()];
    for instruction in &pipeline.stages[stage] {
        if let Instruction::Accumulate { from, .. } = *instruction {
            is_added[from] = true;
        }
    }
    for piece in &pipeline.pieces {
        piece.reads.iter().for_each(|&read| is_added[read] = false);
    }
    is_added
}

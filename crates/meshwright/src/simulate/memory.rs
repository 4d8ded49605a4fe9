//! Memory of a stage over its instruction list.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::engine::Engine;
use super::prepare::Prepared;
use crate::pipeline::{Buffer, Instruction, Piece, PieceKind, Pipeline, Role};
use crate::profile::{
    ByClass, Class, MemoryModel, PartMemory, Shared, backward_memory, device_bytes, forward_memory, memory,
};
use crate::program::{ArgumentClass, Given, Id, ValueId};

/// The most bytes that a device of a stage has at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageMemory {
    pub peak_bytes: usize,
    /// What they are taken for, in the order of [`Class::ALL`].
    pub by_class: ByClass,
}

/// What a piece needs while it runs besides what it reads, and the bytes that each of its results takes from then on.
#[derive(Clone, Debug)]
pub(super) struct PieceMemory {
    pub(super) temporaries: ByClass,
    pub(super) left: Vec<usize>,
    /// Of results that lie in the memory of something else, what that is.
    shared: Vec<(usize, Shared)>,
}

/// The memory of a piece. An engine that runs op by op keeps of functions what these keep, whatever programs give on
/// from piece to piece; `is_added` says of buffers whether they are parts of sums.
pub(super) fn piece_memory(pipeline: &Pipeline, piece: &Piece, is_added: &[bool], model: MemoryModel) -> PieceMemory {
    let program = &piece.program;
    let is_staged = pipeline.pieces.len() > 1;
    let written = || match piece.kind {
        PieceKind::Update => pipeline.update_memory(piece),
        _ => crate::torch::piece_memory(program),
    };
    let is_written = model == MemoryModel::Written && is_staged;
    if let Some(PartMemory { most, left, shared }) = is_written.then(written).flatten() {
        return PieceMemory { temporaries: temporaries(most), left, shared };
    }
    let PartMemory { most, left, shared } = match (model.fuses(), piece.kind) {
        (Some(fuses), PieceKind::Forward) if pipeline.pieces.len() > 1 => forward_memory(program, fuses),
        (Some(fuses), PieceKind::Backward | PieceKind::Weights) => {
            let is_added: Vec<bool> = piece.writes.iter().map(|&buffer| is_added[buffer]).collect();
            backward_memory(program, &given(pipeline, piece), &is_added, fuses)
        }
        _ => {
            let on_host = program.on_host();
            let bytes = |result: &ValueId| device_bytes(program, &on_host, *result);
            let left: Vec<usize> = program.body().results.iter().map(bytes).collect();
            let memory = memory(program, model);
            let mut temporaries = memory.temporary_classes();
            temporaries[Class::Temporaries as usize] += memory.lost_bytes;
            if pipeline.pieces.len() == 1 {
                temporaries.iter_mut().zip(memory.result_classes()).for_each(|(bytes, result)| *bytes += result);
                return PieceMemory { temporaries, left, shared: Vec::new() };
            }
            // A compiler counts results apart from what it needs on the way to them, but for those that take the place of
            // arguments.
            let is_kept =
                |buffer: usize| !is_added[buffer] && !matches!(pipeline.buffers[buffer].role, Role::Result(_));
            let kept = left.iter().zip(&piece.writes).filter(|(_, buffer)| is_kept(**buffer)).map(|(bytes, _)| bytes);
            let results: usize = if model.fuses().is_none() { kept.sum() } else { 0 };
            PartMemory { most: temporaries.iter().sum::<usize>() + results, left, shared: Vec::new() }
        }
    };
    // Op by op, the update works on a parameter at a time, in place.
    let is_in_place = is_staged && piece.kind == PieceKind::Update && !model.counts_pieces();
    PieceMemory { temporaries: temporaries(if is_in_place { 0 } else { most }), left, shared }
}

/// Only a whole step tells by itself what its values are for.
fn temporaries(bytes: usize) -> ByClass {
    let mut classes = ByClass::default();
    classes[Class::Temporaries as usize] = bytes;
    classes
}

/// What the arguments of a piece of the backward pass are: what pieces of the forward pass read or wrote is kept by
/// that, and all else that changes with the microbatch is a gradient.
fn given(pipeline: &Pipeline, piece: &Piece) -> Vec<Given> {
    let forward = pipeline.pieces.iter().filter(|other| other.kind == PieceKind::Forward);
    let of_chunk: FxHashSet<usize> = forward
        .filter(|other| other.chunk == piece.chunk)
        .flat_map(|other| other.reads.iter().chain(&other.writes).copied())
        .collect();
    let given = |&buffer: &usize| match pipeline.buffers[buffer].role {
        Role::Argument(_) | Role::Made | Role::Number | Role::Result(_) => Given::Plain,
        Role::Activation | Role::Received | Role::Gradient if of_chunk.contains(&buffer) => Given::Kept,
        Role::Activation | Role::Received | Role::Gradient => Given::Gradient,
    };
    piece.reads.iter().map(given).collect()
}

/// The bytes of a stage at a point of its list.
pub(super) struct LiveBytes {
    by_class: ByClass,
    /// How many parts of each buffer there are.
    parts: Vec<u32>,
    classes: Vec<Class>,
    /// Parts of sums, which are added as they are made and take no memory of their own.
    is_added: Arc<[bool]>,
    /// What each part takes.
    bytes: Vec<usize>,
    /// The buffer whose memory goes with each.
    goes_with: Arc<[Option<usize>]>,
    reserved_bytes: usize,
    fragmentation: f64,
    counts_pieces: bool,
    pub(super) memory: StageMemory,
}

impl LiveBytes {
    /// Arguments are there from the start, and results take the place of arguments; those of a whole step that do not are
    /// counted with what it needs on the way to them.
    pub(super) fn new(prepared: &Prepared, engine: &Engine, stage: usize) -> LiveBytes {
        let pipeline = &prepared.pipeline;
        let of_argument = |argument: usize| match prepared.classes.get(argument) {
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
        let bytes = |(buffer, &bytes): (&Buffer, &usize)| if is_widened(buffer, engine) { 2 * bytes } else { bytes };
        let mut live = LiveBytes {
            by_class: ByClass::default(),
            parts: vec![0; pipeline.buffers.len()],
            classes: pipeline.buffers.iter().map(class).collect(),
            is_added: prepared.is_added.clone(),
            bytes: pipeline.buffers.iter().zip(&*prepared.buffer_bytes).map(bytes).collect(),
            goes_with: prepared.goes_with.clone(),
            reserved_bytes: engine.reserved_bytes,
            fragmentation: engine.fragmentation,
            counts_pieces: engine.memory_model.counts_pieces(),
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

    /// Makes a sum of its first part, which is there no more then. Gives whether there was no sum before.
    pub(super) fn begin_sum(&mut self, pipeline: &Pipeline, part: usize, sum: usize) -> bool {
        let is_first = self.parts[sum] == 0;
        if is_first && self.counts_pieces {
            self.free(pipeline, part);
        }
        self.make(pipeline, sum)
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
        if let Some(gone) = self.goes_with[buffer] {
            let live = &mut self.by_class[self.classes[gone] as usize];
            *live = live.saturating_sub(self.bytes[gone]);
        }
    }

    /// Bytes at this point.
    pub(super) fn bytes(&self) -> usize {
        self.by_class.iter().sum()
    }

    /// Makes what a piece writes. Gives the bytes while it runs, with what it writes.
    pub(super) fn run(&mut self, pipeline: &Pipeline, piece: &Piece, temporaries: &ByClass) -> usize {
        let within = self.note(temporaries);
        let mut made = FxHashSet::default();
        for &buffer in &piece.writes {
            if made.insert(buffer) {
                self.make(pipeline, buffer);
            }
        }
        within
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

/// Whether a sum over microbatches has more bits than its parts.
fn is_widened(buffer: &Buffer, engine: &Engine) -> bool {
    let is_narrow = buffer.ty.dtype.is_float() && buffer.ty.dtype.stored_bytes() == 2;
    engine.wide_gradients && buffer.role == Role::Gradient && is_narrow
}

/// For every buffer, whether nothing is done with it but to add it to a sum.
pub(super) fn added(pipeline: &Pipeline) -> Vec<bool> {
    let mut is_added = vec![false; pipeline.buffers.len()];
    for instruction in pipeline.stages.iter().flatten() {
        if let Instruction::Accumulate { from, .. } = *instruction {
            is_added[from] = true;
        }
    }
    for piece in &pipeline.pieces {
        piece.reads.iter().for_each(|&read| is_added[read] = false);
    }
    is_added
}

/// For every buffer, the one whose memory goes when it is let go: its own, but where buffers share memory, the last of
/// them takes it along, and what lies in arguments takes nothing. A step that is written for PyTorch has its inputs to its
/// end, since whoever calls it has them.
pub(super) fn goes_with<'m>(
    pipeline: &Pipeline,
    model: MemoryModel,
    memory_of: impl Fn(usize) -> &'m PieceMemory,
) -> Vec<Option<usize>> {
    let is_argument = |buffer: usize| matches!(pipeline.buffers[buffer].role, Role::Argument(_));
    let mut owners: Vec<usize> = (0..pipeline.buffers.len()).collect();
    for (number, piece) in pipeline.pieces.iter().enumerate() {
        for &(result, shared) in &memory_of(number).shared {
            owners[piece.writes[result]] = match shared {
                Shared::Argument(argument) => owners[piece.reads[argument]],
                Shared::Result(other) => owners[piece.writes[other]],
            };
        }
    }
    let ends = ends(pipeline);
    let mut last: Vec<usize> = (0..pipeline.buffers.len()).collect();
    for (buffer, &owner) in owners.iter().enumerate() {
        if ends[buffer] > ends[last[owner]] {
            last[owner] = buffer;
        }
    }
    let goes = |(buffer, &owner): (usize, &usize)| {
        let stays = model == MemoryModel::Written && is_argument(owner) || last[owner] != buffer;
        (!stays).then_some(owner)
    };
    owners.iter().enumerate().map(goes).collect()
}

/// Where in its list each buffer is let go first, which is in the same order for all microbatches.
fn ends(pipeline: &Pipeline) -> Vec<usize> {
    let mut ends = vec![usize::MAX; pipeline.buffers.len()];
    for list in &pipeline.stages {
        for (position, instruction) in list.iter().enumerate() {
            if let Instruction::Free { buffer, .. } = *instruction {
                ends[buffer] = ends[buffer].min(position);
            }
        }
    }
    ends
}

/// The bytes of every buffer, as the pieces that write them leave them.
pub(super) fn buffer_bytes<'m>(pipeline: &Pipeline, memory_of: impl Fn(usize) -> &'m PieceMemory) -> Vec<usize> {
    let mut bytes: Vec<usize> = pipeline.buffers.iter().map(|buffer| buffer.ty.bytes()).collect();
    for (number, piece) in pipeline.pieces.iter().enumerate() {
        let on_host = piece.program.on_host();
        let arguments = piece.reads.iter().zip(&piece.program.body().arguments);
        for (&buffer, _) in arguments.filter(|(_, value)| on_host.get(value.index()) == Some(&true)) {
            bytes[buffer] = 0;
        }
        for (&buffer, &left) in piece.writes.iter().zip(&memory_of(number).left) {
            bytes[buffer] = left;
        }
    }
    bytes
}

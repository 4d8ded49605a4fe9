//! What the pieces of a pipeline run, found once for all devices, engines and what-ifs.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::combine::combine;
use super::engine::Engine;
use super::kernels::{Kernel, Task, kernels};
use super::memory::{PieceMemory, added, buffer_bytes, goes_with, piece_memory};
use crate::lower::LocalProgram;
use crate::pipeline::{Buffer, Instruction, Piece, PieceKind, Pipeline, Role, Schedule, Stored};
use crate::program::{ArgumentClass, Id, ValueId};
use crate::shard::Sharding;

/// A step that can be simulated.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub pipeline: Arc<Pipeline>,
    /// What the step's arguments are for.
    pub classes: Arc<[ArgumentClass]>,
    /// What each piece runs, by number of a program.
    pub(super) program_of: Vec<usize>,
    pub(super) programs: Vec<PreparedProgram>,
    /// For every buffer of the pipeline, whether nothing is done with it but to add it to a sum.
    pub(super) is_added: Arc<[bool]>,
    /// For every buffer, what it takes.
    pub(super) buffer_bytes: Arc<[usize]>,
    /// For every buffer, the one whose memory goes with it.
    pub(super) goes_with: Arc<[Option<usize>]>,
}

#[derive(Clone, Debug)]
pub(super) struct PreparedProgram {
    /// With collectives combined as the engine does.
    pub(super) kernels: Vec<Kernel>,
    pub(super) memory: PieceMemory,
}

impl Prepared {
    pub fn new(pipeline: Pipeline, classes: &[ArgumentClass], engine: &Engine) -> Prepared {
        let is_added = match engine.memory_model.counts_pieces() {
            true => vec![false; pipeline.buffers.len()],
            false => added(&pipeline),
        };
        // Pieces that do the same have the same program.
        let mut known: FxHashMap<usize, usize> = FxHashMap::default();
        let mut programs = Vec::new();
        let mut program_of = Vec::with_capacity(pipeline.pieces.len());
        for piece in &pipeline.pieces {
            let number = *known.entry(Arc::as_ptr(&piece.program) as usize).or_insert_with(|| {
                let memory = piece_memory(&pipeline, piece, &is_added, engine.memory_model);
                let kernels = combine(&kernels(&piece.program), engine.bucket_bytes);
                programs.push(PreparedProgram { kernels, memory });
                programs.len() - 1
            });
            program_of.push(number);
        }
        let memory_of = |piece: usize| -> &PieceMemory {
            let program: &PreparedProgram = &programs[program_of[piece]];
            &program.memory
        };
        let buffer_bytes = buffer_bytes(&pipeline, memory_of).into();
        let goes_with = goes_with(&pipeline, engine.memory_model, memory_of).into();
        let (is_added, classes) = (is_added.into(), classes.into());
        Prepared { pipeline: Arc::new(pipeline), classes, program_of, programs, is_added, buffer_bytes, goes_with }
    }

    /// A step that is not cut into stages.
    pub fn whole(local: &LocalProgram, classes: &[ArgumentClass], engine: &Engine) -> Prepared {
        let mut prepared = Prepared::new(whole(local), classes, engine);
        prepared.programs.iter_mut().for_each(|program| mark_late(&mut program.kernels, &local.is_late));
        prepared
    }

    /// What a piece runs, with collectives combined as the engine does.
    pub fn kernels(&self, piece: usize) -> &[Kernel] {
        &self.programs[self.program_of[piece]].kernels
    }

    /// Changes how many devices there are along an axis of the mesh over which everything is alike, so that
    /// programs for many devices need not be written out: groups of `size` devices at a distance of `stride`.
    pub fn widen(&mut self, stride: usize, size: usize, to: usize) {
        for program in &mut self.programs {
            widen(&mut program.kernels, stride, size, to);
        }
    }
}

fn mark_late(kernels: &mut [Kernel], is_late: &[bool]) {
    for kernel in kernels {
        kernel.is_late = is_late.get(kernel.op.index()) == Some(&true);
        match &mut kernel.task {
            Task::Loop { body, .. } => mark_late(body, is_late),
            Task::Branch(branches) => branches.iter_mut().for_each(|branch| mark_late(branch, is_late)),
            Task::Chain | Task::Products(_) | Task::Attention(_) | Task::Collective { .. } | Task::HostCopy { .. } => {}
        }
    }
}

fn widen(kernels: &mut [Kernel], stride: usize, size: usize, to: usize) {
    for kernel in kernels {
        match &mut kernel.task {
            Task::Collective { pieces, .. } => {
                for piece in pieces {
                    if *piece == (size, stride) {
                        piece.0 = to;
                    } else if piece.1 < stride && piece.0 * piece.1 == size * stride {
                        // The group has the devices of both axes.
                        piece.0 = piece.0 / size * to;
                    }
                }
            }
            Task::Loop { body, .. } => widen(body, stride, size, to),
            Task::Branch(branches) => branches.iter_mut().for_each(|branch| widen(branch, stride, size, to)),
            Task::Chain | Task::Products(_) | Task::Attention(_) | Task::HostCopy { .. } => {}
        }
    }
}

/// One stage that runs one piece.
fn whole(local: &LocalProgram) -> Pipeline {
    let LocalProgram { program, mesh, arguments, results, .. } = local;
    let body = program.body();
    let (argument_count, mut buffers) = (body.arguments.len(), Vec::new());
    let buffer = |name: &str, value: ValueId, role: Role| Buffer {
        name: name.to_owned(),
        stage: 0,
        ty: program.ty(value).clone(),
        each_microbatch: false,
        role,
    };
    for (number, (&value, argument)) in body.arguments.iter().zip(&program.arguments).enumerate() {
        buffers.push(buffer(&argument.name, value, Role::Argument(number)));
    }
    for (number, (&value, result)) in body.results.iter().zip(&program.results).enumerate() {
        buffers.push(buffer(&result.name, value, Role::Result(number)));
    }
    let stored = |first: usize, shardings: &[Sharding]| {
        let stored = |(number, sharding): (usize, &Sharding)| {
            vec![Stored { buffer: first + number, sharding: sharding.clone() }]
        };
        shardings.iter().enumerate().map(stored).collect()
    };
    let piece = Piece {
        chunk: 0,
        kind: PieceKind::Forward,
        reads: (0..argument_count).collect(),
        writes: (argument_count..buffers.len()).collect(),
        program: Arc::clone(program),
    };
    Pipeline {
        meshes: vec![mesh.clone()],
        mesh: mesh.clone(),
        schedule: Schedule::Gpipe,
        microbatches: 1,
        chunk_count: 1,
        pieces: vec![piece],
        buffers,
        stages: vec![vec![Instruction::Run { piece: 0, microbatch: None }]],
        arguments: stored(0, arguments),
        results: stored(argument_count, results),
        names: Arc::default(),
    }
}

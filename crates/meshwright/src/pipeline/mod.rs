//! Pipelines: a step cut into stages that follow each other, each on devices of its own, and what
//! every stage does in which order.

mod assign;
mod balance;
mod check;
mod cut;
mod draft;
mod ground;
mod join;
mod layers;
mod list;
mod measure;
mod modules;
mod place;
mod portable;
mod print;
mod schedule;
mod stablehlo;
mod torch;
mod wire;
mod write;

pub use check::check;
pub(crate) use cut::staged;
pub use cut::{Pipelined, only_pipeline, pipeline};
pub(crate) use layers::Layers;
pub use measure::StageMeasures;
pub use schedule::Schedule;

use std::ops::Range;
use std::sync::Arc;

use crate::program::{OpId, Program, Type};
use crate::shard::{Mesh, Piece as MeshPiece, Pieces, Sharding};

/// A step cut into stages, with what each stage runs and in which order.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The axes that stages lie along, with the axis in time that the microbatches lie along, where there is one.
    pub mesh: Mesh,
    /// The mesh of every stage: that one, or one that lacks some of its axes. Stages follow each other in the numbers of
    /// their devices.
    pub meshes: Vec<Mesh>,
    pub schedule: Schedule,
    pub microbatches: usize,
    /// How many chunks the model is cut into: chunk `c` runs on stage `c % stages`.
    pub chunk_count: usize,
    pub pieces: Vec<Piece>,
    pub buffers: Vec<Buffer>,
    /// Of every stage, what it does in order.
    pub stages: Vec<Vec<Instruction>>,
    /// Of every argument of the step, where it is stored: once on every stage that reads it, and on the
    /// first stage where nobody does.
    pub arguments: Vec<Vec<Stored>>,
    /// Of every result of the step, where it is stored. Stages that hold the same parameter make its next
    /// value each for themselves.
    pub results: Vec<Vec<Stored>>,
    /// The names of arguments and results of the step, where it has some.
    pub names: Arc<Names>,
}

/// What the arguments and results of a step are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub arguments: Vec<String>,
    pub results: Vec<String>,
}

impl Pipeline {
    /// How many devices all stages have.
    pub fn devices(&self) -> usize {
        self.meshes.iter().map(Mesh::devices).sum()
    }

    /// The numbers of the devices of a stage.
    pub fn devices_of(&self, stage: usize) -> Range<usize> {
        let first = self.meshes[..stage].iter().map(Mesh::devices).sum();
        first..first + self.meshes[stage].devices()
    }

    /// The device of a stage that a device of another has its part from, each by its number within its stage. What is
    /// sent is the same along axes that one of the two lacks; whoever has more of it shares the sending.
    pub fn sender(&self, from: usize, to: usize, device: usize) -> usize {
        let (there, here) = (&self.meshes[from], &self.meshes[to]);
        let is_in = |mesh: &Mesh, piece: &MeshPiece| mesh.size(*piece) > 1;
        let spatial = |piece: &MeshPiece| !self.mesh.is_temporal(*piece);
        let only_here: Pieces = here.all_pieces().filter(spatial).filter(|piece| !is_in(there, piece)).collect();
        let mut turn = here.position(device, &only_here);
        let mut sender = 0;
        for piece in there.all_pieces().filter(spatial).filter(|piece| is_in(there, piece)) {
            let position = match is_in(here, &piece) {
                true => here.position(device, &[piece]),
                false => {
                    let position = turn % there.size(piece);
                    turn /= there.size(piece);
                    position
                }
            };
            sender += position * there.stride(piece);
        }
        sender
    }

    /// How many devices of a stage have their parts from one device of another, at most.
    pub fn receivers(&self, from: usize, to: usize) -> usize {
        if self.meshes[from] == self.meshes[to] {
            return 1;
        }
        let mut counts = vec![0; self.meshes[from].devices()];
        (0..self.meshes[to].devices()).for_each(|device| counts[self.sender(from, to, device)] += 1);
        counts.into_iter().max().unwrap_or(1)
    }
}

/// How a model is cut into stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staging {
    pub schedule: Schedule,
    /// Chunks on every stage.
    pub chunks: usize,
    /// The first op of every chunk but the first, in the order of the forward pass.
    pub starts: Vec<OpId>,
    /// Of every stage, the axes of the mesh that its devices do not lie along. Empty where all stages have the whole mesh.
    pub lacks: Vec<Vec<usize>>,
}

impl Staging {
    pub fn stages(&self) -> usize {
        (self.starts.len() + 1) / self.chunks.max(1)
    }

    /// The mesh of every stage, as parts of a mesh.
    pub fn meshes(&self, mesh: &Mesh) -> Vec<Mesh> {
        let lacks = |stage: usize| self.lacks.get(stage).map_or(&[][..], Vec::as_slice);
        (0..self.stages()).map(|stage| mesh.lacking(lacks(stage))).collect()
    }

    /// How many devices all stages have.
    pub fn devices(&self, mesh: &Mesh) -> usize {
        self.meshes(mesh).iter().map(Mesh::devices).sum()
    }
}

/// A copy of an argument or result of the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub buffer: usize,
    /// How it lies on the mesh of its stage. Along the axis of the microbatches it is cut where the
    /// buffer is there for each microbatch.
    pub sharding: Sharding,
}

/// A part of a chunk that runs in one go.
#[derive(Clone, Debug)]
pub struct Piece {
    pub chunk: usize,
    pub kind: PieceKind,
    /// What every device of the stage runs. Pieces that do the same have the same program.
    pub program: Arc<Program>,
    /// The buffers that are the arguments of the program, and those that its results go to.
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PieceKind {
    /// Once in a step, before all else: what does not depend on the microbatch.
    Prepare,
    /// Once for every microbatch.
    Forward,
    /// Once for every microbatch. Where there are pieces for weights, only what earlier chunks wait for.
    Backward,
    /// Once for every microbatch: gradients of weights, which no other chunk waits for.
    Weights,
    /// Once in a step, after all microbatches. A chunk whose update waits for other stages has several.
    Update,
}

/// A value of a stage that outlives a piece: one for the step, or one for every microbatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    pub name: String,
    pub stage: usize,
    /// The type of a device's part.
    pub ty: Type,
    pub each_microbatch: bool,
    pub role: Role,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// An argument of the step, by number.
    Argument(usize),
    /// A result of the step, by number.
    Result(usize),
    /// Kept from one piece of a microbatch for a later one of the same stage.
    Activation,
    /// Sent by another stage.
    Received,
    /// Accumulated over microbatches.
    Gradient,
    /// Made once in a step.
    Made,
    /// The number of the microbatch, which pieces read that cut something by themselves.
    Number,
}

/// One thing that a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Run {
        piece: usize,
        microbatch: Option<usize>,
    },
    /// Starts to send; the stage does not wait.
    Send {
        buffer: usize,
        microbatch: Option<usize>,
        to: usize,
        /// The buffer there.
        into: usize,
    },
    /// Waits for what another stage sent into this buffer.
    Receive {
        buffer: usize,
        microbatch: Option<usize>,
        from: usize,
    },
    /// Adds a microbatch's part to a sum, which begins with the first part.
    Accumulate {
        from: usize,
        into: usize,
        microbatch: Option<usize>,
    },
    Free {
        buffer: usize,
        microbatch: Option<usize>,
    },
}

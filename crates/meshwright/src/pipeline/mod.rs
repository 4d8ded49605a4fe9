//! Pipelines: a step cut into stages that follow each other, each on devices of its own, and what
//! every stage does in which order.

mod assign;
mod balance;
mod check;
mod cut;
mod draft;
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

use std::sync::Arc;

use crate::program::{OpId, Program, Type};
use crate::shard::{Mesh, Sharding};

/// A step cut into stages, with what each stage runs and in which order.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The mesh of one stage, with the axis in time that the microbatches lie along, where there is one.
    pub mesh: Mesh,
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
}

/// How a model is cut into stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staging {
    pub schedule: Schedule,
    /// Chunks on every stage.
    pub chunks: usize,
    /// The first op of every chunk but the first, in the order of the forward pass.
    pub starts: Vec<OpId>,
}

impl Staging {
    pub fn stages(&self) -> usize {
        (self.starts.len() + 1) / self.chunks.max(1)
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

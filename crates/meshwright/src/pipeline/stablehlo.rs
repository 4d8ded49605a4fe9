//! Pieces as StableHLO that XLA compiles and runs.

use std::sync::Arc;

use super::{Buffer, Pipeline, Role, Stored};
use crate::lower::{LocalProgram, stablehlo};
use crate::shard::{Piece, Sharding};

impl Pipeline {
    /// How an engine that knows whole values only holds every buffer on the mesh of its stage. Arguments and results
    /// of the step lie as they are stored, a microbatch's part as all of it. Everything else is the parts of the
    /// devices one behind the other, whatever they are parts of: a sum that is not finished has no whole.
    pub fn held(&self) -> Vec<Sharding> {
        let behind_each_other = |buffer: &Buffer| {
            let mesh = &self.meshes[buffer.stage];
            let is_cut = |piece: &Piece| !mesh.is_temporal(*piece) && mesh.size(*piece) > 1;
            let mut sharding = Sharding::whole(buffer.ty.shape.len());
            sharding.dims.iter_mut().take(1).for_each(|first| *first = mesh.all_pieces().filter(is_cut).collect());
            sharding
        };
        let mut held: Vec<Sharding> = self.buffers.iter().map(behind_each_other).collect();
        for Stored { buffer, sharding } in self.arguments.iter().chain(&self.results).flatten() {
            held[*buffer] = sharding.clone();
            held[*buffer].dims.iter_mut().for_each(|pieces| pieces.retain(|piece| !self.mesh.is_temporal(*piece)));
        }
        for (buffer, sharding) in self.buffers.iter().zip(&mut held) {
            if buffer.role == Role::Number {
                *sharding = Sharding::whole(0);
            }
        }
        held
    }

    /// A module of whole values in which every device of a stage runs a piece on its parts.
    pub fn piece_stablehlo(&self, piece: usize, held: &[Sharding]) -> String {
        let piece = &self.pieces[piece];
        let of = |buffers: &[usize]| buffers.iter().map(|&buffer| held[buffer].clone()).collect();
        let local = LocalProgram {
            program: Arc::clone(&piece.program),
            mesh: self.meshes[piece.chunk % self.stages.len()].clone(),
            arguments: of(&piece.reads),
            results: of(&piece.writes),
            reshards: Vec::new(),
            is_late: Vec::new(),
        };
        stablehlo(&local)
    }

    /// Where a buffer that is there for each microbatch is cut into them.
    pub fn microbatch_dim(&self, buffer: usize) -> Option<usize> {
        let mut copies = self.arguments.iter().chain(&self.results).flatten();
        let stored = copies.find(|stored| stored.buffer == buffer)?;
        stored.sharding.dims.iter().position(|pieces| pieces.iter().any(|&piece| self.mesh.is_temporal(piece)))
    }
}

//! Pieces as Python source that PyTorch runs.

use super::{Names, Piece, PieceKind, Pipeline, Role, Stored};
use crate::profile::PartMemory;
use crate::program::Program;
use crate::torch::{piece_source, step_source, update_memory};

impl Pipeline {
    /// Every stage that holds state has to make its next value too where nobody sends it, or another step would begin with
    /// what was before. Of every argument, `next` is the result that is its next value.
    pub fn check_updates(&self, next: &[Option<usize>], arguments: &[String]) -> Result<(), String> {
        let stage = |stored: &Stored| self.buffers[stored.buffer].stage;
        for (argument, next) in next.iter().enumerate() {
            let Some(result) = *next else { continue };
            let made: Vec<usize> = self.results[result].iter().map(stage).collect();
            if let Some(held) = self.arguments[argument].iter().map(stage).find(|held| !made.contains(held)) {
                return Err(format!("stage {held} holds `{}` and never updates it", arguments[argument]));
            }
        }
        Ok(())
    }

    /// What the devices of a stage run of a piece; `arguments` and `results` are the names of those of the step.
    ///
    /// Pieces are one function, `run`. Those of updates are cut where gradients are ready, since these are given to the
    /// user before anything is updated: what other stages wait for is ready by then too.
    pub fn piece_torch(&self, piece: usize, arguments: &[String], results: &[String]) -> Result<String, String> {
        let piece = &self.pieces[piece];
        if piece.kind != PieceKind::Update {
            return piece_source(&piece.program);
        }
        step_source(&self.named(piece, arguments, results))
    }

    /// What such a piece needs while it runs, where the step has names that tell its gradients.
    pub(crate) fn update_memory(&self, piece: &Piece) -> Option<PartMemory> {
        let Names { arguments, results } = &*self.names;
        if !results.iter().any(|name| name.starts_with("grads.")) {
            return None;
        }
        // What is added up over microbatches is let go once gradients are made of it.
        let is_let_go = |number: usize| !matches!(self.buffers[piece.reads[number]].role, Role::Argument(_));
        update_memory(&self.named(piece, arguments, results), &is_let_go)
    }

    /// The program of a piece with the names that its arguments and results have in the step.
    fn named(&self, piece: &Piece, arguments: &[String], results: &[String]) -> Program {
        let mut program = (*piece.program).clone();
        for (argument, &buffer) in program.arguments.iter_mut().zip(&piece.reads) {
            if let Role::Argument(number) = self.buffers[buffer].role {
                argument.name.clone_from(&arguments[number]);
            }
        }
        for (result, &buffer) in program.results.iter_mut().zip(&piece.writes) {
            result.name = match self.buffers[buffer].role {
                Role::Result(number) => results[number].clone(),
                _ => "grads".to_owned(),
            };
        }
        program
    }
}

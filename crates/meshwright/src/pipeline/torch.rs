//! Pieces as Python source that PyTorch runs.

use super::{PieceKind, Pipeline, Role};
use crate::torch::{piece_source, step_source};

impl Pipeline {
    /// What the devices of a stage run of a piece; `arguments` and `results` are the names of those of the step.
    ///
    /// Pieces are one function, `run`. Those of updates are cut where gradients are ready, since these are given to the
    /// user before anything is updated: what other stages wait for is ready by then too.
    pub fn piece_torch(&self, piece: usize, arguments: &[String], results: &[String]) -> Result<String, String> {
        let piece = &self.pieces[piece];
        if piece.kind != PieceKind::Update {
            return piece_source(&piece.program);
        }
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
        step_source(&program)
    }
}

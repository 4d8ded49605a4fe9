//! Pipelines as text.

use std::fmt;

use super::{Instruction, PieceKind, Pipeline};

impl PieceKind {
    pub fn name(self) -> &'static str {
        match self {
            PieceKind::Prepare => "prepare",
            PieceKind::Forward => "forward",
            PieceKind::Backward => "backward",
            PieceKind::Weights => "weights",
            PieceKind::Update => "update",
        }
    }
}

/// What every stage does, one instruction a line.
impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stage, list) in self.stages.iter().enumerate() {
            writeln!(f, "stage {stage}")?;
            for &instruction in list {
                writeln!(f, "  {}", self.describe(instruction))?;
            }
        }
        Ok(())
    }
}

impl Pipeline {
    /// How a piece is called, such as `forward chunk 0`. Of several updates of a chunk the number follows.
    pub fn piece_name(&self, piece: usize) -> String {
        let Some(this) = self.pieces.get(piece) else { return String::new() };
        let before = self.pieces[..piece].iter().filter(|other| other.chunk == this.chunk && other.kind == this.kind);
        let (name, chunk) = (this.kind.name(), this.chunk);
        match before.count() {
            0 => format!("{name} chunk {chunk}"),
            number => format!("{name} chunk {chunk}.{number}"),
        }
    }

    /// An instruction in words, such as `run forward chunk 0 microbatch 3`.
    pub fn describe(&self, instruction: Instruction) -> String {
        let of =
            |microbatch: Option<usize>| microbatch.map(|number| format!(" microbatch {number}")).unwrap_or_default();
        let name = |buffer: usize| {
            let buffer = &self.buffers[buffer];
            format!("`{}` {}", buffer.name, buffer.ty)
        };
        match instruction {
            Instruction::Run { piece, microbatch } => format!("run {}{}", self.piece_name(piece), of(microbatch)),
            Instruction::Send { buffer, microbatch, to, .. } => {
                format!("send {}{} to stage {to}", name(buffer), of(microbatch))
            }
            Instruction::Receive { buffer, microbatch, from } => {
                format!("receive {}{} from stage {from}", name(buffer), of(microbatch))
            }
            Instruction::Accumulate { from, microbatch, .. } => format!("accumulate {}{}", name(from), of(microbatch)),
            Instruction::Free { buffer, microbatch } => format!("free {}{}", name(buffer), of(microbatch)),
        }
    }
}

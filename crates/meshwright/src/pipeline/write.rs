//! The programs of pieces. Pieces that do the same are written once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::draft::Draft;
use super::ground::Grounds;
use super::place::Key;
use crate::lower::{EmittedPiece, Request, Ways, emit_piece};
use crate::program::{OpId, Program, RegionId, ValueId};
use crate::shard::{Layout, is_tie};

/// A piece's program and what it reads.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) program: Arc<Program>,
    /// Which of what the piece is given are the arguments of the program.
    pub(super) reads: Vec<usize>,
    /// Whether one more argument is the number of the microbatch.
    pub(super) reads_number: bool,
}

pub(super) fn write_pieces(
    grounds: &Grounds<'_>,
    ways: &mut [Ways<'_>],
    axis: Option<usize>,
    pieces: &BTreeMap<Key, Draft>,
) -> Result<BTreeMap<Key, Written>, String> {
    let mut known: BTreeMap<(usize, String), Written> = BTreeMap::new();
    let mut written = BTreeMap::new();
    for (&key, draft) in pieces {
        let number = grounds.number(key.chunk);
        let layout = &grounds.layouts[number];
        let inside = axis.filter(|_| key.is_inside());
        let signature = (number, Signature::of(layout, draft, inside.is_some()));
        if let Some(same) = known.get(&signature) {
            written.insert(key, same.clone());
            continue;
        }
        let request = Request {
            ops: &draft.ops,
            inside,
            given: &draft.given.list,
            finished: &draft.finished,
            gives: &draft.gives.list,
        };
        let EmittedPiece { program, reads, reads_number } = emit_piece(layout, &mut ways[number], &request)?;
        let piece = Written { program: Arc::new(program), reads, reads_number };
        known.insert(signature, piece.clone());
        written.insert(key, piece);
    }
    Ok(written)
}

/// A text that is the same for pieces whose programs are the same: their ops, how these are cut, and what
/// they read of each other, with values told by their place.
struct Signature<'l, 'p> {
    layout: &'l Layout<'p>,
    text: String,
    names: FxHashMap<ValueId, usize>,
}

impl Signature<'_, '_> {
    fn of(layout: &Layout<'_>, draft: &Draft, inside: bool) -> String {
        let mut signature = Signature { layout, text: format!("{inside}"), names: FxHashMap::default() };
        for (value, sharding) in &draft.given.list {
            let name = signature.name(*value);
            let (ty, lies) = (layout.program.ty(*value), layout.sharding(*value));
            let _ = write!(signature.text, "\ngiven {name} {ty} {sharding:?} {lies:?}");
        }
        for &value in &draft.finished {
            let name = signature.name(value);
            let _ = write!(signature.text, "\nfinished {name}");
        }
        for &op in &draft.ops {
            signature.op(op);
        }
        for (value, sharding) in &draft.gives.list {
            let name = signature.name(*value);
            let _ = write!(signature.text, "\ngives {name} {sharding:?}");
        }
        signature.text
    }

    /// The number of a value. Free values are described where they are first read.
    fn name(&mut self, value: ValueId) -> usize {
        if let Some(&name) = self.names.get(&value) {
            return name;
        }
        if self.layout.is_free(value)
            && let Some(op) = self.layout.program.producer(value)
        {
            self.op(op);
        }
        let next = self.names.len();
        *self.names.entry(value).or_insert(next)
    }

    fn op(&mut self, op: OpId) {
        let (layout, program) = (self.layout, self.layout.program);
        let operation = &program.ops[op];
        let operands: Vec<usize> = operation.operands.iter().map(|&value| self.name(value)).collect();
        let _ = write!(
            self.text,
            "\n{:?} {operands:?} {:?} {:?} {}",
            operation.op,
            layout.strategy(op).factors,
            layout.carried(op),
            layout.anatomy.is_forward(op)
        );
        for &region in &operation.regions {
            self.region(op, region);
        }
        for &result in &operation.results {
            let next = self.names.len();
            let name = *self.names.entry(result).or_insert(next);
            let (ty, lies) = (program.ty(result), layout.sharding(result));
            let _ = write!(self.text, " {name} {ty} {lies:?}");
        }
    }

    fn region(&mut self, op: OpId, region: RegionId) {
        let program = self.layout.program;
        match program.applied_binary(region).filter(|_| !is_tie(&program.ops[op].op)) {
            Some(binary) => _ = write!(self.text, " {binary:?}"),
            // Loops and branches are like themselves alone.
            None => _ = write!(self.text, " {op}"),
        }
    }
}

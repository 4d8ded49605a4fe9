//! Lowering: from a program and its layout to the program that each device runs.

mod block;
mod defer;
mod emit;
mod estimate;
mod explain;
mod measure;
mod operand;
mod ops;
mod piece;
mod postpone;
mod reshard;
mod slices;
mod stablehlo;
mod steps;
mod temporal;

pub use defer::defer;
pub use estimate::{CollectiveKind, estimate, sent_bytes};
pub use explain::{Explanation, explain};
pub use measure::{Measures, collective, measure};
pub(crate) use piece::{EmittedPiece, Request, View, When, emit_piece};
pub use reshard::{Haste, Move, Movement, Price, Step, Ways, reshard};
pub use stablehlo::stablehlo;

use std::sync::Arc;

use crate::program::{OpId, Program, ValueId};
use crate::shard::{Layout, Mesh, PieceSet, Sharding, is_tie};

use emit::Emitter;

/// What one device runs, and how it is fed.
#[derive(Clone, Debug)]
pub struct LocalProgram {
    pub program: Arc<Program>,
    pub mesh: Mesh,
    /// How the arguments and results are stored.
    pub arguments: Vec<Sharding>,
    pub results: Vec<Sharding>,
    /// Where values change their sharding, in the order in which they do.
    pub reshards: Vec<Reshard>,
    /// For every op of the program whether it was written for others than the forward pass; none where that is not known.
    pub is_late: Vec<bool>,
}

/// A value that is made with one sharding and needed with another.
#[derive(Clone, Debug)]
pub struct Reshard {
    pub value: ValueId,
    pub reason: Reason,
    pub from: Sharding,
    pub moves: Vec<Move>,
    /// How often loops over axes in time repeat it.
    pub times: usize,
}

/// Why a value is resharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The op that makes it leaves it partial or cut otherwise.
    Made { by: OpId },
    /// The op works on it cut otherwise.
    Read { by: OpId },
    /// A result of the program is stored so.
    Stored { result: usize },
}

/// Decides where partial values are finished and writes the program that each device runs. Loops
/// that cannot be cut in time as the layout says run whole. Gives the layout with what was decided.
pub fn lower_layout<'p>(layout: Layout<'p>, price: Price<'_>) -> Result<(Layout<'p>, LocalProgram), String> {
    let mesh = layout.mesh.clone();
    let mut ways = Ways::new(&mesh, price);
    let decided = decide(layout, &mut ways)?;
    let local = lower(&decided, &mut ways)?;
    Ok((decided, local))
}

/// The layout with what is decided about partial values and about loops that cannot be cut in time.
pub(crate) fn decide<'p>(layout: Layout<'p>, ways: &mut Ways<'_>) -> Result<Layout<'p>, String> {
    let program = layout.program;
    let is_temporal = layout.mesh.axes.iter().any(|axis| axis.temporal);
    let has_control =
        program.body().ops.iter().any(|&op| !program.ops[op].regions.is_empty() && is_tie(&program.ops[op].op));
    let mut start = layout;
    if !is_temporal || !has_control {
        defer(&mut start, ways);
        return Ok(start);
    }
    let mut stripped: Vec<(OpId, PieceSet)> = Vec::new();
    loop {
        let mut decided = start.clone();
        defer(&mut decided, ways);
        match temporal::find_unlevel(&Emitter::new(&decided, ways)) {
            Some(loose) if stripped.contains(&loose) => {
                return Err(format!("{} cannot be cut in time, nor run whole", loose.0));
            }
            Some((op, pieces)) => {
                start.strip(op, pieces);
                stripped.push((op, pieces));
            }
            None => return Ok(decided),
        }
    }
}

/// Writes the program that each device runs under a layout. Reshards take the cheapest ways.
pub fn lower(layout: &Layout<'_>, ways: &mut Ways<'_>) -> Result<LocalProgram, String> {
    let program = layout.program;
    let arguments: Vec<Sharding> = program.body().arguments.iter().map(|&value| layout.stored(value)).collect();
    let results = stored_results(layout, &arguments);
    let mut emitter = Emitter::new(layout, ways);
    emitter.arguments(&arguments);
    emitter.body()?;
    emitter.results(&results)?;
    let reshards = std::mem::take(&mut emitter.reshards);
    let (mut program, is_late) = emitter.finish();
    loosen_aliases(&mut program, &arguments, &results);
    Ok(LocalProgram { program: Arc::new(program), mesh: layout.mesh.clone(), arguments, results, reshards, is_late })
}

/// A result that is an argument's next value is stored as the argument is.
pub(crate) fn stored_results(layout: &Layout<'_>, arguments: &[Sharding]) -> Vec<Sharding> {
    let program = layout.program;
    let mut results: Vec<Sharding> = program.body().results.iter().map(|&value| layout.stored(value)).collect();
    for (argument, result) in layout.anatomy.next.iter().enumerate() {
        if let &Some(result) = result {
            results[result] = arguments[argument].clone();
        }
    }
    results
}

/// A result takes the place of an argument only where their parts are alike; elsewhere the argument's
/// memory is free for any result.
fn loosen_aliases(program: &mut Program, arguments: &[Sharding], results: &[Sharding]) {
    for (argument, stored) in program.arguments.iter_mut().zip(arguments) {
        if argument.alias.is_some_and(|result| results.get(result) != Some(stored)) {
            argument.alias = None;
            argument.donated = true;
        }
    }
}

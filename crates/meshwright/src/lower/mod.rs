//! Lowering: from a program and its layout to the program that each device runs.

mod block;
mod defer;
mod emit;
mod estimate;
mod operand;
mod ops;
mod phase;
mod reshard;
mod steps;

pub use defer::defer;
pub use estimate::estimate;
pub use reshard::{Move, Movement, Price, Step, Ways, reshard};

use crate::program::{OpId, Program, ResultInfo, ValueId};
use crate::shard::{Layout, Mesh, Sharding};

use emit::Emitter;

/// What one device runs, and how it is fed.
#[derive(Clone, Debug)]
pub struct LocalProgram {
    pub program: Program,
    pub mesh: Mesh,
    /// How the arguments and results are stored.
    pub arguments: Vec<Sharding>,
    pub results: Vec<Sharding>,
    /// Where values change their sharding, in the order in which they do.
    pub reshards: Vec<Reshard>,
}

/// A value that is made with one sharding and needed with another.
#[derive(Clone, Debug)]
pub struct Reshard {
    pub value: ValueId,
    pub reason: Reason,
    pub from: Sharding,
    pub moves: Vec<Move>,
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
    let mut program = emitter.finish();
    drop_aliases(&mut program, &arguments, &results);
    Ok(LocalProgram { program, mesh: layout.mesh.clone(), arguments, results, reshards })
}

/// An argument whose memory was to be one result's, which now is stored otherwise, gives it to any. Who
/// wrote the program may have paired arguments with results by nothing but their types.
fn drop_aliases(program: &mut Program, arguments: &[Sharding], results: &[Sharding]) {
    for (argument, stored) in program.arguments.iter_mut().zip(arguments) {
        if argument.alias.is_some_and(|result| results[result] != *stored) {
            (argument.alias, argument.donated) = (None, true);
        }
    }
}

/// A result that is an argument's next value is stored as the argument is.
fn stored_results(layout: &Layout<'_>, arguments: &[Sharding]) -> Vec<Sharding> {
    let program = layout.program;
    let mut results: Vec<Sharding> = program.body().results.iter().map(|&value| layout.stored(value)).collect();
    for (argument, result) in program.state_pairs().into_iter().enumerate() {
        if let Some(result) = result {
            results[result] = arguments[argument].clone();
        }
    }
    results
}

impl LocalProgram {
    pub fn result_infos(&self) -> &[ResultInfo] {
        &self.program.results
    }
}

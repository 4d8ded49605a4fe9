//! Tactics: how a user, or a preset, lays a program out step by step.

mod batch;
mod file;
mod partition;
mod pattern;
mod presets;
mod remat;
mod structure;
mod tiles;

pub use batch::batch_dims;
pub use file::{FileError, parse, parse_with_spans};
pub use partition::{Feedback, LaidOut, Partitioned, lay_out, only_local, partition, rewrite};
pub(crate) use partition::{lay_out_last, measure_all, split_axis};
pub use pattern::Pattern;
pub(crate) use presets::cut_batch;
pub(crate) use remat::{scope_groups, scope_numbers};
pub(crate) use tiles::check_stored;
pub use tiles::check_tiles;
use tiles::tile;

use crate::pipeline::Schedule;
use crate::program::{Id, OpId, Program, ValueId};
use crate::shard::{Layout, Mesh, PieceSet, Pieces};

/// One step of a schedule. Tactics apply in order; what an earlier one decided stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Tactic {
    /// Shown in feedback.
    pub name: String,
    /// The axis of the mesh that the actions are about, where they are about one.
    pub axis: Option<String>,
    pub actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A planner decides what is left.
    Auto(Auto),
    /// No op in these scopes is cut.
    KeepWhole(Pattern),
    Preset(Preset),
    /// What these scopes compute is computed again for the backward pass.
    Remat(Pattern),
    /// Values with these names are not cut.
    Replicate(Pattern),
    /// Values with these names are worked on in slices, one after the other.
    Split {
        pattern: Pattern,
        slices: usize,
    },
    /// The model runs in stages, each on a mesh of its own.
    Stages(Stages),
    /// A dimension of values with these names is cut.
    Tile {
        pattern: Pattern,
        dim: Dim,
    },
}

/// What is left to a planner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auto {
    /// The axes that it may cut with, where not all.
    pub axes: Option<Vec<String>>,
    /// No device may have more in memory.
    pub memory_bytes: Option<u64>,
    /// What it may do, where not all.
    pub only: Option<Vec<Freedom>>,
}

impl Auto {
    pub fn may(&self, freedom: Freedom) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&freedom))
    }
}

/// Something that a planner may do. It may always cut the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// Run the step in microbatches.
    Microbatches,
    /// Leave state of the optimizer on the host.
    Offload,
    /// Compute values again for the backward pass.
    Remat,
    /// Run ops in slices, one after the other.
    Split,
    /// Cut what is stored from step to step.
    State,
    /// Cut dimensions of products that the batch does not lead to.
    Tensor,
}

impl Freedom {
    pub const ALL: &'static [(&'static str, Freedom)] = &[
        ("microbatches", Freedom::Microbatches),
        ("offload", Freedom::Offload),
        ("remat", Freedom::Remat),
        ("split", Freedom::Split),
        ("state", Freedom::State),
        ("tensor", Freedom::Tensor),
    ];
}

/// How a model is cut into stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    pub cut: StageCut,
    pub schedule: Schedule,
    /// Pieces of the model on every stage.
    pub chunks: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageCut {
    /// So many stages, of about the same work.
    Even(usize),
    /// The scopes of each chunk, in the order of the model.
    Scopes(Vec<Vec<Pattern>>),
}

/// Which dimension a tile cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// The first that divides.
    First,
    Number(usize),
}

/// Tactics that find their tensors by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    Data,
    Expert,
    Megatron,
    Sequence,
    Vocab,
    Zero1,
    Zero2,
    Zero3,
}

impl Preset {
    pub const ALL: &'static [(&'static str, Preset)] = &[
        ("data", Preset::Data),
        ("expert", Preset::Expert),
        ("megatron", Preset::Megatron),
        ("sequence", Preset::Sequence),
        ("vocab", Preset::Vocab),
        ("zero1", Preset::Zero1),
        ("zero2", Preset::Zero2),
        ("zero3", Preset::Zero3),
    ];
}

/// Why a tactic cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TacticError {
    /// The place of the tactic in the schedule, where it is one's fault.
    pub number: Option<usize>,
    pub tactic: String,
    pub message: String,
    pub hint: Option<String>,
}

/// Applies one tactic to a layout and propagates. `number` is its place in the schedule. Gives notes
/// on what was asked for and could not be.
pub fn apply(layout: &mut Layout<'_>, tactic: &Tactic, number: u16) -> Result<Vec<String>, TacticError> {
    let fail =
        |(message, hint)| TacticError { number: Some(usize::from(number)), tactic: tactic.name.clone(), message, hint };
    let mut notes = Vec::new();
    layout.begin_tactic(number);
    for action in &tactic.actions {
        notes.extend(act(layout, tactic, action).map_err(fail)?);
        // Recomputation is done to the program before it is laid out, stages are cut after.
        if !matches!(action, Action::Remat(_) | Action::Stages(_)) {
            layout.propagate();
        }
    }
    Ok(notes)
}

/// Does what an action of a tactic says, without what follows from it.
pub(crate) fn act(layout: &mut Layout<'_>, tactic: &Tactic, action: &Action) -> Result<Vec<String>, Problem> {
    match action {
        Action::Auto(_) => {
            let hint = "what comes after it is about axes in time, recomputation or stages".to_owned();
            Err(("`auto` decides all that is left, once".to_owned(), Some(hint)))
        }
        Action::Remat(pattern) => scoped(layout.program, pattern).map(|_| Vec::new()),
        Action::Stages(_) => Ok(Vec::new()),
        Action::Split { pattern, .. } => split(layout, pattern),
        Action::KeepWhole(pattern) => {
            let pieces = pieces(&layout.mesh, tactic)?;
            keep_whole(layout, pattern, &pieces)?;
            Ok(Vec::new())
        }
        Action::Preset(preset) => {
            let pieces = pieces(&layout.mesh, tactic)?;
            presets::apply(layout, *preset, &pieces).map_err(|message| (message, presets::hint(*preset)))
        }
        Action::Replicate(pattern) => {
            let pieces = pieces(&layout.mesh, tactic)?;
            for value in named(layout.program, pattern)? {
                layout.block(value, PieceSet::of(&pieces));
            }
            Ok(Vec::new())
        }
        Action::Tile { pattern, dim } => {
            let pieces = pieces(&layout.mesh, tactic)?;
            tile(layout, pattern, *dim, &pieces)
        }
    }
}

/// What is wrong, and what could be done.
type Problem = (String, Option<String>);

fn pieces(mesh: &Mesh, tactic: &Tactic) -> Result<Pieces, Problem> {
    let names = || {
        let names: Vec<String> = mesh.axes.iter().map(|axis| format!("`{}`", axis.name)).collect();
        Some(format!("the mesh has {}", names.join(", ")))
    };
    let Some(name) = &tactic.axis else { return Err(("it names no `axis`".to_owned(), names())) };
    match mesh.axis(name) {
        Some(axis) => Ok(mesh.pieces(axis)),
        None => Err((format!("there is no axis `{name}`"), names())),
    }
}

/// The arguments and results with a name that fits.
fn named(program: &Program, pattern: &Pattern) -> Result<Vec<ValueId>, Problem> {
    let body = program.body();
    let arguments = program.arguments.iter().map(|argument| &argument.name).zip(&body.arguments);
    let results = program.results.iter().map(|result| &result.name).zip(&body.results);
    let fitting = arguments.chain(results).filter(|(name, _)| !name.is_empty() && pattern.matches(name));
    let mut values: Vec<ValueId> = fitting.map(|(_, &value)| value).collect();
    values.sort_unstable_by_key(|value| value.index());
    values.dedup();
    if values.is_empty() {
        let known = program.arguments.iter().map(|argument| argument.name.as_str()).find(|name| !name.is_empty());
        let hint = known.map(|name| format!("names are like `{name}`; `inspect` lists them all"));
        return Err((format!("no argument or result is named `{}`", pattern.text()), hint));
    }
    Ok(values)
}

fn keep_whole(layout: &mut Layout<'_>, pattern: &Pattern, pieces: &[crate::shard::Piece]) -> Result<(), Problem> {
    for op in scoped(layout.program, pattern)? {
        layout.block_op(op, PieceSet::of(pieces));
    }
    Ok(())
}

/// The ops in scopes that fit.
fn scoped(program: &Program, pattern: &Pattern) -> Result<Vec<OpId>, Problem> {
    let fits = |scope: &str| pattern.scope(scope).is_some();
    let fitting: Vec<bool> = program.locations.iter().map(|(_, location)| fits(&location.scope)).collect();
    let ops: Vec<OpId> =
        program.ops.iter().filter(|(_, operation)| fitting[operation.location.index()]).map(|(op, _)| op).collect();
    if ops.is_empty() {
        let known = program.ops.iter().map(|(_, operation)| &program.locations[operation.location].scope);
        let known = known.filter(|scope| !scope.is_empty() && !scope.contains('(')).max_by_key(|scope| scope.len());
        let hint = known.map(|scope| format!("scopes are like `{scope}`; `print --locations` shows them all"));
        return Err((format!("no operation is in a scope `{}`", pattern.text()), hint));
    }
    Ok(ops)
}

/// Cuts values into slices in time, along a dimension that no device axis cuts where there is one.
fn split(layout: &mut Layout<'_>, pattern: &Pattern) -> Result<Vec<String>, Problem> {
    let axis = layout.mesh.axis(&partition::split_axis(pattern));
    let Some(axis) = axis else { return Err(("the mesh has no axis for the slices".to_owned(), None)) };
    let pieces = layout.mesh.pieces(axis);
    layout.sliced = layout.sliced.union(PieceSet::of(&pieces));
    let mut notes = Vec::new();
    for value in named(layout.program, pattern)? {
        let shape = layout.program.shape(value);
        let lies = layout.sharding(value);
        let divides = |dim: &usize| {
            shape[*dim].is_multiple_of(layout.mesh.product(&lies.dims[*dim]) * layout.mesh.product(&pieces))
        };
        let fitting: Vec<usize> = (0..shape.len()).filter(divides).collect();
        let uncut = fitting.iter().rev().find(|&&dim| lies.dims[dim].is_empty());
        match uncut.or(fitting.first()) {
            Some(&dim) => {
                cut(layout, value, dim, &pieces, &mut notes);
            }
            None => notes.push(format!("no dimension of {} divides", value_name(layout.program, value))),
        }
    }
    Ok(notes)
}

/// The first dimension whose parts all pieces cut evenly.
pub(crate) fn first_that_divides(layout: &Layout<'_>, value: ValueId, pieces: &[crate::shard::Piece]) -> Option<usize> {
    let mesh = &layout.mesh;
    let shape = layout.program.shape(value);
    let divides = |&dim: &usize| {
        let parts = mesh.product(&layout.sharding(value).dims[dim]) * mesh.product(pieces);
        shape[dim] > 0 && shape[dim].is_multiple_of(parts)
    };
    (0..shape.len()).find(divides)
}

/// Cuts a dimension by all pieces, or leaves it and says why.
pub(crate) fn cut(
    layout: &mut Layout<'_>,
    value: ValueId,
    dim: usize,
    pieces: &[crate::shard::Piece],
    notes: &mut Vec<String>,
) -> bool {
    for &piece in pieces {
        if layout.sharding(value).dims[dim].contains(&piece) {
            continue;
        }
        if !layout.may_cut(value, dim, piece) {
            let name = value_name(layout.program, value);
            notes.push(format!("dimension {dim} of {name} stays as it is: {}", why_not(layout, value, dim, piece)));
            return false;
        }
        layout.cut(value, dim, piece);
    }
    true
}

fn why_not(layout: &Layout<'_>, value: ValueId, dim: usize, piece: crate::shard::Piece) -> String {
    let axis = &layout.mesh.axes[layout.mesh.axis_of(piece)].name;
    if layout.sharding(value).used().contains(piece) {
        return format!("axis `{axis}` already cuts it elsewhere");
    }
    let size = layout.program.shape(value)[dim];
    if size < layout.mesh.product(&layout.sharding(value).dims[dim]) * layout.mesh.size(piece) {
        return format!("its size is {size}");
    }
    if !layout.mesh.may_follow(&layout.sharding(value).dims[dim], piece, size) {
        return format!("its size of {size} does not divide into equal steps along `{axis}`");
    }
    format!("an earlier tactic keeps it off axis `{axis}`")
}

/// The name of an argument or result, or its number.
pub(crate) fn value_name(program: &Program, value: ValueId) -> String {
    let body = program.body();
    let argument = body.arguments.iter().position(|&argument| argument == value);
    let result = body.results.iter().position(|&result| result == value);
    let name =
        argument.map(|index| &program.arguments[index].name).or(result.map(|index| &program.results[index].name));
    match name {
        Some(name) if !name.is_empty() => format!("`{name}`"),
        _ => format!("`{value}`"),
    }
}

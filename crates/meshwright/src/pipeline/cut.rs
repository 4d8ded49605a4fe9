//! From a program and tactics to a pipeline.

use std::sync::Arc;

use super::assign::{Assignment, Cut, assign};
use super::draft::Drafts;
use super::ground::Grounds;
use super::join::finish_before_joins;
use super::list::lists;
use super::modules::chunk_modules;
use super::place::Placing;
use super::schedule::{Counts, Schedule};
use super::wire::{Wiring, wire};
use super::write::write_pieces;
use super::{Names, Pipeline, Staging, check};
use crate::lower::{Price, View, Ways, decide};
use crate::profile::work;
use crate::program::{Anatomy, ArgumentClass, Op, Program};
use crate::shard::{Conflict, Layout, Mesh, PieceSet};
use crate::tactics::{
    Action, Feedback, LaidOut, StageCut, Stages, Tactic, TacticError, lay_out, lay_out_last, measure_all, rewrite,
};

/// A program laid out by tactics and cut into stages.
#[derive(Clone, Debug)]
pub struct Pipelined {
    /// What was laid out: the program given, with its loops over layers and its batch normalizations written
    /// out and with what is computed again.
    pub program: Program,
    /// What its parts are for.
    pub anatomy: Arc<Anatomy>,
    pub pipeline: Pipeline,
    /// Of every chunk, the modules of its forward pass, such as `layers/4 … layers/7`.
    pub modules: Vec<String>,
    /// One per tactic; what it costs is that of all stages as one, and after the last tactic what all stages
    /// cost together.
    pub feedback: Vec<Feedback>,
    pub conflicts: Vec<Conflict>,
}

/// What is wrong, and what could be done.
type Problem = (String, Option<String>);

/// Applies tactics of which one cuts the model into stages. The mesh is that of one stage; an axis of it in
/// time is that of the microbatches.
pub fn pipeline(
    program: &Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
) -> Result<Pipelined, TacticError> {
    let asked = Asked::find(mesh, tactics)?;
    let program = asked.rewritten(program, mesh, tactics)?;
    let LaidOut { layout, mut snapshots, notes } = lay_out(&program, mesh, tactics, price)?;
    let last = snapshots.pop().unwrap_or_else(|| layout.clone());
    asked.check_tiled(&last, &notes)?;
    let (built, mut measured) = measure_all(snapshots, price, || asked.build(&last, price));
    let (pipeline, modules) = built?;
    measured.push(Ok(pipeline.measures()));
    let mut feedback = Vec::new();
    for (tactic, (notes, measured)) in tactics.iter().zip(notes.into_iter().zip(measured)) {
        let measures = measured.map_err(|message| asked.refuse((message, None)))?;
        feedback.push(Feedback { tactic: tactic.name.clone(), measures, notes });
    }
    let (conflicts, anatomy) = (layout.conflicts(), layout.anatomy.clone());
    Ok(Pipelined { program, anatomy, pipeline, modules, feedback, conflicts })
}

/// The same without what every tactic costs, for those who ask for many pipelines.
pub fn only_pipeline(
    program: &Program,
    mesh: &Mesh,
    tactics: &[Tactic],
    price: Price<'_>,
) -> Result<(Pipeline, Arc<Anatomy>), TacticError> {
    let asked = Asked::find(mesh, tactics)?;
    let program = asked.rewritten(program, mesh, tactics)?;
    let (layout, notes) = lay_out_last(&program, mesh, tactics, price)?;
    asked.check_tiled(&layout, &notes)?;
    let (pipeline, _) = asked.build(&layout, price)?;
    Ok((pipeline, layout.anatomy.clone()))
}

/// What is asked for: the stages, and which tactic asks.
struct Asked<'t> {
    number: usize,
    tactic: &'t Tactic,
    stages: &'t Stages,
    counts: Counts,
    /// That of the microbatches, where there are several.
    axis: Option<usize>,
}

impl<'t> Asked<'t> {
    fn find(mesh: &Mesh, tactics: &'t [Tactic]) -> Result<Asked<'t>, TacticError> {
        let (number, stages) = find_stages(tactics)?;
        let tactic = &tactics[number];
        let refuse = |problem| refused(number, tactic, problem);
        let axis = microbatch_axis(mesh).map_err(refuse)?;
        let counts = counts(stages, mesh, axis).map_err(refuse)?;
        Ok(Asked { number, tactic, stages, counts, axis: axis.filter(|_| counts.microbatches > 1) })
    }

    fn refuse(&self, problem: Problem) -> TacticError {
        refused(self.number, self.tactic, problem)
    }

    fn rewritten(&self, program: &Program, mesh: &Mesh, tactics: &[Tactic]) -> Result<Program, TacticError> {
        let unrolled = unrolled(program).map_err(|message| self.refuse((message, None)))?;
        Ok(rewrite(&unrolled, mesh, tactics))
    }

    fn check_tiled(&self, layout: &Layout<'_>, notes: &[Vec<String>]) -> Result<(), TacticError> {
        self.axis.map_or(Ok(()), |axis| check_tiled(layout, axis, notes)).map_err(|problem| self.refuse(problem))
    }

    fn build(&self, layout: &Layout<'_>, price: Price<'_>) -> Result<(Pipeline, Vec<String>), TacticError> {
        let cut = match &self.stages.cut {
            StageCut::Even(_) => Cut::Even,
            StageCut::Scopes(scopes) => Cut::Scopes(scopes),
        };
        let stages = StagesOf { schedule: self.stages.schedule, cut, counts: self.counts, lacks: &[] };
        build(layout, &stages, self.axis, price).map_err(|problem| self.refuse(problem))
    }
}

fn refused(number: usize, tactic: &Tactic, (message, hint): Problem) -> TacticError {
    TacticError { number: Some(number), tactic: tactic.name.clone(), message, hint }
}

fn find_stages(tactics: &[Tactic]) -> Result<(usize, &Stages), TacticError> {
    let mut found = tactics.iter().enumerate().flat_map(|(number, tactic)| {
        let stages = tactic.actions.iter().filter_map(|action| match action {
            Action::Stages(stages) => Some(stages),
            _ => None,
        });
        stages.map(move |stages| (number, stages))
    });
    let fail = |number: Option<usize>, message: &str| TacticError {
        number,
        tactic: number.map_or("stages".to_owned(), |number| tactics[number].name.clone()),
        message: message.to_owned(),
        hint: None,
    };
    let first = found.next().ok_or_else(|| fail(None, "no tactic has `stages`"))?;
    match found.next() {
        Some((number, _)) => Err(fail(Some(number), "`stages` is there twice")),
        None => Ok(first),
    }
}

/// The axis in time that the microbatches lie along.
fn microbatch_axis(mesh: &Mesh) -> Result<Option<usize>, Problem> {
    let axes: Vec<usize> = (0..mesh.axes.len()).filter(|&axis| mesh.axes[axis].temporal).collect();
    match axes[..] {
        [] => Ok(None),
        [axis] => Ok(Some(axis)),
        _ => {
            let names: Vec<String> = axes.iter().map(|&axis| format!("`{}`", mesh.axes[axis].name)).collect();
            let message = format!("there are several axes in time, {}: which one are microbatches", names.join(", "));
            Err((message, Some("give the mesh one axis in time, such as `micro=8@time`".to_owned())))
        }
    }
}

fn counts(stages: &Stages, mesh: &Mesh, axis: Option<usize>) -> Result<Counts, Problem> {
    let chunks = stages.chunks;
    let stage_count = match &stages.cut {
        StageCut::Even(count) => *count,
        StageCut::Scopes(scopes) => scopes.len() / chunks,
    };
    let microbatches = axis.map_or(1, |axis| mesh.axes[axis].size);
    let counts = Counts { stages: stage_count, chunks, microbatches };
    check_counts(stages.schedule, counts)?;
    Ok(counts)
}

fn check_counts(schedule: Schedule, Counts { stages, chunks, microbatches }: Counts) -> Result<(), Problem> {
    if schedule == Schedule::Interleaved && chunks > 1 && !microbatches.is_multiple_of(stages) {
        let message = format!("`interleaved` takes a multiple of {stages} microbatches, and there are {microbatches}");
        return Err((message, Some(format!("give the mesh an axis such as `micro={}@time`", 2 * stages))));
    }
    Ok(())
}

/// The program with its loops over layers written out, so that they can be cut between layers.
fn unrolled(program: &Program) -> Result<Program, String> {
    let is_layers = |op| {
        let regions = program.ops[op].regions.iter().flat_map(|&region| &program.regions[region].ops);
        program.ops[op].op == Op::While
            && program.counted_loop(op).is_some()
            && regions.into_iter().any(|&inner| work(program, inner).matrix > 0.0)
    };
    if program.body().ops.iter().any(|&op| is_layers(op)) { program.unroll() } else { Ok(program.clone()) }
}

/// A layout with an axis of microbatches, where there are several, cut into stages, and the modules of every chunk.
pub(crate) fn staged(
    layout: &Layout<'_>,
    staging: &Staging,
    price: Price<'_>,
) -> Result<(Pipeline, Vec<String>), String> {
    let in_words = |(message, _): Problem| message;
    let axis = microbatch_axis(&layout.mesh).map_err(in_words)?;
    let Staging { schedule, chunks, .. } = *staging;
    if chunks == 0 || !(staging.starts.len() + 1).is_multiple_of(chunks) {
        return Err(format!("{} chunks are not {chunks} on every stage", staging.starts.len() + 1));
    }
    let microbatches = axis.map_or(1, |axis| layout.mesh.axes[axis].size);
    let counts = Counts { stages: staging.stages(), chunks, microbatches };
    check_counts(schedule, counts).map_err(in_words)?;
    check_lacks(staging, &layout.mesh)?;
    let cut = StagesOf { schedule, cut: Cut::Before(&staging.starts), counts, lacks: &staging.lacks };
    build(layout, &cut, axis, price).map_err(in_words)
}

/// Stages lack axes of devices that there are, and one of them has each.
fn check_lacks(staging: &Staging, mesh: &Mesh) -> Result<(), String> {
    let (told, stages) = (staging.lacks.len(), staging.stages());
    if told != 0 && told != stages {
        return Err(format!("it is told of {told} stages which axes they lack, and there are {stages}"));
    }
    for (stage, axes) in staging.lacks.iter().enumerate() {
        let is_there = |axis: &usize| mesh.axes.get(*axis).is_some_and(|axis| !axis.temporal);
        if let Some(axis) = axes.iter().find(|axis| !is_there(axis)) {
            return Err(format!("stage {stage} lacks axis {axis}, which is no axis of devices of `{mesh}`"));
        }
    }
    Ok(())
}

/// The stages that a layout is cut into.
struct StagesOf<'s> {
    schedule: Schedule,
    cut: Cut<'s>,
    counts: Counts,
    /// Of every stage, the axes that it lacks.
    lacks: &'s [Vec<usize>],
}

fn build(
    layout: &Layout<'_>,
    stages: &StagesOf<'_>,
    axis: Option<usize>,
    price: Price<'_>,
) -> Result<(Pipeline, Vec<String>), Problem> {
    let &StagesOf { schedule, ref cut, counts, lacks } = stages;
    let chunk_count = counts.stages * counts.chunks;
    if !layout.anatomy.classes.contains(&ArgumentClass::Parameter) {
        let hint = "stages are for training steps that give back new parameters and a loss".to_owned();
        return Err(("no argument is a parameter that the step updates".to_owned(), Some(hint)));
    }
    let assignment = assign(layout.program, &layout.anatomy, chunk_count, cut)?;
    let mut ways = Ways::new(&layout.mesh, price);
    let mut layout = decide(layout.clone(), &mut ways).map_err(|message| (message, None))?;
    finish_before_joins(&mut layout, &assignment.joins);
    let grounds = Grounds::new(layout, counts.stages, lacks);
    let layout = &grounds.layouts[0];
    let mut ways = vec![ways];
    ways.extend(grounds.layouts[1..].iter().map(|layout| Ways::new(&layout.mesh, price)));
    let wiring = pieces(&grounds, &assignment, schedule, axis, &mut ways)?;
    let instructions = lists(layout.program, &wiring, schedule, counts);
    let Wiring { pieces, buffers, arguments, results, .. } = wiring;
    let step = layout.program;
    let names = Names {
        arguments: step.arguments.iter().map(|argument| argument.name.clone()).collect(),
        results: step.results.iter().map(|result| result.name.clone()).collect(),
    };
    let pipeline = Pipeline {
        mesh: layout.mesh.clone(),
        meshes: grounds.meshes(),
        schedule,
        microbatches: counts.microbatches,
        chunk_count,
        pieces,
        buffers,
        stages: instructions,
        arguments,
        results,
        names: Arc::new(names),
    };
    check(&pipeline).map_err(|message| (message, None))?;
    let is_forward = |op| layout.anatomy.is_forward(op);
    let modules = chunk_modules(layout.program, is_forward, &assignment, chunk_count);
    Ok((pipeline, modules))
}

/// An axis of microbatches has to cut the batch. Where a tactic tried, its note says why it could not.
fn check_tiled(layout: &Layout<'_>, axis: usize, notes: &[Vec<String>]) -> Result<(), Problem> {
    let pieces = layout.mesh.pieces(axis);
    let mut arguments = layout.program.body().arguments.iter();
    if arguments.any(|&value| layout.sharding(value).cut().intersects(PieceSet::of(&pieces))) {
        return Ok(());
    }
    let name = &layout.mesh.axes[axis].name;
    let tile = format!("add a tactic with `axis = \"{name}\"` and `tile = {{ \"batch.**\" = 0 }}`");
    let hint = notes.iter().flatten().next().cloned().unwrap_or(tile);
    Err((format!("axis `{name}` cuts no argument, so that there are no microbatches"), Some(hint)))
}

fn pieces(
    grounds: &Grounds<'_>,
    assignment: &Assignment,
    schedule: Schedule,
    axis: Option<usize>,
    ways: &mut [Ways<'_>],
) -> Result<Wiring, Problem> {
    let layout = &grounds.layouts[0];
    let splits_weights = schedule == Schedule::ZeroBubble;
    let mut views: Vec<View<'_, '_, '_>> =
        grounds.layouts.iter().zip(&mut *ways).map(|(layout, ways)| View::new(layout, ways)).collect();
    let places = Placing { layout, assignment, axis, splits_weights }.places(&views[0])?;
    let mut drafts = Drafts::new(grounds, axis, &places);
    drafts.fill(&mut views)?;
    let results = drafts.results(&mut views)?;
    let drafts = drafts.pieces;
    drop(views);
    let written = write_pieces(grounds, ways, axis, &drafts).map_err(|message| (message, None))?;
    Ok(wire(grounds, &drafts, &written, &results))
}

//! What is in memory over the time of a step.

use std::borrow::Cow;

use meshwright::profile::{ByClass, Class, Holds, Memory, Profile, profile};
use meshwright::program::{Id, Op, Program, RegionId};
use meshwright::simulate::{Run, SpanKind};
use serde::Serialize;

use super::timeline::nanoseconds;
use crate::simulate::Summary;

/// Bytes from each time on, by what they are for.
#[derive(Debug, Serialize)]
pub(super) struct MemoryPart {
    stage: usize,
    limit: Option<usize>,
    /// In nanoseconds, or in steps of a profile.
    time: Vec<i64>,
    classes: Vec<Series>,
}

#[derive(Debug, Serialize)]
struct Series {
    name: &'static str,
    bytes: Vec<usize>,
}

/// More points than a screen can show say no more.
const POINTS: usize = 1200;

/// The memory of every stage. `runs` has what runs inside of pieces, by kind of piece.
pub(super) fn memory(summary: &Summary<'_>, runs: &[Run]) -> Vec<MemoryPart> {
    let simulation = summary.simulation;
    let is_whole = summary.step.prepared.pipeline.pieces.len() == 1;
    let stage = |number: usize| {
        let limit = Some(simulation.limit(number));
        let inside = if is_whole { runs.first().and_then(|run| whole_step(summary, run)) } else { None };
        match inside {
            Some((time, samples)) => by_class(number, limit, &time, &samples),
            None => totals(summary, number, limit),
        }
    };
    (0..simulation.stages().len()).map(stage).collect()
}

/// Of a stage that runs pieces: told where these begin and end. What stays all the time is told apart.
fn totals(summary: &Summary<'_>, number: usize, limit: Option<usize>) -> MemoryPart {
    let stage = &summary.simulation.stages()[number];
    let stays: usize = [Class::Weights, Class::Optimizer].iter().map(|&class| stage.memory.by_class[class as usize]).sum();
    let time = stage.usage.iter().map(|&(seconds, _)| nanoseconds(seconds)).collect();
    let all: Vec<usize> = stage.usage.iter().map(|&(_, bytes)| bytes).collect();
    let classes = vec![
        Series { name: "weights and optimizer", bytes: all.iter().map(|&bytes| bytes.min(stays)).collect() },
        Series { name: "all else", bytes: all.iter().map(|&bytes| bytes.saturating_sub(stays)).collect() },
    ];
    MemoryPart { stage: number, limit, time, classes }
}

/// Points over the steps of a profile.
pub(super) fn of_steps(timeline: &[ByClass]) -> MemoryPart {
    let time: Vec<i64> = (0..timeline.len() as i64).collect();
    by_class(0, None, &time, timeline)
}

fn by_class(stage: usize, limit: Option<usize>, time: &[i64], samples: &[ByClass]) -> MemoryPart {
    let kept = thinned(samples);
    let series = |class: Class| {
        let bytes: Vec<usize> = kept.iter().map(|&sample| samples[sample][class as usize]).collect();
        bytes.iter().any(|&bytes| bytes > 0).then(|| Series { name: class.name(), bytes })
    };
    let classes = Class::ALL.into_iter().filter_map(series).collect();
    MemoryPart { stage, limit, time: kept.iter().map(|&sample| time[sample]).collect(), classes }
}

/// The numbers of the samples that are told: of every stretch the first, the largest and the last.
fn thinned(samples: &[ByClass]) -> Vec<usize> {
    if samples.len() <= POINTS {
        return (0..samples.len()).collect();
    }
    let stretches = POINTS / 3;
    let mut kept = Vec::with_capacity(POINTS);
    for stretch in 0..stretches {
        let range = stretch * samples.len() / stretches..(stretch + 1) * samples.len() / stretches;
        let largest = range.clone().max_by_key(|&sample| samples[sample].iter().sum::<usize>());
        kept.extend([Some(range.start), largest, range.end.checked_sub(1)].into_iter().flatten());
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// What a whole step has in memory as its kernels begin: the profile says what each finds there, the run says when. None
/// where the profile is of another form of the program.
fn whole_step(summary: &Summary<'_>, run: &Run) -> Option<(Vec<i64>, Vec<ByClass>)> {
    let (pipeline, simulation) = (&summary.step.prepared.pipeline, summary.simulation);
    let stage = simulation.stages().first()?;
    let span = stage.spans.iter().find(|span| matches!(span.kind, SpanKind::Piece(_)))?;
    let profile = profile(&pipeline.pieces[0].program, simulation.engine.memory_model);
    let Cow::Borrowed(program) = profile.program else { return None };
    let order = positions(program);
    let mut steps: Vec<(usize, ByClass)> = Vec::new();
    enter(&profile, &profile.memory, &ByClass::default(), &order, &mut steps);
    steps.sort_by_key(|(position, _)| *position);
    let mut kernels: Vec<_> = run.spans.iter().filter(|span| !span.is_collective).collect();
    kernels.sort_by(|left, right| left.start.total_cmp(&right.start));
    let mut samples: Vec<ByClass> = Vec::with_capacity(kernels.len());
    for kernel in &kernels {
        // A kernel is known by its first op, a step of the profile by the op that writes its results.
        let position = order[kernel.op.index()];
        let next = steps.partition_point(|(known, _)| *known < position);
        samples.push(steps.get(next).or(steps.last())?.1);
    }
    let most = samples.iter().map(|classes| classes.iter().sum::<usize>()).max()?;
    // The engine takes some for itself, and arguments are counted as it keeps them.
    let own = stage.memory.peak_bytes.saturating_sub(most);
    samples.iter_mut().for_each(|classes| classes[Class::Temporaries as usize] += own);
    let time = kernels.iter().map(|kernel| nanoseconds(span.start + kernel.start)).collect();
    Some((time, samples))
}

/// Adds what every step finds in memory, also inside of loops, to what is there around it.
fn enter(
    profile: &Profile<'_>,
    memory: &Memory,
    around: &ByClass,
    order: &[usize],
    steps: &mut Vec<(usize, ByClass)>,
) {
    let plus = |left: &ByClass, right: &ByClass| -> ByClass { std::array::from_fn(|class| left[class] + right[class]) };
    for (step, classes) in memory.steps.iter().zip(memory.timeline()) {
        let all = plus(around, &classes);
        match profile.inner(step.op) {
            Some(inner) if matches!(profile.program.ops[step.op].op, Op::While) => {
                // What a loop needs while it runs is what is in memory inside.
                let is_scratch = |holds| holds == Holds::Scratch(step.op);
                let scratch = memory.buffers.iter().filter(|buffer| is_scratch(buffer.holds));
                let told_inside: usize = scratch.map(|buffer| buffer.bytes).sum::<usize>().min(inner.temporary_bytes());
                let mut outside = all;
                let temporaries = &mut outside[Class::Temporaries as usize];
                *temporaries = temporaries.saturating_sub(told_inside);
                steps.push((order[step.op.index()], all));
                enter(profile, &inner, &outside, order, steps);
            }
            _ => steps.push((order[step.op.index()], all)),
        }
    }
}

/// Where every op stands in the text of a program, those of loops behind the loop's own place.
fn positions(program: &Program) -> Vec<usize> {
    fn walk(program: &Program, region: RegionId, next: &mut usize, order: &mut Vec<usize>) {
        for &op in &program.regions[region].ops {
            order[op.index()] = *next;
            *next += 1;
            let regions: Vec<RegionId> = program.ops[op].regions.to_vec();
            regions.into_iter().for_each(|inner| walk(program, inner, next, order));
        }
    }
    let mut order = vec![0; program.ops.len()];
    walk(program, program.body, &mut 0, &mut order);
    order
}

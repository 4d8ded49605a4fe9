//! What is in memory over the time of a step.

use std::borrow::Cow;

use meshwright::profile::{ByClass, Class, Holds, Memory, profile};
use meshwright::program::{Id, Op, OpId, Phase, Program, RegionId};
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
    let stays: usize =
        [Class::Weights, Class::Optimizer].iter().map(|&class| stage.memory.by_class[class as usize]).sum();
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

/// What a whole step has in memory while it runs: the profile says what each of its steps finds there, in the order in which
/// the engine keeps memory, and the run says when. None where the profile is of another form of the program.
fn whole_step(summary: &Summary<'_>, run: &Run) -> Option<(Vec<i64>, Vec<ByClass>)> {
    let (pipeline, simulation) = (&summary.step.prepared.pipeline, summary.simulation);
    let stage = simulation.stages().first()?;
    let span = stage.spans.iter().find(|span| matches!(span.kind, SpanKind::Piece(_)))?;
    let profile = profile(&pipeline.pieces[0].program, simulation.engine.memory_model);
    let Cow::Borrowed(program) = profile.program else { return None };
    let clock = Clock::new(program, run);
    let mut samples: Vec<(f64, ByClass)> = Vec::new();
    let mut now = 0.0;
    for (step, classes) in profile.memory.steps.iter().zip(profile.memory.timeline()) {
        // Engines update a parameter as soon as its gradient is there, wherever the program does.
        if step.phase != Phase::Update {
            now = clock.begin(step.op).max(now);
        }
        let trips = clock.inside(step.op);
        match profile.inner(step.op) {
            Some(inner) if !trips.is_empty() => {
                let around = around(&profile.memory, step.op, &inner, classes);
                samples.extend(within_loop(&clock, &inner, &around, &trips));
                now = samples.last().map_or(now, |&(time, _)| now.max(time));
            }
            _ => samples.push((now, classes)),
        }
    }
    samples.sort_by(|left, right| left.0.total_cmp(&right.0));
    let most = samples.iter().map(|(_, classes)| classes.iter().sum::<usize>()).max()?;
    // The engine takes some for itself, and arguments are counted as it keeps them.
    let own = stage.memory.peak_bytes.saturating_sub(most);
    samples.iter_mut().for_each(|(_, classes)| classes[Class::Temporaries as usize] += own);
    let time = samples.iter().map(|(seconds, _)| nanoseconds(span.start + seconds)).collect();
    Some((time, samples.into_iter().map(|(_, classes)| classes).collect()))
}

/// What is in memory around a loop: what the loop needs while it runs is what is in memory inside.
fn around(memory: &Memory, op: OpId, inner: &Memory, classes: ByClass) -> ByClass {
    let scratch = memory.buffers.iter().filter(|buffer| buffer.holds == Holds::Scratch(op));
    let told_inside = scratch.map(|buffer| buffer.bytes).sum::<usize>().min(inner.temporary_bytes());
    let mut around = classes;
    let temporaries = &mut around[Class::Temporaries as usize];
    *temporaries = temporaries.saturating_sub(told_inside);
    around
}

/// What the trips of a loop find in memory, kernel by kernel.
fn within_loop(clock: &Clock, inner: &Memory, around: &ByClass, trips: &[Kernel]) -> Vec<(f64, ByClass)> {
    let mut steps: Vec<(usize, ByClass)> = inner
        .steps
        .iter()
        .zip(inner.timeline())
        .map(|(step, classes)| (clock.order[step.op.index()], classes))
        .collect();
    steps.sort_by_key(|(position, _)| *position);
    let most = steps.iter().max_by_key(|(_, classes)| classes.iter().sum::<usize>()).map(|(_, classes)| *classes);
    let sample = |kernel: &Kernel| {
        // A kernel is known by its first op, a step of the profile by the op that writes its results.
        let next = steps.partition_point(|(known, _)| *known < kernel.position);
        // Further trips are one span of the loop itself.
        let inside = if kernel.is_loop { most } else { steps.get(next).or(steps.last()).map(|(_, classes)| *classes) };
        let inside = inside.unwrap_or_default();
        (kernel.start, std::array::from_fn(|class| around[class] + inside[class]))
    };
    trips.iter().map(sample).collect()
}

/// When the kernels of a run began, by where their ops stand in the program.
struct Clock {
    /// Where every op stands in the text of the program, those of loops behind the loop's own place.
    order: Vec<usize>,
    /// For every op, the place behind the last op inside of it.
    ends: Vec<usize>,
    /// By place, then by time.
    kernels: Vec<Kernel>,
}

#[derive(Clone, Copy)]
struct Kernel {
    position: usize,
    start: f64,
    is_loop: bool,
}

impl Clock {
    fn new(program: &Program, run: &Run) -> Clock {
        let (order, ends) = positions(program);
        let kernel = |span: &meshwright::simulate::Span| Kernel {
            position: order[span.op.index()],
            start: span.start,
            is_loop: matches!(program.ops[span.op].op, Op::While),
        };
        let mut kernels: Vec<Kernel> = run.spans.iter().filter(|span| !span.is_collective).map(kernel).collect();
        kernels.sort_by(|left, right| left.position.cmp(&right.position).then(left.start.total_cmp(&right.start)));
        Clock { order, ends, kernels }
    }

    /// When the kernel that an op is in began: the last that begins with it or with an op before it.
    fn begin(&self, op: OpId) -> f64 {
        let behind = self.kernels.partition_point(|kernel| kernel.position <= self.order[op.index()]);
        self.kernels[..behind].last().map_or(0.0, |kernel| kernel.start)
    }

    /// What runs inside of an op, in the order of time.
    fn inside(&self, op: OpId) -> Vec<Kernel> {
        let places = self.order[op.index()]..self.ends[op.index()];
        if places.len() < 2 {
            return Vec::new();
        }
        let first = self.kernels.partition_point(|kernel| kernel.position < places.start);
        let last = self.kernels.partition_point(|kernel| kernel.position < places.end);
        let mut kernels = self.kernels[first..last].to_vec();
        kernels.sort_by(|left, right| left.start.total_cmp(&right.start));
        kernels
    }
}

/// Where every op stands in the text of a program, and where what is inside of it ends.
fn positions(program: &Program) -> (Vec<usize>, Vec<usize>) {
    fn walk(program: &Program, region: RegionId, next: &mut usize, order: &mut [usize], ends: &mut [usize]) {
        for &op in &program.regions[region].ops {
            order[op.index()] = *next;
            *next += 1;
            for &inner in &program.ops[op].regions {
                walk(program, inner, next, order, ends);
            }
            ends[op.index()] = *next;
        }
    }
    let (mut order, mut ends) = (vec![0; program.ops.len()], vec![0; program.ops.len()]);
    walk(program, program.body, &mut 0, &mut order, &mut ends);
    (order, ends)
}

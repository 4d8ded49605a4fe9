//! Instruction lists in time: every stage on its own devices, messages between them.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::compute::chain_seconds;
use super::engine::Engine;
use super::memory::{LiveBytes, StageMemory};
use super::prepare::Prepared;
use super::run::{Run, Runner, run_early};
use crate::cluster::{Cluster, Collective};
use crate::pipeline::{Instruction, PieceKind, Pipeline};
use crate::profile::MemoryModel;

/// A step in time.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub step_seconds: f64,
    pub stages: Vec<StageTimeline>,
    /// Of products of matrices, on all devices.
    pub flops: f64,
}

/// What the devices of a stage do; all do the same. Computing, waiting for communication, waiting for the host and
/// bubbles are all of the step.
#[derive(Clone, Debug, Default)]
pub struct StageTimeline {
    pub compute_seconds: f64,
    /// Kernels waited for collectives and messages.
    pub exposed_seconds: f64,
    /// Of both, what belongs to the forward pass, as far as that is known.
    pub forward_compute_seconds: f64,
    pub forward_exposed_seconds: f64,
    /// Kernels waited for the host to start them.
    pub host_seconds: f64,
    /// There was nothing to do.
    pub bubble_seconds: f64,
    /// Collectives ran, alone or beside kernels.
    pub communication_seconds: f64,
    pub flops: f64,
    pub memory: StageMemory,
    /// What ran when, in order.
    pub spans: Vec<StageSpan>,
    /// What was sent to other stages, beside that.
    pub messages: Vec<MessageSpan>,
    /// Bytes in memory from these seconds on, told where pieces begin and end.
    pub usage: Vec<(f64, usize)>,
}

/// A piece or a message of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSpan {
    pub kind: SpanKind,
    pub microbatch: Option<usize>,
    pub start: f64,
    pub end: f64,
    /// How long before its start the collectives of a piece may have begun.
    pub early: f64,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageSpan {
    pub to: usize,
    pub microbatch: Option<usize>,
    pub bytes: usize,
    pub start: f64,
    pub end: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A piece, by number.
    Piece(usize),
    /// To a stage.
    Send(usize),
    /// Nothing to do until a message from a stage has come.
    Wait(usize),
    Accumulate,
}

/// Runs the lists of a pipeline. Lists that wait for each other forever are cut off where they do; the check of
/// pipelines finds them before.
pub fn simulate(prepared: &Prepared, cluster: &Cluster, engine: &Engine) -> Timeline {
    let pipeline = &prepared.pipeline;
    let mut costs = Costs { prepared, cluster, runs: FxHashMap::default() };
    let mut stages: Vec<Stage<'_>> =
        (0..pipeline.stages.len()).map(|number| Stage::new(prepared, cluster, engine, number)).collect();
    // Sent messages: when they left and when they arrive, by buffer and microbatch.
    let mut messages: FxHashMap<(usize, usize), Message> = FxHashMap::default();
    loop {
        let before: usize = stages.iter().map(|stage| stage.next).sum();
        for stage in &mut stages {
            stage.proceed(&mut costs, &mut messages);
        }
        if stages.iter().map(|stage| stage.next).sum::<usize>() == before {
            break;
        }
    }
    let last = stages.iter().map(|stage| stage.now).fold(0.0, f64::max);
    let step_seconds = last + engine.step_seconds;
    let mut flops = 0.0;
    let mut timelines = Vec::with_capacity(stages.len());
    for mut stage in stages {
        let devices = pipeline.meshes[stage.number].devices() as f64;
        stage.timeline.bubble_seconds += last - stage.now;
        stage.timeline.host_seconds += engine.step_seconds;
        flops += stage.timeline.flops * devices;
        timelines.push(stage.timeline);
    }
    Timeline { step_seconds, stages: timelines, flops }
}

#[derive(Clone, Copy)]
struct Message {
    sent: f64,
    arrives: f64,
}

/// What programs take, each found once.
struct Costs<'c> {
    prepared: &'c Prepared,
    cluster: &'c Cluster,
    /// By the number of the program and the name of the device.
    runs: FxHashMap<(usize, Cow<'static, str>), Run>,
}

impl Costs<'_> {
    fn run(&mut self, piece: usize, runner: Runner<'_>) -> &Run {
        let program = self.prepared.program_of[piece];
        let kernels = &self.prepared.programs[program].kernels;
        self.runs.entry((program, runner.device.name.clone())).or_insert_with(|| run_early(runner, kernels, 0.0))
    }
}

struct Stage<'p> {
    pipeline: &'p Pipeline,
    number: usize,
    /// The nodes that its devices are of.
    cluster: Cow<'p, Cluster>,
    engine: &'p Engine,
    /// The number of the next instruction.
    next: usize,
    now: f64,
    /// When what was sent to each stage has left.
    links: Vec<f64>,
    /// What was sent since something ran last, and of this what is let go of then.
    sent: Vec<usize>,
    leaving: Vec<usize>,
    /// How long the last backward piece took: gradients are summed beside it.
    last_backward: f64,
    live: LiveBytes,
    timeline: StageTimeline,
}

impl<'p> Stage<'p> {
    fn new(prepared: &'p Prepared, cluster: &'p Cluster, engine: &'p Engine, number: usize) -> Stage<'p> {
        let pipeline = &prepared.pipeline;
        let cluster = cluster.around(pipeline.devices_of(number));
        let live = LiveBytes::new(prepared, engine, number);
        let links = vec![0.0; pipeline.stages.len()];
        Stage {
            pipeline,
            number,
            cluster,
            engine,
            next: 0,
            now: 0.0,
            links,
            sent: Vec::new(),
            leaving: Vec::new(),
            last_backward: 0.0,
            live,
            timeline: StageTimeline::default(),
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner { cluster: &self.cluster, device: self.cluster.slowest_device(), engine: self.engine }
    }

    /// Goes on until a message is missing.
    fn proceed(&mut self, costs: &mut Costs<'_>, messages: &mut FxHashMap<(usize, usize), Message>) {
        let list = &self.pipeline.stages[self.number];
        while let Some(instruction) = list.get(self.next) {
            match *instruction {
                Instruction::Run { piece, microbatch } => self.run(costs, piece, microbatch),
                Instruction::Send { buffer, microbatch, to, into } => {
                    let message = self.send(costs, buffer, microbatch, to);
                    messages.insert((into, microbatch.unwrap_or(usize::MAX)), message);
                    self.sent.push(buffer);
                }
                Instruction::Receive { buffer, microbatch, from } => {
                    let Some(message) = messages.remove(&(buffer, microbatch.unwrap_or(usize::MAX))) else { return };
                    self.receive(message, buffer, microbatch, from);
                }
                Instruction::Accumulate { from, into, .. } => self.accumulate(from, into),
                Instruction::Free { buffer, .. } => self.free(buffer),
            }
            self.next += 1;
        }
        self.timeline.memory = self.live.memory.clone();
    }

    fn run(&mut self, costs: &mut Costs<'_>, number: usize, microbatch: Option<usize>) {
        let piece = &self.pipeline.pieces[number];
        let program = costs.prepared.program_of[number];
        let is_early = piece.kind == PieceKind::Update && self.engine.overlap_gradients;
        let early = if is_early { std::mem::take(&mut self.last_backward) } else { 0.0 };
        let run = if early > 0.0 {
            run_early(self.runner(), &costs.prepared.programs[program].kernels, early)
        } else {
            costs.run(number, self.runner()).clone()
        };
        let within = self.live.run(self.pipeline, piece, &costs.prepared.programs[program].memory.temporaries);
        self.timeline.usage.push((self.now, within));
        self.sent.clear();
        std::mem::take(&mut self.leaving).into_iter().for_each(|buffer| self.live.free(self.pipeline, buffer));
        if matches!(piece.kind, PieceKind::Backward | PieceKind::Weights) {
            self.last_backward = run.seconds;
        }
        self.timeline.compute_seconds += run.compute_seconds;
        self.timeline.communication_seconds += run.communication_seconds;
        self.timeline.exposed_seconds += run.exposed_seconds;
        self.timeline.forward_compute_seconds += run.forward_compute_seconds;
        self.timeline.forward_exposed_seconds += run.forward_exposed_seconds;
        self.timeline.host_seconds += run.host_seconds;
        self.timeline.flops += run.flops;
        let (start, end) = (self.now, self.now + run.seconds);
        self.timeline.spans.push(StageSpan { kind: SpanKind::Piece(number), microbatch, start, end, early });
        self.timeline.usage.push((end, self.live.bytes()));
        self.now = end;
    }

    /// PyTorch has what it sends until it has arrived, and where others take it later, runs the next piece meanwhile.
    fn free(&mut self, buffer: usize) {
        let is_leaving = self.engine.memory_model == MemoryModel::Written && self.sent.contains(&buffer);
        if is_leaving { self.leaving.push(buffer) } else { self.live.free(self.pipeline, buffer) }
    }

    fn span(&mut self, kind: SpanKind, microbatch: Option<usize>, seconds: f64) {
        let (start, end) = (self.now, self.now + seconds);
        self.timeline.spans.push(StageSpan { kind, microbatch, start, end, early: 0.0 });
        self.now = end;
    }

    fn send(&mut self, costs: &Costs<'_>, buffer: usize, microbatch: Option<usize>, to: usize) -> Message {
        let bytes = self.pipeline.buffers[buffer].ty.bytes();
        let first = |stage: usize| self.pipeline.devices_of(stage).start;
        let distance = first(self.number).abs_diff(first(to));
        let runner = Runner { cluster: costs.cluster, ..self.runner() };
        // One after the other to all that have it from the same device.
        let bytes = bytes * self.pipeline.receivers(self.number, to);
        let seconds = runner.collective_seconds(Collective::Send, &[(2, distance)], bytes);
        let start = self.now.max(self.links[to]);
        let arrives = start + seconds;
        self.links[to] = arrives;
        self.timeline.communication_seconds += seconds;
        self.timeline.messages.push(MessageSpan { to, microbatch, bytes, start, end: arrives });
        if self.engine.blocking_sends {
            self.timeline.exposed_seconds += arrives - self.now;
            self.span(SpanKind::Send(to), microbatch, arrives - self.now);
        }
        Message { sent: start, arrives }
    }

    fn receive(&mut self, message: Message, buffer: usize, microbatch: Option<usize>, from: usize) {
        let waits = (message.arrives - self.now).max(0.0);
        // Until the other stage sent, there was nothing to do; after that the message was on its way.
        let idle = (message.sent - self.now).clamp(0.0, waits);
        self.timeline.bubble_seconds += idle;
        self.timeline.exposed_seconds += waits - idle;
        if waits > 0.0 {
            self.span(SpanKind::Wait(from), microbatch, waits);
        }
        self.live.make(self.pipeline, buffer);
    }

    /// A sum begins with its first part, which takes no time.
    fn accumulate(&mut self, from: usize, into: usize) {
        let bytes = self.pipeline.buffers[from].ty.bytes() + 2 * self.pipeline.buffers[into].ty.bytes();
        if self.live.begin_sum(self.pipeline, from, into) {
            return;
        }
        let seconds = chain_seconds(self.cluster.slowest_device(), bytes as f64);
        self.timeline.compute_seconds += seconds;
        self.span(SpanKind::Accumulate, None, seconds);
    }
}

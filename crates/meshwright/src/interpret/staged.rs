//! Pipelines: every stage runs its list of instructions on a thread of its own, and stages meet where one
//! waits for what another sends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::devices::evaluate_devices;
use super::elementwise;
use super::partitioned::{Place, join, part, same};
use super::tensor::{Tensor, into_tensor};
use super::{EvaluateError, Options};
use crate::pipeline::{Instruction, Pipeline, Role, Stored};
use crate::program::{Binary, DType, Program, Type};

/// Runs a pipeline on whole arguments and gives whole results. Where several stages hold a result, they
/// have to agree on it.
pub fn evaluate_pipeline(
    pipeline: &Pipeline,
    arguments: &[Tensor],
    options: Options,
) -> Result<Vec<Tensor>, EvaluateError> {
    if arguments.len() != pipeline.arguments.len() {
        let (expected, given) = (pipeline.arguments.len(), arguments.len());
        return Err(fail(format!("the step has {expected} arguments but {given} were given")));
    }
    // A list that cannot run to its end would wait here forever.
    crate::pipeline::check(pipeline).map_err(fail)?;
    let outcomes = run_all(pipeline, arguments, options);
    let mut stages = Vec::new();
    for (stage, outcome) in outcomes.into_iter().enumerate() {
        let in_stage = |error: EvaluateError| fail(format!("stage {stage}: {}", error.message));
        stages.push(outcome.map_err(in_stage)?);
    }
    let whole = |(index, copies): (usize, &Vec<Stored>)| whole_result(pipeline, &stages, index, copies);
    pipeline.results.iter().enumerate().map(whole).collect()
}

fn fail(message: String) -> EvaluateError {
    EvaluateError { location: Program::UNKNOWN_LOCATION, message }
}

/// A buffer, for the microbatch where there is one for each.
type Slot = (usize, Option<usize>);

/// Of every device of a stage, its part.
type Parts = Arc<Vec<Tensor>>;

/// What a stage has in memory.
type Memory = BTreeMap<Slot, Parts>;

/// The ends of the channels between a stage and the others, by stage.
struct Ends {
    to: Vec<Sender<Parts>>,
    from: Vec<Receiver<Parts>>,
}

fn run_all(pipeline: &Pipeline, arguments: &[Tensor], options: Options) -> Vec<Result<Memory, EvaluateError>> {
    let ends = connect(pipeline.stages.len());
    thread::scope(|scope| {
        let start = |(stage, ends): (usize, Ends)| {
            scope.spawn(move || {
                let memory = load(pipeline, stage, arguments);
                Stage { pipeline, number: stage, memory, ends, options }.run(&pipeline.stages[stage])
            })
        };
        let threads: Vec<_> = ends.into_iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

fn connect(stages: usize) -> Vec<Ends> {
    let mut ends: Vec<Ends> = (0..stages).map(|_| Ends { to: Vec::new(), from: Vec::new() }).collect();
    for from in 0..stages {
        for to in 0..stages {
            let (sender, receiver) = channel();
            ends[from].to.push(sender);
            ends[to].from.push(receiver);
        }
    }
    ends
}

/// The arguments of a stage.
fn load(pipeline: &Pipeline, stage: usize, arguments: &[Tensor]) -> Memory {
    let (mesh, mut memory) = (&pipeline.meshes[stage], Memory::new());
    for (whole, copies) in arguments.iter().zip(&pipeline.arguments) {
        for Stored { buffer, sharding } in copies.iter().filter(|copy| pipeline.buffers[copy.buffer].stage == stage) {
            for (slot, microbatch) in slots(pipeline, *buffer) {
                let place = |device| Place { device, microbatch };
                let parts = (0..mesh.devices()).map(|device| part(whole, sharding, mesh, place(device)));
                memory.insert(slot, Arc::new(parts.collect()));
            }
        }
    }
    for (buffer, info) in pipeline.buffers.iter().enumerate() {
        if info.stage == stage && info.role == Role::Number {
            for (slot, microbatch) in slots(pipeline, buffer) {
                let number = Tensor::integer(Type::scalar(DType::I32), vec![microbatch as i64]);
                memory.insert(slot, Arc::new(vec![number; mesh.devices()]));
            }
        }
    }
    memory
}

/// The slots of a buffer, each with its microbatch.
fn slots(pipeline: &Pipeline, buffer: usize) -> Vec<(Slot, usize)> {
    match pipeline.buffers[buffer].each_microbatch {
        true => (0..pipeline.microbatches).map(|number| ((buffer, Some(number)), number)).collect(),
        false => vec![((buffer, None), 0)],
    }
}

struct Stage<'p> {
    pipeline: &'p Pipeline,
    number: usize,
    memory: Memory,
    ends: Ends,
    options: Options,
}

impl Stage<'_> {
    fn run(mut self, list: &[Instruction]) -> Result<Memory, EvaluateError> {
        for &instruction in list {
            match instruction {
                Instruction::Run { piece, microbatch } => self.run_piece(piece, microbatch)?,
                Instruction::Send { buffer, microbatch, to, .. } => {
                    let parts = self.get((buffer, microbatch))?;
                    self.ends.to[to].send(parts).map_err(|_| fail(format!("stage {to} ended early")))?;
                }
                Instruction::Receive { buffer, microbatch, from } => {
                    let parts = self.ends.from[from].recv().map_err(|_| fail(format!("stage {from} ended early")))?;
                    let part = |device| parts[self.pipeline.sender(from, self.number, device)].clone();
                    let own = (0..self.pipeline.meshes[self.number].devices()).map(part).collect();
                    self.memory.insert((buffer, microbatch), Arc::new(own));
                }
                Instruction::Accumulate { from, into, microbatch } => self.accumulate((from, microbatch), into)?,
                Instruction::Free { buffer, microbatch } => _ = self.memory.remove(&(buffer, microbatch)),
            }
        }
        Ok(self.memory)
    }

    fn slot(&self, buffer: usize, microbatch: Option<usize>) -> Slot {
        (buffer, microbatch.filter(|_| self.pipeline.buffers[buffer].each_microbatch))
    }

    fn get(&self, slot: Slot) -> Result<Parts, EvaluateError> {
        let name = || &self.pipeline.buffers[slot.0].name;
        self.memory.get(&slot).cloned().ok_or_else(|| fail(format!("`{}` is not there", name())))
    }

    fn run_piece(&mut self, piece: usize, microbatch: Option<usize>) -> Result<(), EvaluateError> {
        let info = &self.pipeline.pieces[piece];
        let read = |&buffer: &usize| self.get(self.slot(buffer, microbatch));
        let reads: Vec<Parts> = info.reads.iter().map(read).collect::<Result<_, _>>()?;
        let devices = self.pipeline.meshes[self.number].devices();
        let arguments: Vec<Vec<Tensor>> =
            (0..devices).map(|device| reads.iter().map(|parts| parts[device].clone()).collect()).collect();
        let in_piece = |error: EvaluateError| fail(format!("{}: {}", self.pipeline.piece_name(piece), error.message));
        let evaluations = evaluate_devices(&info.program, &arguments, self.options).map_err(in_piece)?;
        let mut results: Vec<_> = evaluations.into_iter().map(|evaluation| evaluation.results.into_iter()).collect();
        for &buffer in &info.writes {
            let parts: Vec<Tensor> = results.iter_mut().filter_map(Iterator::next).collect();
            self.memory.insert(self.slot(buffer, microbatch), Arc::new(parts));
        }
        Ok(())
    }

    fn accumulate(&mut self, from: Slot, into: usize) -> Result<(), EvaluateError> {
        let parts = self.get(from)?;
        let sum = match self.memory.get(&(into, None)) {
            None => parts,
            Some(before) => {
                let add = |(left, right): (&Tensor, &Tensor)| {
                    elementwise::binary(Binary::Add, Arc::new(left.clone()), right, self.options.wide).map(Arc::new)
                };
                let sums = before.iter().zip(parts.iter()).map(|pair| add(pair).map(into_tensor));
                Arc::new(sums.collect::<Result<Vec<Tensor>, String>>().map_err(fail)?)
            }
        };
        self.memory.insert((into, None), sum);
        Ok(())
    }
}

/// A result put together, the same on all stages that hold it.
fn whole_result(
    pipeline: &Pipeline,
    stages: &[Memory],
    index: usize,
    copies: &[Stored],
) -> Result<Tensor, EvaluateError> {
    let mut found: Option<Tensor> = None;
    for Stored { buffer, sharding } in copies {
        let stage = pipeline.buffers[*buffer].stage;
        let memory = &stages[stage];
        let mut parts: Vec<(Place, &Tensor)> = Vec::new();
        for (slot, microbatch) in slots(pipeline, *buffer) {
            let there = memory.get(&slot).ok_or_else(|| fail(format!("result {index} is not there")))?;
            parts.extend(there.iter().enumerate().map(|(device, tensor)| (Place { device, microbatch }, tensor)));
        }
        let whole = join(&parts, sharding, &pipeline.meshes[stage])
            .map_err(|message| fail(format!("result {index}: {message}")))?;
        match &found {
            // Stages that hold the same parameter add up its gradient in the same order.
            Some(first) if !same(first, &whole) => {
                return Err(fail(format!("result {index} is not the same on all stages that hold it")));
            }
            _ => found = Some(whole),
        }
    }
    found.ok_or_else(|| fail(format!("result {index} is stored nowhere")))
}

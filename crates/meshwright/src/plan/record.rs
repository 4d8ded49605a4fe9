//! The tape of a program, and the program that a choice on its tape makes.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::tape::{Fixed, Last, Outcome, Tape, Taped};
use crate::profile::{OpRecord, Profile, ScheduledKernel, schedule};
use crate::program::{Group, Id, Op, OpId, Phase, Program, Recomputation, ValueId, is_pure, recompute};

/// A program with its tape.
#[derive(Debug)]
pub(super) struct Recording<'p> {
    program: &'p Program,
    kernels: Vec<ScheduledKernel>,
    pub(super) tape: Tape,
    /// The step that makes each value of the tape, and the ops that it takes to make it of others.
    pub(super) steps: Vec<usize>,
    closures: Vec<Closure>,
    /// The value of the tape that each value of the program is.
    places: FxHashMap<ValueId, usize>,
    is_late: Vec<bool>,
    /// Early values that late kernels compute themselves, with what that takes.
    fused: Vec<(ValueId, Closure)>,
}

/// What it takes to compute a value of others that are in memory.
#[derive(Clone, Debug, Default)]
struct Closure {
    /// In program order.
    ops: Vec<OpId>,
    /// The values of the tape that these read.
    reads: BTreeSet<usize>,
}

/// Operations that a device does while it moves a byte, about what those do that training runs on. A kernel
/// takes as long as its operations and its bytes do, one after the other.
const OPERATIONS_PER_BYTE: f64 = 100.0;

/// Time is counted in this share of what the whole step takes.
const STEPS_OF_TIME: f64 = 1e9;

/// Values that are smaller than this share of the mean are kept: all of them together take little memory.
const SMALL: f64 = 0.05;

/// The time of a kernel, in operations.
pub(super) fn weight(operations: f64, bytes_moved: usize) -> f64 {
    operations + OPERATIONS_PER_BYTE * bytes_moved as f64
}

/// The time of all kernels of a program, in operations.
pub(super) fn total_weight(profile: &Profile<'_>) -> f64 {
    let moved = profile.memory.steps.iter().map(|step| step.bytes_read + step.bytes_written).sum();
    weight(profile.work(None).total(), moved)
}

impl<'p> Recording<'p> {
    /// `profile` is of the program, in which nothing large is left to write out and nothing is there twice.
    pub(super) fn new(program: &'p Program, profile: &Profile<'_>) -> Recording<'p> {
        let kernels = schedule(program, &profile.anatomy);
        let last_early = kernels.iter().rposition(|kernel| kernel.phase == Phase::Forward);
        let first_late = last_early.map_or(0, |step| step + 1);
        let is_late = late_ops(program, &kernels[first_late..]);
        let mut recording = Recording {
            program,
            tape: Tape { steps: kernels.len(), ..Tape::default() },
            steps: Vec::new(),
            closures: Vec::new(),
            places: FxHashMap::default(),
            is_late,
            fused: Vec::new(),
            kernels,
        };
        recording.record(first_late);
        recording.price(profile);
        recording
    }

    fn record(&mut self, first_late: usize) {
        // For each early step, the values of the tape that are there once it has run: its own, or what it
        // only arranges for another.
        let mut holds: Vec<Vec<usize>> = Vec::with_capacity(first_late);
        let mut late_reads: Vec<Vec<usize>> = Vec::new();
        for (step, readers) in readers(&self.kernels).iter().enumerate() {
            let kernel = &self.kernels[step];
            let held = |&read: &usize| holds.get(read).into_iter().flatten().copied();
            let reads: BTreeSet<usize> = kernel.reads.iter().flat_map(held).collect();
            let reads: Vec<usize> = reads.into_iter().collect();
            let fixed = |bytes: usize, last: Last| Fixed { bytes: bytes as u64, made: step, last };
            self.tape.fixed.push(fixed(kernel.scratch_bytes, Last { step, is_taken: false }));
            let last = last_use(kernel, step, readers);
            let is_read_early = readers.first().is_some_and(|&reader| reader < first_late);
            if step >= first_late {
                reads.iter().for_each(|&read| self.tape.values[read].late.push(step));
                self.tape.fixed.push(fixed(kernel.bytes, last));
                late_reads.push(reads);
            } else if kernel.values.is_empty() && is_read_early {
                self.tape.fixed.push(fixed(kernel.bytes, last));
                holds.push(reads);
            } else {
                holds.push(vec![self.tape.values.len()]);
                let early = readers.iter().copied().rfind(|&reader| reader < first_late);
                self.put_on_tape(step, reads, early, last);
            }
        }
        self.tape.fixed.retain(|fixed| fixed.bytes > 0);
        self.find_fused(first_late, &late_reads);
    }

    /// Adds what an early step makes, with its last early reader and its last reader of all.
    fn put_on_tape(&mut self, step: usize, reads: Vec<usize>, early: Option<usize>, last: Last) {
        let kernel = &self.kernels[step];
        self.places.extend(kernel.values.iter().map(|&value| (value, self.tape.values.len())));
        self.steps.push(step);
        self.tape.values.push(Taped {
            bytes: kernel.bytes as u64,
            cost: None,
            reads,
            made: step,
            early: early.map(|early| Last { step: early, is_taken: last.is_taken && last.step == early }),
            late: Vec::new(),
            is_taken_late: last.is_taken && early.is_none_or(|early| early < last.step),
            is_copy: kernel.values.is_empty(),
        });
    }

    /// Finds what it takes to make each value again, and what that costs.
    fn price(&mut self, profile: &Profile<'_>) {
        let unit = total_weight(profile) / STEPS_OF_TIME;
        let sum: u64 = self.tape.values.iter().map(|value| value.bytes).sum();
        let small = (SMALL * sum as f64 / self.tape.values.len().max(1) as f64) as u64;
        let behind: FxHashSet<ValueId> = self.behind_barriers();
        let mut closures = Vec::with_capacity(self.steps.len());
        let mut costs = Vec::with_capacity(self.steps.len());
        for (value, &step) in self.tape.values.iter().zip(&self.steps) {
            let kernel = &self.kernels[step];
            let closure = kernel
                .values
                .first()
                .map(|&made| closure(self.program, &self.places, made, |place| value.reads.contains(&place)))
                .unwrap_or_default();
            let is_kept = value.bytes <= small
                || kernel.values.iter().any(|value| behind.contains(value))
                || !closure.ops.iter().all(|&op| may_run_again(&self.program.ops[op].op))
                || !value.is_copy && !self.reads_something(&closure);
            let operations: f64 = closure.ops.iter().map(|&op| operations(self.program, &profile.ops, op)).sum();
            let cost = (weight(operations, kernel.bytes_moved) / unit).ceil() as u64;
            costs.push((!is_kept).then_some(cost));
            closures.push(closure);
        }
        self.tape.values.iter_mut().zip(costs).for_each(|(value, cost)| value.cost = cost);
        self.closures = closures;
    }

    /// Values that somebody reads behind a barrier, and so from the first time that they were made.
    fn behind_barriers(&self) -> FxHashSet<ValueId> {
        let ops = self.program.body().ops.iter().map(|&op| &self.program.ops[op]);
        let barriers = ops.filter(|operation| operation.op == Op::OptimizationBarrier);
        barriers.flat_map(|operation| operation.operands.iter().copied()).collect()
    }

    /// Whether ops read anything that a barrier can hold back.
    fn reads_something(&self, closure: &Closure) -> bool {
        let reads = closure.ops.iter().flat_map(|&op| self.program.outer_reads(op));
        let is_constant =
            |value: ValueId| self.program.producer(value).is_some_and(|op| self.program.ops[op].operands.is_empty());
        reads.into_iter().any(|value| !is_constant(value))
    }

    /// The program in which the values that an outcome names are made again.
    pub(super) fn rewrite(&self, outcome: &Outcome) -> Program {
        let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
        let mut delayed: FxHashSet<(OpId, ValueId)> = FxHashSet::default();
        for (index, again) in outcome.again.iter().enumerate() {
            let Some(step) = *again else { continue };
            let kernel = &self.kernels[self.steps[index]];
            if self.tape.values[index].is_copy {
                let early = self.program.outer_reads(kernel.op).into_iter().filter(|&value| !self.is_late_value(value));
                delayed.extend(early.map(|value| (kernel.op, value)));
                continue;
            }
            let group = groups.entry(step).or_default();
            group.ops.extend(&self.closures[index].ops);
            group.read.extend(&kernel.values);
        }
        self.add_fused(outcome, &mut groups);
        for (&step, group) in &mut groups {
            group.ops.sort_unstable();
            group.ops.dedup();
            group.after = self.awaited(step);
        }
        let is_late = |op: OpId| self.is_late[op.index()];
        let groups = groups.into_values().collect();
        recompute(self.program, Recomputation { is_late: &is_late, groups, delayed }).0.compact()
    }

    /// What is not in memory, because late kernels compute it themselves, must be computed of what is made again.
    fn add_fused(&self, outcome: &Outcome, groups: &mut BTreeMap<usize, Group>) {
        for (value, closure) in &self.fused {
            let Some(step) = closure.reads.iter().filter_map(|&read| outcome.again[read]).max() else { continue };
            let group = groups.entry(step).or_default();
            group.ops.extend(&closure.ops);
            group.read.insert(*value);
        }
    }

    /// Finds the early values that late kernels compute themselves.
    fn find_fused(&mut self, first_late: usize, reads: &[Vec<usize>]) {
        let program = self.program;
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        let stops: FxHashSet<ValueId> = self.kernels.iter().flat_map(|kernel| kernel.values.iter().copied()).collect();
        for (kernel, reads) in self.kernels[first_late..].iter().zip(reads) {
            let is_read = |place: usize| reads.binary_search(&place).is_ok();
            let mut open: Vec<OpId> = kernel.values.iter().filter_map(|&value| program.producer(value)).collect();
            let mut done: FxHashSet<OpId> = FxHashSet::default();
            while let Some(op) = open.pop() {
                if !done.insert(op) {
                    continue;
                }
                for value in program.outer_reads(op) {
                    if self.is_late_value(value) {
                        // Late values that are in memory are read there; others are part of the kernel.
                        open.extend(program.producer(value).filter(|_| !stops.contains(&value)));
                        continue;
                    }
                    let place = self.places.get(&value).copied();
                    let is_kept = place.is_some_and(|place| is_read(place) || !self.tape.values[place].late.is_empty());
                    if !is_kept && seen.insert(value) {
                        self.fused.push((value, closure(program, &self.places, value, is_read)));
                    }
                }
            }
        }
    }

    fn is_late_value(&self, value: ValueId) -> bool {
        self.program.producer(value).is_some_and(|op| self.is_late[op.index()])
    }

    /// The late value that a step waits for longest.
    fn awaited(&self, step: usize) -> Option<ValueId> {
        let late = self.kernels[step]
            .reads
            .iter()
            .rev()
            .flat_map(|&read| self.kernels[read].values.first().map(|&value| (read, value)));
        late.filter(|&(_, value)| self.is_late_value(value)).max().map(|(_, value)| value)
    }

    /// The values of the program that an outcome makes again, each by the first result of its op.
    pub(super) fn values<'r>(&'r self, outcome: &'r Outcome) -> impl Iterator<Item = ValueId> + 'r {
        let again = outcome.again.iter().zip(&self.steps).filter(|(again, _)| again.is_some());
        again.filter_map(|(_, &step)| self.kernels[step].values.first().copied())
    }
}

/// For each kernel, the steps that read what it writes, in order.
fn readers(kernels: &[ScheduledKernel]) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); kernels.len()];
    for (step, kernel) in kernels.iter().enumerate() {
        kernel.reads.iter().for_each(|&read| readers[read].push(step));
    }
    readers
}

fn last_use(kernel: &ScheduledKernel, step: usize, readers: &[usize]) -> Last {
    let last = readers.last().copied().unwrap_or(step);
    Last { step: last, is_taken: kernel.end <= last && last > step }
}

/// For each op, whether it is, or depends on, what one of some kernels writes.
fn late_ops(program: &Program, kernels: &[ScheduledKernel]) -> Vec<bool> {
    let mut is_late = vec![false; program.ops.len()];
    for value in kernels.iter().flat_map(|kernel| &kernel.values) {
        if let Some(op) = program.producer(*value) {
            is_late[op.index()] = true;
        }
    }
    for &op in &program.body().ops {
        let depends = |value: &ValueId| program.producer(*value).is_some_and(|maker| is_late[maker.index()]);
        is_late[op.index()] |= program.outer_reads(op).iter().any(depends);
    }
    is_late
}

/// Operations of all runs of an op.
fn operations(program: &Program, records: &[OpRecord], op: OpId) -> f64 {
    let operation = &program.ops[op];
    let own = records[op.index()].work.total();
    match operation.op {
        Op::Case | Op::If | Op::While => {
            let inner = operation.regions.iter().flat_map(|&region| &program.regions[region].ops);
            own + inner.map(|&inner| operations(program, records, inner)).sum::<f64>()
        }
        // The work of all others counts what their regions do.
        _ => own,
    }
}

/// Whether an op makes the same again, for no more than it costs to compute.
fn may_run_again(op: &Op) -> bool {
    is_pure(op) && !op.is_collective()
}

/// What it takes to compute a value, which may be in memory itself, of those in memory that `is_read` names.
fn closure(
    program: &Program,
    places: &FxHashMap<ValueId, usize>,
    value: ValueId,
    is_read: impl Fn(usize) -> bool,
) -> Closure {
    let mut ops: BTreeSet<OpId> = BTreeSet::new();
    let mut reads: BTreeSet<usize> = BTreeSet::new();
    let mut open: Vec<OpId> = program.producer(value).into_iter().collect();
    while let Some(op) = open.pop() {
        // Constants cost nothing, and there is nothing to compute again.
        if program.ops[op].operands.is_empty() || !ops.insert(op) {
            continue;
        }
        for read in program.outer_reads(op) {
            match places.get(&read).filter(|&&place| is_read(place)) {
                Some(&place) => _ = reads.insert(place),
                None => open.extend(program.producer(read)),
            }
        }
    }
    Closure { ops: ops.into_iter().collect(), reads }
}

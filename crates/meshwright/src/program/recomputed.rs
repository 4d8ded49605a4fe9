//! What the backward pass computes again.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Id, Op, OpId, Phase, Program, RegionId, ValueId};

/// What an argument of a part of a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// State, or made of state alone.
    Plain,
    /// Kept by the forward pass.
    Kept,
    Gradient,
}

/// For every op, whether it is part of the backward pass and made again: a barrier gives values of the forward pass
/// once more, and what is made of these as the forward pass made it is made again. `given` says what arguments are
/// where the forward pass is another program.
pub(super) fn recomputed(program: &Program, phases: &[Phase], given: &[Given]) -> Vec<bool> {
    let mut search = Search {
        program,
        phases,
        values: vec![Made::Plain; program.values.len()],
        recomputed: vec![false; program.ops.len()],
        numbers: program.values.ids().map(Id::index).collect(),
        known: FxHashMap::default(),
    };
    for (argument, given) in program.body().arguments.iter().zip(given) {
        search.values[argument.index()] = match given {
            Given::Plain => Made::Plain,
            Given::Kept => Made::Forward,
            Given::Gradient => Made::Gradient,
        };
    }
    let has_forward = phases.contains(&Phase::Forward);
    search.follow(program.body, has_forward);
    search.recomputed
}

/// What a value of the backward pass is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Of arguments and constants alone, or in the forward pass.
    Plain,
    /// By the forward pass, where that is another program.
    Forward,
    /// Of values of the forward pass that a barrier held back.
    Again,
    Gradient,
}

struct Search<'p> {
    program: &'p Program,
    phases: &'p [Phase],
    values: Vec<Made>,
    recomputed: Vec<bool>,
    /// For every value, the first that is made as it is, but for how it lies on devices.
    numbers: Vec<usize>,
    /// The first of the results of ops of the forward pass, by what they do and read.
    known: FxHashMap<Key<'p>, ValueId>,
}

type Key<'p> = (&'p str, SmallVec<[usize; 4]>);

impl<'p> Search<'p> {
    /// Goes through a region. Where the forward pass stands before it, `is_known` says that what is made again can be
    /// told by that.
    fn follow(&mut self, region: RegionId, is_known: bool) {
        let program = self.program;
        for &op in &program.regions[region].ops {
            let operation = &program.ops[op];
            if self.phases[op.index()] == Phase::Forward {
                let first = operation.results.first().copied();
                self.number(op, first);
                // A loop over microbatches has the backward pass inside.
                operation.regions.iter().for_each(|&inner| self.follow(inner, is_known));
                continue;
            }
            if let Op::OptimizationBarrier = operation.op {
                for (operand, result) in operation.operands.iter().zip(&operation.results) {
                    let is_gradient = self.values[operand.index()] == Made::Gradient;
                    self.values[result.index()] = if is_gradient { Made::Gradient } else { Made::Again };
                    self.numbers[result.index()] = self.numbers[operand.index()];
                }
                continue;
            }
            let is_like_before = self.number(op, None);
            let made = match self.made(op) {
                // The gradient of a loss that is itself made again begins with nothing but what is made again.
                Made::Again if is_known && !is_like_before => Made::Gradient,
                made => made,
            };
            self.recomputed[op.index()] = made == Made::Again;
            operation.results.iter().for_each(|result| self.values[result.index()] = made);
            for &inner in &operation.regions {
                for (argument, operand) in program.regions[inner].arguments.iter().zip(&operation.operands) {
                    self.values[argument.index()] = self.values[operand.index()];
                }
                // A loop of the backward pass reads other values than that of the forward pass.
                self.follow(inner, false);
            }
        }
    }

    fn made(&self, op: OpId) -> Made {
        let is_forward = |value: ValueId| {
            let maker = self.program.producer(value);
            maker.is_some_and(|op| {
                self.phases[op.index()] == Phase::Forward && !self.program.ops[op].operands.is_empty()
            })
        };
        let reads = self.program.outer_reads(op);
        let reads_some = |made: Made| reads.iter().any(|read| self.values[read.index()] == made);
        if reads_some(Made::Gradient) {
            Made::Gradient
        } else if reads_some(Made::Again) {
            Made::Again
        } else if reads_some(Made::Forward) || reads.iter().any(|&read| is_forward(read)) {
            Made::Gradient
        } else {
            Made::Plain
        }
    }

    /// Finds the op of the forward pass that does the same, and says whether there is one. Where `first` is given, the
    /// op is of the forward pass, and known from here on.
    fn number(&mut self, op: OpId, first: Option<ValueId>) -> bool {
        let operation = &self.program.ops[op];
        let number = |value: &ValueId| self.numbers[value.index()];
        if is_move(&operation.op) {
            let from = operation.operands.first().map(number);
            operation.results.iter().for_each(|result| {
                self.numbers[result.index()] = from.unwrap_or(result.index());
            });
            return true;
        }
        let key: Key<'p> = (operation.op.name(), operation.operands.iter().map(number).collect());
        let known = match first {
            Some(first) => *self.known.entry(key).or_insert(first),
            None => match self.known.get(&key) {
                Some(&known) => known,
                None => return false,
            },
        };
        let Some(maker) = self.program.producer(known) else { return false };
        for (result, like) in operation.results.iter().zip(&self.program.ops[maker].results) {
            self.numbers[result.index()] = like.index();
        }
        true
    }
}

/// Whether an op changes nothing but where a value lies.
fn is_move(op: &Op) -> bool {
    op.is_collective() || matches!(op, Op::DynamicSlice { .. } | Op::OptimizationBarrier)
}

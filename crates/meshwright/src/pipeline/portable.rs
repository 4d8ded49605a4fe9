//! Values that every chunk can make for itself.

use crate::profile::work;
use crate::program::{Anatomy, ArgumentClass, Id, Op, OpId, Program, ValueId, is_pure};

/// Which values every chunk that reads them makes for itself rather than being sent them.
pub(super) struct Portable {
    origins: Vec<Origin>,
}

/// What a value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Constants,
    /// Parameters, other state and numbers: casts of weights, counts of steps.
    State,
    /// The batch alone, by ops that cost little: masks, labels spread out.
    Batch,
    /// Parameters and batch together: the model's own work.
    Work,
}

impl Portable {
    pub(super) fn find(program: &Program, anatomy: &Anatomy) -> Portable {
        let mut origins = vec![Origin::Work; program.values.len()];
        for (&value, &class) in program.body().arguments.iter().zip(&anatomy.classes) {
            origins[value.index()] = match class {
                ArgumentClass::Parameter | ArgumentClass::State => Origin::State,
                // A learning rate is no part of a batch.
                ArgumentClass::Input if program.ty(value).elements() == 1 => Origin::State,
                ArgumentClass::Input => Origin::Batch,
            };
        }
        for &op in &program.body().ops {
            let reads = program.outer_reads(op);
            let found = reads.iter().map(|value| origins[value.index()]);
            let largest = found.clone().max().unwrap_or(Origin::Constants);
            let origin = match largest {
                // Barriers hold recomputation back, and stand where that is.
                _ if !is_pure(&program.ops[op].op) => Origin::Work,
                Origin::Batch if found.clone().any(|origin| origin == Origin::State) => Origin::Work,
                Origin::Batch if is_heavy(program, op) => Origin::Work,
                origin => origin,
            };
            program.ops[op].results.iter().for_each(|result| origins[result.index()] = origin);
        }
        Portable { origins }
    }

    pub(super) fn is_portable(&self, value: ValueId) -> bool {
        self.origins[value.index()] != Origin::Work
    }

    /// Whether it is the same for all microbatches.
    pub(super) fn is_state(&self, value: ValueId) -> bool {
        self.origins[value.index()] == Origin::State
    }

    /// Whether it is made of the batch alone.
    pub(super) fn is_batch(&self, value: ValueId) -> bool {
        self.origins[value.index()] == Origin::Batch
    }

    /// Whether an op makes portable values.
    pub(super) fn makes(&self, program: &Program, op: OpId) -> bool {
        program.ops[op].results.first().is_some_and(|&result| self.is_portable(result))
    }
}

fn is_heavy(program: &Program, op: OpId) -> bool {
    work(program, op).matrix > 0.0 || matches!(program.ops[op].op, Op::Case | Op::If | Op::Sort { .. } | Op::While)
}

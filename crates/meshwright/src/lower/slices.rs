//! Ops in slices: where the loops stand of an axis in time that cuts single ops rather than the whole step.
//!
//! Such a loop is there so that less is in memory at a time. So it stands where its ops do, and all else runs when it
//! would without it: what comes after the first op of a loop waits until the loop is over, unless the loop needs it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::emit::Emitter;
use crate::program::OpId;
use crate::shard::PieceSet;

/// Ops that run together.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) ops: Vec<OpId>,
    /// In one loop over the axis.
    pub(super) is_loop: bool,
}

impl Emitter<'_, '_, '_> {
    /// Whether an axis in time cuts single ops.
    pub(super) fn is_sliced(&self, axis: usize) -> bool {
        self.layout.sliced.intersects(PieceSet::of(&self.mesh.pieces(axis)))
    }

    /// Writes ops of a region some of which an axis slices.
    pub(super) fn ops_in_slices(&mut self, axis: usize, ops: &[OpId]) -> Result<(), String> {
        for run in self.runs(axis, ops) {
            if run.is_loop {
                let leaving = self.leaving(&run.ops);
                self.entered.push(axis);
                self.time_loop(axis, &run.ops, &leaving)?;
                self.entered.pop();
            } else {
                self.ops(&run.ops)?;
            }
        }
        Ok(())
    }

    /// Ops in the order in which they run, those of a loop together and all others alone, if nothing but loops of
    /// slices is inside.
    pub(super) fn one_by_one(&self, ops: &[OpId]) -> Option<Vec<Vec<OpId>>> {
        let Some(axis) = self.axis_to_enter(ops) else {
            return Some(ops.iter().map(|&op| vec![op]).collect());
        };
        if !self.is_sliced(axis) {
            return None;
        }
        let mut found = Vec::new();
        for run in self.runs(axis, ops) {
            if run.is_loop { found.push(run.ops) } else { found.extend(self.one_by_one(&run.ops)?) }
        }
        Some(found)
    }

    /// Cuts ops into runs, as near to their order as can be.
    fn runs(&self, axis: usize, ops: &[OpId]) -> Vec<Run> {
        let mut order = Order::default();
        for &op in ops {
            let reads = self.reads(op);
            let makers: Vec<OpId> = reads.iter().filter_map(|(value, _)| self.old.producer(*value)).collect();
            if !self.works_on_tiles(op, axis) {
                order.add(op, &makers);
                continue;
            }
            let is_late = reads.iter().any(|(value, wanted)| {
                self.old.producer(*value).is_some_and(|maker| match order.when(maker) {
                    When::Before => false,
                    When::Inside => !self.is_same_on(axis, maker, *value, wanted),
                    When::After { needs_loop } => needs_loop,
                })
            });
            if is_late {
                order.end_loop();
            }
            order.bring_before_loop(makers, |op| {
                self.reads(op).into_iter().filter_map(|(value, _)| self.old.producer(value)).collect()
            });
            order.looped.push(op);
            order.when.insert(op, When::Inside);
        }
        order.end_loop();
        order.runs
    }
}

/// When an op runs, seen from the loop under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    Inside,
    After { needs_loop: bool },
}

/// The order of ops under way.
#[derive(Debug, Default)]
struct Order {
    runs: Vec<Run>,
    /// The ops of the loop under way.
    looped: Vec<OpId>,
    /// What comes after it.
    waiting: Vec<OpId>,
    /// What does not run before the loop.
    when: FxHashMap<OpId, When>,
}

impl Order {
    fn when(&self, op: OpId) -> When {
        self.when.get(&op).copied().unwrap_or(When::Before)
    }

    /// Adds an op that is in no loop.
    fn add(&mut self, op: OpId, makers: &[OpId]) {
        if self.looped.is_empty() {
            self.run(op);
            return;
        }
        let is_of_loop = |&maker: &OpId| matches!(self.when(maker), When::Inside | When::After { needs_loop: true });
        let needs_loop = makers.iter().any(is_of_loop);
        self.when.insert(op, When::After { needs_loop });
        self.waiting.push(op);
    }

    /// An op runs now.
    fn run(&mut self, op: OpId) {
        match self.runs.last_mut() {
            Some(run) if !run.is_loop => run.ops.push(op),
            _ => self.runs.push(Run { ops: vec![op], is_loop: false }),
        }
    }

    /// Ops that wait though they do not need the loop run before it, with all that they read.
    fn bring_before_loop(&mut self, wanted: Vec<OpId>, makers: impl Fn(OpId) -> Vec<OpId>) {
        let mut open = wanted;
        let mut brought: FxHashSet<OpId> = FxHashSet::default();
        while let Some(op) = open.pop() {
            if matches!(self.when(op), When::After { .. }) && brought.insert(op) {
                open.extend(makers(op));
            }
        }
        if brought.is_empty() {
            return;
        }
        for op in std::mem::take(&mut self.waiting) {
            if brought.contains(&op) {
                self.when.remove(&op);
                self.run(op);
            } else {
                self.waiting.push(op);
            }
        }
    }

    /// The loop runs, and what waits for it.
    fn end_loop(&mut self) {
        if !self.looped.is_empty() {
            self.runs.push(Run { ops: std::mem::take(&mut self.looped), is_loop: true });
        }
        for op in std::mem::take(&mut self.waiting) {
            self.run(op);
        }
        self.when.clear();
    }
}

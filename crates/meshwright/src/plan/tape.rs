//! The tape of a training step, in numbers: what is made early, when, and when it is read late.
//!
//! A step runs kernels one after the other. Those up to the loss are *early*, all others *late*. What early
//! ones make and late ones read is on the tape, and so is what it is made of. A value of the tape is kept, or
//! it is made again: once, when a late kernel first needs it, be it to read it or to make another value again.
//! So the set of values that are made again says all: when each is made again, and how long everything lives.

use super::clock::Clock;

/// What a step has in memory, as far as it can be made again and besides.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// Each stands after all that it reads.
    pub values: Vec<Taped>,
    /// What is in memory whatever is made again.
    pub fixed: Vec<Fixed>,
    /// How many kernels run. Late ones come after the last that makes a value of the tape.
    pub steps: usize,
}

/// A value that an early kernel makes.
#[derive(Clone, Debug, Default)]
pub struct Taped {
    pub bytes: u64,
    /// What it costs to make it again, or `None` where that is impossible or not worth the trouble. Large numbers
    /// tell more: among choices that differ by a unit for each value, the one with fewest values is taken.
    pub cost: Option<u64>,
    /// The values that it is made of.
    pub reads: Vec<usize>,
    /// The step that makes it.
    pub made: usize,
    /// Its last early reader. Where there is none, to make it again is to make it late, and costs nothing.
    pub early: Option<Last>,
    /// The late steps that read it, in order.
    pub late: Vec<usize>,
    /// Whether the last of these writes its own result in its place.
    pub is_taken_late: bool,
    /// Whether it is another form of the value that it reads, so that it is made late if that is.
    pub is_copy: bool,
}

/// The last step that reads something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    pub step: usize,
    /// Whether it writes its own result in the same place.
    pub is_taken: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    pub bytes: u64,
    pub made: usize,
    pub last: Last,
}

/// What comes of a choice of values that are made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For each value, the late step before which it is made again.
    pub again: Vec<Option<usize>>,
    pub cost: u64,
    /// The most that is in memory at a time.
    pub peak_bytes: u64,
}

impl Taped {
    /// The step that must find it first and last, and is late.
    pub(super) fn first_late(&self) -> Option<usize> {
        self.late.first().copied()
    }

    pub(super) fn last_late(&self) -> Option<Last> {
        self.late.last().map(|&step| Last { step, is_taken: self.is_taken_late })
    }

    /// Its last early reader, or the step that makes it where nobody reads it.
    pub(super) fn early_or_made(&self) -> Last {
        self.early.unwrap_or(Last { step: self.made, is_taken: false })
    }

    /// What it costs to make it late as well.
    pub(super) fn again_cost(&self) -> Option<u64> {
        self.cost.map(|cost| if self.early.is_some() { cost } else { 0 })
    }
}

impl Tape {
    /// The values that are made of each value.
    pub(super) fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.values.len()];
        for (index, value) in self.values.iter().enumerate() {
            value.reads.iter().for_each(|&read| readers[read].push(index));
        }
        readers
    }

    /// What comes of making some values again. Those that cannot be, and those that nobody needs late, are
    /// not.
    pub fn outcome(&self, wanted: &[bool]) -> Outcome {
        self.outcome_on(&Clock::new(self, 1), wanted)
    }

    pub(super) fn outcome_on(&self, clock: &Clock, wanted: &[bool]) -> Outcome {
        let chosen = self.with_copies(wanted);
        let readers = self.readers();
        let mut again: Vec<Option<usize>> = vec![None; self.values.len()];
        let mut cost = 0;
        let mut load = Load::new(clock, self);
        for (index, value) in self.values.iter().enumerate().rev() {
            let needs = readers[index].iter().filter_map(|&reader| again[reader].map(|step| (step, reader)));
            let first_need = needs.clone().map(|(step, _)| step).chain(value.first_late()).min();
            let last_need = needs.max().map(|(step, reader)| clock.turn(step, reader) + 1);
            let last_read = value.last_late().map(|last| clock.after(last));
            let end = last_need.max(last_read);
            match (first_need, end) {
                (Some(step), Some(end)) if chosen[index] => {
                    again[index] = Some(step);
                    cost += value.again_cost().unwrap_or(0);
                    load.add(value.bytes, clock.turn(step, index)..end);
                    if value.early.is_some() {
                        load.add(value.bytes, clock.run(value.made)..clock.after(value.early_or_made()));
                    }
                }
                (_, end) => {
                    let early_end = clock.after(value.early_or_made());
                    load.add(value.bytes, clock.run(value.made)..end.unwrap_or(0).max(early_end));
                }
            }
        }
        Outcome { again, cost, peak_bytes: load.peak() }
    }

    /// The choice, where copies of what is made again are made again too.
    fn with_copies(&self, wanted: &[bool]) -> Vec<bool> {
        let mut chosen: Vec<bool> =
            self.values.iter().zip(wanted).map(|(value, wanted)| *wanted && value.cost.is_some()).collect();
        for (index, value) in self.values.iter().enumerate() {
            chosen[index] |= value.is_copy && value.reads.iter().any(|&read| chosen[read]);
        }
        chosen
    }
}

/// Memory in use in each slot of a clock.
pub(super) struct Load {
    changes: Vec<i128>,
}

impl Load {
    /// What is in memory whatever is made again.
    pub(super) fn new(clock: &Clock, tape: &Tape) -> Load {
        let mut load = Load { changes: vec![0; clock.slots() + 1] };
        for fixed in &tape.fixed {
            load.add(fixed.bytes, clock.run(fixed.made)..clock.after(fixed.last));
        }
        load
    }

    fn add(&mut self, bytes: u64, slots: std::ops::Range<usize>) {
        if slots.start < slots.end {
            self.changes[slots.start] += i128::from(bytes);
            self.changes[slots.end] -= i128::from(bytes);
        }
    }

    /// The bytes in each slot.
    pub(super) fn over_time(&self) -> Vec<u64> {
        let sums = self.changes.iter().scan(0_i128, |sum, change| {
            *sum += change;
            Some(*sum as u64)
        });
        sums.collect()
    }

    fn peak(&self) -> u64 {
        self.over_time().into_iter().max().unwrap_or(0)
    }
}

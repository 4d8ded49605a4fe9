//! Recomputation on a single device: what to make again so that a step fits, at least cost.

use std::fmt;

use meshwright_solver::Start;
use rustc_hash::FxHashSet;

use super::clock::Clock;
use super::labels::choose;
use super::record::{Recording, total_weight};
use super::tape::Outcome;
use crate::profile::{MemoryModel, Profile, Work, profile, written_out};
use crate::program::{self, Anatomy, OpId, Phase, Program, Recomputation, ValueId};
use crate::tactics::{Pattern, scope_groups};

/// A step that fits because some of its values are made again.
#[derive(Clone, Debug)]
pub struct Recomputed {
    /// What runs: each value is made again behind a barrier, where the backward pass first needs it.
    pub program: Program,
    /// The step before, with large ops written out and equal ops merged. Where nothing had to be done, or
    /// whole layers are made again, it is the program as it was given.
    pub source: Program,
    /// The values of `source` that are made again or made late.
    pub values: Vec<ValueId>,
    /// Of all that is in memory at a time, arguments and results included.
    pub memory_bytes: u64,
    pub source_bytes: u64,
    /// What the step computes more than the source does.
    pub extra_work: Work,
    pub source_work: Work,
    /// The time that this takes, as a share of what the source takes: see `docs/concepts/recomputation.md`.
    pub extra_time: f64,
}

/// Nothing that was tried fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLittleMemory {
    pub limit_bytes: u64,
    /// What the smallest step takes that was found.
    pub least_bytes: u64,
}

impl fmt::Display for TooLittleMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLittleMemory { limit_bytes, least_bytes } = self;
        write!(f, "no recomputation brings the step below {least_bytes} bytes, and the limit is {limit_bytes}")
    }
}

impl std::error::Error for TooLittleMemory {}

/// Searches for the cheapest recomputation within a limit on all that is in memory at a time, arguments and
/// results included, under a compiler that fuses ([`MemoryModel::Fused`]).
///
/// The tape is a model of what the compiler does with the rewritten program. What is given back is measured:
/// where the model was too hopeful the search goes on below, where it was too careful, above.
pub fn recompute(program: &Program, limit_bytes: u64) -> Result<Recomputed, TooLittleMemory> {
    let before = profile(program, MemoryModel::Fused);
    let source_bytes = before.memory.peak_bytes() as u64;
    if source_bytes <= limit_bytes {
        return Ok(unchanged(program, &before));
    }
    let source = written_out(program).merge_twins();
    let measured = profile(&source, MemoryModel::Fused);
    let mut search = Search::new(&source, &measured, limit_bytes);
    search.run();
    search.try_layers(program, &program.anatomy());
    if !search.is_done() {
        search.squeeze();
    }
    let Search { best, least_bytes, .. } = search;
    let Some(found) = best.filter(|found| found.memory_bytes <= limit_bytes) else {
        return Err(TooLittleMemory { limit_bytes, least_bytes: least_bytes.min(source_bytes) });
    };
    let (source_work, source_weight) = (measured.work(None), total_weight(&measured));
    drop(measured);
    Ok(Recomputed {
        program: found.program,
        values: found.values,
        memory_bytes: found.memory_bytes,
        source_bytes,
        extra_work: found.work.plus(source_work.times(-1.0)),
        source_work,
        extra_time: found.weight / source_weight - 1.0,
        source: if found.is_as_given { program.clone() } else { source },
    })
}

fn unchanged(program: &Program, before: &Profile<'_>) -> Recomputed {
    let bytes = before.memory.peak_bytes() as u64;
    Recomputed {
        program: program.clone(),
        source: program.clone(),
        values: Vec::new(),
        memory_bytes: bytes,
        source_bytes: bytes,
        extra_work: Work::default(),
        source_work: before.work(None),
        extra_time: 0.0,
    }
}

/// A rewritten program that was measured.
struct Found {
    program: Program,
    /// What is made again, of the program as it was given or of the one that is recorded.
    values: Vec<ValueId>,
    is_as_given: bool,
    memory_bytes: u64,
    work: Work,
    weight: f64,
}

struct Search<'p> {
    recording: Recording<'p>,
    clock: Clock,
    limit_bytes: u64,
    /// Of arguments and results, which are there all the time.
    outer_bytes: u64,
    /// Of all else, before anything is made again.
    source_bytes: u64,
    start: Start,
    /// The cheapest that fits, or else the smallest.
    best: Option<Found>,
    least_bytes: u64,
    /// Limits of the model between which the best one lies: the largest that is known to give what fits, and
    /// the smallest that is known not to.
    fits: u64,
    breaks: u64,
}

/// How often the tape is solved at most.
const ROUNDS: usize = 8;
/// What is left of the limit by less than this share is not looked for.
const CLOSE: f64 = 0.01;
/// How closely tapes are looked at. Long segments, which take less memory, are only seen from afar.
const GAPS: [usize; 3] = [4, 16, 64];

impl<'p> Search<'p> {
    fn new(source: &'p Program, measured: &Profile<'_>, limit_bytes: u64) -> Search<'p> {
        let recording = Recording::new(source, measured);
        let memory = &measured.memory;
        let outer_bytes = (memory.peak_bytes() - memory.temporary_bytes()) as u64;
        let clock = Clock::new(&recording.tape, GAPS[0]);
        let least_bytes = memory.peak_bytes() as u64;
        let source_bytes = least_bytes.saturating_sub(outer_bytes);
        let start = Start::default();
        Search {
            recording,
            clock,
            limit_bytes,
            outer_bytes,
            source_bytes,
            start,
            best: None,
            least_bytes,
            fits: 0,
            breaks: source_bytes,
        }
    }

    fn run(&mut self) {
        let wanted = self.limit_bytes.saturating_sub(self.outer_bytes);
        let close = (CLOSE * wanted as f64) as u64;
        let mut limit = wanted;
        for _ in 0..ROUNDS {
            let before = (limit, self.best.as_ref().map(|best| best.weight));
            match choose(&self.recording.tape, &self.clock, limit, self.start.clone()) {
                Some((outcome, start)) => {
                    self.start = start;
                    let found = self.rewritten(&outcome);
                    limit = self.next_limit(limit, outcome.peak_bytes, &found);
                    self.keep(found);
                }
                None => {
                    self.fits = self.fits.max(limit);
                    limit = limit.midpoint(self.breaks);
                }
            }
            // With the same limit the search goes on from where it was, as long as that helps.
            let after = (limit, self.best.as_ref().map(|best| best.weight));
            if after == before || self.breaks <= self.fits.saturating_add(close) {
                return;
            }
        }
    }

    /// The next limit for the model, which is off by the difference between what it said and what was measured.
    fn next_limit(&mut self, limit: u64, modelled: u64, found: &Found) -> u64 {
        if found.memory_bytes <= self.limit_bytes {
            self.fits = self.fits.max(limit);
            (modelled + (self.limit_bytes - found.memory_bytes)).min(limit.midpoint(self.breaks)).max(limit)
        } else {
            self.breaks = self.breaks.min(modelled);
            modelled.saturating_sub(found.memory_bytes - self.limit_bytes).max(self.fits.midpoint(modelled))
        }
    }

    fn is_done(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.memory_bytes <= self.limit_bytes)
    }

    /// Looks for the smallest step there is, in a way that does not depend on the limit: who asks for what an
    /// error said can be had gets it.
    fn squeeze(&mut self) {
        let most = self.source_bytes;
        for gap in GAPS {
            self.clock = Clock::new(&self.recording.tape, gap);
            let mut start = Start::default();
            let (mut low, mut high) = (0_u64, most);
            for _ in 0..ROUNDS {
                let limit = low.midpoint(high);
                match choose(&self.recording.tape, &self.clock, limit, start.clone()) {
                    Some((outcome, next)) => {
                        start = next;
                        high = outcome.peak_bytes.min(limit);
                        let found = self.rewritten(&outcome);
                        self.least_bytes = self.least_bytes.min(found.memory_bytes);
                        self.keep(found);
                    }
                    None => low = limit,
                }
            }
            if self.is_done() {
                return;
            }
        }
    }

    /// Tries to make the first layers again as a whole: as few as fit, and all. Where memory is short that takes
    /// the fewest barriers, and a compiler fuses the copies as it did the layers.
    fn try_layers(&mut self, given: &Program, anatomy: &Anatomy) {
        let mut groups = scope_groups(given, anatomy, &[&Pattern::new("**")]);
        groups.retain(|group| group.ops.first().is_some_and(|&op| is_in_layer(given, op)));
        let is_late = |op: OpId| anatomy.phase(op) == Phase::Backward;
        let (mut fewest, mut most) = (0, groups.len());
        let mut count = most;
        while fewest < most {
            let first = groups[..count].to_vec();
            let values = first.iter().flat_map(|group| group.read.iter().copied()).collect();
            let recomputation = Recomputation { is_late: &is_late, groups: first, delayed: FxHashSet::default() };
            let found = measured(program::recompute(given, recomputation).0.compact(), values, true);
            let fits = found.memory_bytes <= self.limit_bytes;
            if count == groups.len() {
                // This is tried whatever the limit is.
                self.least_bytes = self.least_bytes.min(found.memory_bytes);
            }
            self.keep(found);
            *(if fits { &mut most } else { &mut fewest }) = count;
            if fewest + 1 >= most {
                break;
            }
            count = fewest.midpoint(most);
        }
    }

    fn rewritten(&self, outcome: &Outcome) -> Found {
        measured(self.recording.rewrite(outcome), self.recording.values(outcome).collect(), false)
    }

    fn keep(&mut self, found: Found) {
        let is_better = |best: &Found| {
            let over = |found: &Found| found.memory_bytes.saturating_sub(self.limit_bytes);
            (over(&found), found.weight) < (over(best), best.weight)
        };
        if self.best.as_ref().is_none_or(is_better) {
            self.best = Some(found);
        }
    }
}

/// Whether an op stands in one of several scopes alike: they are told apart by numbers.
fn is_in_layer(program: &Program, op: OpId) -> bool {
    let location = &program.locations[program.ops[op].location];
    location.scope_parts().iter().any(|part| part.parse::<usize>().is_ok())
}

fn measured(program: Program, values: Vec<ValueId>, is_as_given: bool) -> Found {
    let measured = profile(&program, MemoryModel::Fused);
    let (memory_bytes, work) = (measured.memory.peak_bytes() as u64, measured.work(None));
    let weight = total_weight(&measured);
    drop(measured);
    Found { program, values, is_as_given, memory_bytes, work, weight }
}

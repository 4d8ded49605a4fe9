//! What the stages of a pipeline cost, at a first estimate.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Instruction, Pipeline, Role};
use crate::lower::{Measures, measure};

/// What a stage does in one step, on each of its devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageMeasures {
    /// Its collectives in all runs of all pieces. The peak is that of buffers and pieces together.
    pub measures: Measures,
    /// What it sends to other stages.
    pub sends: usize,
    pub sent_bytes: usize,
}

impl Pipeline {
    /// Of every piece, what one run of it costs.
    pub fn piece_measures(&self) -> Vec<Measures> {
        let mut known: Vec<(usize, Measures)> = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let same = known.iter().find(|(other, _)| Arc::ptr_eq(&self.pieces[*other].program, &piece.program));
            let measures = same.map_or_else(|| measure(&piece.program), |(_, measures)| measures.clone());
            known.push((index, measures));
        }
        known.into_iter().map(|(_, measures)| measures).collect()
    }

    /// Of every stage, what a step costs.
    pub fn stage_measures(&self) -> Vec<StageMeasures> {
        let pieces = self.piece_measures();
        (0..self.stages.len()).map(|stage| self.measure_stage(stage, &pieces)).collect()
    }

    /// What all stages cost together; the peak is that of the stage that needs most.
    pub fn measures(&self) -> Measures {
        let mut sum = Measures::default();
        for stage in self.stage_measures() {
            add(&mut sum, &stage.measures);
            sum.peak_bytes = sum.peak_bytes.max(stage.measures.peak_bytes);
        }
        sum
    }

    fn measure_stage(&self, stage: usize, pieces: &[Measures]) -> StageMeasures {
        let mut found = StageMeasures::default();
        let mut live = Live { pipeline: self, slots: BTreeMap::new(), bytes: 0 };
        for (index, buffer) in self.buffers.iter().enumerate() {
            if let (Role::Argument(_), true) = (buffer.role, buffer.stage == stage) {
                let count = if buffer.each_microbatch { self.microbatches } else { 1 };
                (0..count).for_each(|number| live.add(index, buffer.each_microbatch.then_some(number)));
            }
        }
        found.measures.peak_bytes = live.bytes;
        for &instruction in &self.stages[stage] {
            let mut inside = 0;
            match instruction {
                Instruction::Run { piece, microbatch } => {
                    let info = &self.pieces[piece];
                    add(&mut found.measures, &pieces[piece]);
                    let given: usize = info.reads.iter().map(|&buffer| self.buffers[buffer].ty.bytes()).sum();
                    inside = live.bytes + pieces[piece].peak_bytes.saturating_sub(given);
                    info.writes.iter().for_each(|&buffer| live.add(buffer, microbatch));
                }
                Instruction::Send { buffer, .. } => {
                    found.sends += 1;
                    found.sent_bytes += self.buffers[buffer].ty.bytes();
                }
                Instruction::Receive { buffer, microbatch, .. } => live.add(buffer, microbatch),
                Instruction::Accumulate { into, .. } => live.add(into, None),
                Instruction::Free { buffer, microbatch } => live.remove(buffer, microbatch),
            }
            found.measures.peak_bytes = found.measures.peak_bytes.max(inside).max(live.bytes);
        }
        found
    }
}

/// What is in memory on a stage.
struct Live<'p> {
    pipeline: &'p Pipeline,
    slots: BTreeMap<(usize, Option<usize>), usize>,
    bytes: usize,
}

impl Live<'_> {
    fn add(&mut self, buffer: usize, microbatch: Option<usize>) {
        let info = &self.pipeline.buffers[buffer];
        let slot = (buffer, microbatch.filter(|_| info.each_microbatch));
        let bytes = info.ty.bytes();
        self.bytes += bytes - self.slots.insert(slot, bytes).unwrap_or(0);
    }

    fn remove(&mut self, buffer: usize, microbatch: Option<usize>) {
        self.bytes -= self.slots.remove(&(buffer, microbatch)).unwrap_or(0);
    }
}

/// Adds what one more run costs, but for its peak.
fn add(sum: &mut Measures, run: &Measures) {
    sum.collectives.iter_mut().zip(run.collectives).for_each(|(sum, count)| *sum += count);
    sum.scalar_collectives += run.scalar_collectives;
    sum.bytes_moved += run.bytes_moved;
    sum.communication_seconds += run.communication_seconds;
}

//! What is in memory when it is most, also inside of loops.

use super::memory::{Buffer, Holds, Memory};
use super::{MemoryModel, Profile, eager, fused};
use crate::program::{Op, OpId, RegionId};

/// What a step has in memory when it has most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtPeak {
    /// What runs then. Of loops and branches, what runs inside of them follows.
    pub ops: Vec<OpId>,
    pub buffers: Vec<Buffer>,
}

impl Profile<'_> {
    /// What is in memory at the peak. Memory over time takes loops as a whole; here they are entered.
    pub fn at_peak(&self) -> AtPeak {
        let mut peak = AtPeak::default();
        self.enter(&self.memory, &mut peak);
        peak
    }

    fn enter(&self, memory: &Memory, peak: &mut AtPeak) {
        let Some(step) = memory.peak_step() else { return };
        let op = memory.steps[step].op;
        let inner = self.inner(op);
        let inner_bytes = inner.as_ref().map_or(0, Memory::temporary_bytes);
        peak.ops.push(op);
        let is_there = |buffer: &&Buffer| buffer.is_counted() && buffer.life.contains(&step);
        for buffer in memory.buffers.iter().filter(is_there) {
            // What a loop needs while it runs is what is in memory inside.
            let told_inside = if buffer.holds == Holds::Scratch(op) { inner_bytes } else { 0 };
            let bytes = buffer.bytes.saturating_sub(told_inside);
            if bytes > 0 {
                peak.buffers.push(Buffer { bytes, ..buffer.clone() });
            }
        }
        if let Some(inner) = inner {
            self.enter(&inner, peak);
        }
    }

    /// The memory of the largest region of an op that has some.
    pub fn inner(&self, op: OpId) -> Option<Memory> {
        let operation = &self.program.ops[op];
        let memory = |&region: &RegionId| match (self.memory_model, self.memory_model.fuses()) {
            (_, Some(fuses)) => eager::region_memory(&self.program, &self.anatomy, region, fuses),
            (MemoryModel::Ordered, None) => {
                fused::region_memory(&self.program, &self.anatomy, region, fused::Order::Written)
            }
            (_, None) => fused::region_memory(&self.program, &self.anatomy, region, fused::Order::BreadthFirst),
        };
        match operation.op {
            Op::While | Op::Case | Op::If => operation.regions.iter().map(memory).max_by_key(Memory::temporary_bytes),
            // Regions of all others are functions of numbers, which take no memory.
            _ => None,
        }
    }
}

//! What the order of work means for time and memory, by formulas.

use crate::pipeline::Schedule;

/// A schedule, and how many chunks of the model every stage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) schedule: Schedule,
    pub(super) chunks: usize,
}

/// Orders that are tried first, and in place of it. Under `gpipe` a step takes as long as under `1f1b`, and more memory.
pub(super) const FIRST: Order = Order { schedule: Schedule::OneForwardOneBackward, chunks: 1 };
pub(super) const OTHERS: [Order; 2] =
    [Order { schedule: Schedule::ZeroBubble, chunks: 1 }, Order { schedule: Schedule::Interleaved, chunks: 2 }];

impl Order {
    pub(super) fn is_possible(self, stages: usize, microbatches: usize, layers: usize) -> bool {
        let is_even = self.schedule != Schedule::Interleaved || microbatches.is_multiple_of(stages);
        is_even && stages > 1 && microbatches > 1 && stages * self.chunks <= layers
    }

    /// How many microbatches each chunk of a stage has between their forward and their backward pass, about. So many of the
    /// stages follow it.
    pub(super) fn in_flight(self, stages: usize, behind: usize, microbatches: usize) -> usize {
        match self.schedule {
            Schedule::Gpipe => microbatches,
            Schedule::OneForwardOneBackward => microbatches.min(behind + 1),
            Schedule::ZeroBubble => microbatches.min(stages),
            Schedule::Interleaved => {
                let passes = behind * 2 + (self.chunks - 1) * stages + 1;
                microbatches.min(passes.div_ceil(self.chunks))
            }
        }
    }

    /// The share of a microbatch's time on a stage that others wait for it, before they have something to do and after.
    pub(super) fn waiting_share(self) -> f64 {
        match self.schedule {
            Schedule::Gpipe | Schedule::OneForwardOneBackward => 1.0,
            // Gradients of weights, a third of the work, are done meanwhile, for either pass.
            Schedule::ZeroBubble => 0.4,
            Schedule::Interleaved => 1.0 / self.chunks as f64,
        }
    }
}

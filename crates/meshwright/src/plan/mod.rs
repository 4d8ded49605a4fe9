//! Plans: what to decide about a step so that it fits and is fast.

mod clock;
mod fold;
mod labels;
mod record;
mod remat;
mod tape;

pub use remat::{Recomputed, TooLittleMemory, recompute};
pub use tape::{Fixed, Last, Outcome, Tape, Taped};

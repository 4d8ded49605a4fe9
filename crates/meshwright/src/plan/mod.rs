//! Plans: what to decide about a step so that it fits and is fast.

mod alike;
mod bundle;
mod choices;
mod clock;
mod fold;
mod graph;
mod label;
mod labels;
mod moves;
mod realize;
mod record;
mod remat;
mod search;
mod tape;
mod time;

pub use remat::{Recomputed, TooLittleMemory, recompute};
pub use search::{Planned, attempt};
pub use tape::{Fixed, Last, Outcome, Tape, Taped};

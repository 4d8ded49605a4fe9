//! Plans: what to decide about a step so that it fits and is fast.

mod alike;
mod auto;
mod bundle;
mod check;
mod choices;
mod clock;
mod costs;
mod decision;
mod fixed;
mod fold;
mod frames;
mod graph;
mod label;
mod labels;
mod lives;
mod moves;
mod parts;
mod realize;
mod recipe;
mod record;
mod remat;
mod runner_up;
mod search;
mod sketch;
mod tape;
mod time;
mod work;

pub(crate) use auto::lay_out_cheapest;
pub use check::{Checked, check};
pub use decision::{Decision, Keeping, RunnerUp};
pub use fixed::Told;
pub use recipe::{Again, OpRecipe, Recipe};
pub use remat::{Recomputed, TooLittleMemory, recompute};
pub use search::{Considered, Plan, Refusal, Request, plan};
pub use tape::{Fixed, Last, Outcome, Tape, Taped};

//! Labelling with memory.
//!
//! [`solve()`] chooses one alternative for every node of a [`Problem`]: costs of nodes and edges add up to
//! as little as possible, while the alternatives chosen never use more of a resource than there is.
//!
//! Modules stand in the order in which a problem passes through them.

pub mod problem;

pub mod contest;
pub mod evaluate;

mod scale;
mod slots;

mod model;

mod reduce;

mod chain;

mod relax;

mod prices;

mod tree;

mod order;

mod eliminate;

mod state;

mod neighborhood;

mod opening;

mod components;
mod infeasible;
mod solve;

mod json;
mod limit;
mod parallel;
mod random;

pub use infeasible::Infeasible;
pub use limit::Limit;
pub use problem::Problem;
pub use solve::{Answer, Enough, Options, Price, Progress, Solution, Start, solve};

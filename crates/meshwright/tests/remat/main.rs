//! Recomputation: choices on small tapes beside the best there are, and models that must fit and stay the same.

#![expect(clippy::print_stdout, reason = "tables for who reads along")]

mod chains;
mod models;
mod rotor;

#[path = "../small/mod.rs"]
mod small;

#[path = "../partition/random.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod random;

//! Models in stages: whether all stages together compute what one device does, and in which order.
//!
//! `LONG=1` tries many more cases.

mod equality;
#[expect(dead_code, reason = "these tests need few kinds of random things")]
#[path = "../partition/random.rs"]
mod numbers;
mod random;
#[path = "../small/mod.rs"]
mod small;
mod structure;

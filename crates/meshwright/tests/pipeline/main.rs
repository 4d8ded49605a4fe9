//! Models in stages: whether all stages together compute what one device does, and in which order.

#[path = "../small/mod.rs"]
mod small;

mod equality;

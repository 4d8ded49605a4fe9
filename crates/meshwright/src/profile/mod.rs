//! What a step costs, found without running anything: work, bytes, and memory over time.

mod flops;
mod fuse;
mod fused;
mod graph;

pub use flops::{Work, work};

use crate::program::Program;

pub fn temporary_bytes(program: &Program) -> usize {
    fused::temporary_bytes(program)
}

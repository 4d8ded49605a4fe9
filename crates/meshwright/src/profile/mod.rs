//! What a step costs, found without running anything: work, bytes, and memory over time.

mod flops;
mod fuse;
mod fused;
mod graph;
mod make;

pub use flops::{Work, work};

use crate::program::Program;

/// The most bytes that a compiler which fuses has in temporary buffers at a time, in one run of a program:
/// besides arguments and results. It follows XLA's CPU backend: `graph` says what ops are to fusion, `make`
/// arranges them, `fuse` groups them, and `fused` gives buffers to what is left.
pub fn temporary_bytes(program: &Program) -> usize {
    fused::temporary_bytes(program)
}

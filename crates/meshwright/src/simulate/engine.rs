//! Engines: what order, fusion and combining do to a program's time. One table.

use crate::profile::MemoryModel;

/// How an engine runs what it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    pub name: &'static str,
    pub memory_model: MemoryModel,
    /// Time of the host for each kernel. A device waits where its kernels are shorter.
    pub dispatch_seconds: f64,
    /// Attention is one kernel that writes no scores.
    pub fused_attention: bool,
    /// Collectives whose results nobody needs yet run beside kernels; else kernels wait for every collective.
    pub overlap: bool,
    /// Gradients are summed while the backward pass of the last microbatch goes on.
    pub overlap_gradients: bool,
    /// How many gathered weights there may be before they are used.
    pub prefetch: usize,
    /// Sums that stand one after the other are combined up to so many bytes.
    pub bucket_bytes: usize,
    /// How much longer kernels take while a collective runs beside them.
    pub contention: f64,
    /// A stage waits until what it sends has arrived.
    pub blocking_sends: bool,
    /// What all devices of a stage have alike is sent in parts, one by each, and gathered there.
    pub scattered_sends: bool,
    /// Products of `f32` are rounded to the type `tf32`.
    pub tf32: bool,
}

/// In the order of the alphabet.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "megatron",
        memory_model: MemoryModel::Eager,
        dispatch_seconds: 20e-6,
        fused_attention: false,
        overlap: false,
        overlap_gradients: false,
        prefetch: 2,
        bucket_bytes: 200 << 20,
        contention: 0.1,
        blocking_sends: true,
        scattered_sends: false,
        tf32: true,
    },
    Engine {
        name: "pytorch",
        memory_model: MemoryModel::Eager,
        dispatch_seconds: 15e-6,
        fused_attention: true,
        overlap: true,
        overlap_gradients: true,
        prefetch: 2,
        bucket_bytes: 25 << 20,
        contention: 0.1,
        blocking_sends: false,
        scattered_sends: false,
        tf32: true,
    },
    Engine {
        name: "xla",
        memory_model: MemoryModel::Fused,
        dispatch_seconds: 3e-6,
        fused_attention: true,
        overlap: true,
        overlap_gradients: true,
        prefetch: 2,
        bucket_bytes: 30 << 20,
        contention: 0.1,
        blocking_sends: false,
        scattered_sends: false,
        tf32: true,
    },
];

/// The engine of that name.
pub fn engine(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}

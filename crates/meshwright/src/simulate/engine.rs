//! Engines: what order, fusion and combining do to a program's time. One table. Times and shares of `fsdp`, `megatron`,
//! `megatron-core` and `torchtitan` are fitted by `tools/fit.rs` to measured runs; those of `pytorch`, `pytorch-cpu`,
//! `xla` and `xla-cpu` are assumptions.

use crate::profile::MemoryModel;

/// How an engine runs what it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    pub name: &'static str,
    pub memory_model: MemoryModel,
    /// Time of the host for each kernel. A device waits where its kernels are shorter.
    pub dispatch_seconds: f64,
    /// Time of the host for each collective, beyond that.
    pub collective_seconds: f64,
    /// Time of the host once in a step: reading data, scaling the loss, looking at the norm of the gradients.
    pub step_seconds: f64,
    /// How much faster its kernels are than those that the efficiencies of devices were fitted to.
    pub kernel_speed: f64,
    /// Attention is one kernel that writes no scores.
    pub fused_attention: bool,
    /// How often attention that is written out passes over its scores in the forward pass.
    pub score_passes: f64,
    /// Collectives whose results nobody needs yet run beside kernels; else kernels wait for every collective.
    pub overlap: bool,
    /// The share of a collective that is hidden in the product before or after it, where engines run both in parts.
    pub hidden_share: f64,
    /// Gradients are summed while the backward pass of the last microbatch goes on.
    pub overlap_gradients: bool,
    /// How many gathered weights there may be before they are used.
    pub prefetch: usize,
    /// Sums that stand one after the other are combined up to so many bytes.
    pub bucket_bytes: usize,
    /// The share of a collective's rate alone that it reaches within a step, where devices come to it one after
    /// the other.
    pub collective_share: f64,
    /// How much longer kernels take while a collective runs beside them.
    pub contention: f64,
    /// A stage waits until what it sends has arrived.
    pub blocking_sends: bool,
    /// Memory that is taken besides the program's: the runtime, buffers of the communication library.
    pub reserved_bytes: usize,
    /// The share of memory that is lost between blocks of the allocator.
    pub fragmentation: f64,
    /// Sums of 16-bit gradients over microbatches have 32 bits.
    pub wide_gradients: bool,
    /// Products of `f32` are rounded to the type `tf32`.
    pub tf32: bool,
    /// Products of 16-bit numbers with weights are rounded to 8 bits, where a device is faster at these.
    pub f8: bool,
    /// Between products that devices share, each has a part of the sequence.
    pub sequence_parallel: bool,
}

/// What all others differ from: an engine that runs op by op and waits for as little as it can.
const PYTORCH: Engine = Engine {
    name: "pytorch",
    memory_model: MemoryModel::Eager,
    dispatch_seconds: 20e-6,
    collective_seconds: 30e-6,
    step_seconds: 5e-3,
    kernel_speed: 1.0,
    fused_attention: true,
    score_passes: 6.0,
    overlap: true,
    hidden_share: 0.0,
    overlap_gradients: true,
    prefetch: 2,
    bucket_bytes: 25 << 20,
    collective_share: 0.7,
    contention: 0.1,
    blocking_sends: false,
    reserved_bytes: 3 << 30,
    fragmentation: 0.08,
    wide_gradients: false,
    tf32: true,
    f8: false,
    sequence_parallel: false,
};

/// In the order of the alphabet.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "fsdp",
        memory_model: MemoryModel::Tuned,
        dispatch_seconds: 20.9e-6,
        step_seconds: 5.8e-3,
        collective_share: 1.0,
        contention: 0.095,
        ..PYTORCH
    },
    Engine {
        name: "megatron",
        memory_model: MemoryModel::Plain,
        dispatch_seconds: 62.7e-6,
        collective_seconds: 32.6e-6,
        step_seconds: 4.3e-3,
        fused_attention: false,
        score_passes: 6.54,
        overlap: false,
        overlap_gradients: false,
        // As PyTorch's `DistributedDataParallel` has them. Larger ones predict runs of many replicas too short, such as
        // those of 128 in the tables of Megatron-LM of 2020, and smaller ones those of few too long.
        bucket_bytes: 25 << 20,
        collective_share: 0.566,
        blocking_sends: true,
        fragmentation: 0.31,
        ..PYTORCH
    },
    Engine {
        name: "megatron-core",
        memory_model: MemoryModel::Tuned,
        dispatch_seconds: 5.8e-6,
        collective_seconds: 10e-6,
        kernel_speed: 1.43,
        hidden_share: 0.95,
        bucket_bytes: 200 << 20,
        collective_share: 1.0,
        sequence_parallel: true,
        ..PYTORCH
    },
    PYTORCH,
    // Processes on one machine that talk through its memory: a collective is a meeting that everybody waits in, and nothing
    // is set aside. Its seconds are assumptions, not fitted.
    Engine {
        name: "pytorch-cpu",
        memory_model: MemoryModel::Written,
        dispatch_seconds: 5e-6,
        collective_seconds: 2e-4,
        step_seconds: 1e-4,
        overlap: false,
        overlap_gradients: false,
        collective_share: 1.0,
        contention: 0.0,
        reserved_bytes: 0,
        fragmentation: 0.0,
        tf32: false,
        ..PYTORCH
    },
    Engine {
        name: "torchtitan",
        memory_model: MemoryModel::Compiled,
        dispatch_seconds: 11.6e-6,
        collective_share: 0.831,
        sequence_parallel: true,
        ..PYTORCH
    },
    Engine {
        name: "xla",
        memory_model: MemoryModel::Ordered,
        dispatch_seconds: 3e-6,
        bucket_bytes: 30 << 20,
        reserved_bytes: 1 << 30,
        fragmentation: 0.0,
        ..PYTORCH
    },
    // Devices of a CPU are threads of one process: nothing is set aside for each, a collective is a meeting that
    // everybody waits in, and nothing is combined, since the package asks XLA not to. Attention is written out. What XLA
    // loses between its buffers is known from where it lays them.
    Engine {
        name: "xla-cpu",
        memory_model: MemoryModel::Fused,
        dispatch_seconds: 1e-6,
        collective_seconds: 5e-6,
        step_seconds: 1e-4,
        fused_attention: false,
        overlap: false,
        overlap_gradients: false,
        bucket_bytes: 0,
        collective_share: 1.0,
        contention: 0.0,
        reserved_bytes: 0,
        fragmentation: 0.0,
        tf32: false,
        ..PYTORCH
    },
];

/// The engine of that name.
pub fn engine(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}

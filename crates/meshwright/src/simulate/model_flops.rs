//! What a model needs to be computed, against what devices could compute meanwhile.

use super::compute::{kernel_flops, peak};
use super::engine::Engine;
use super::kernels::{Kernel, Task, kernels};
use crate::cluster::Cluster;
use crate::program::{Anatomy, DType, Program};

/// What a step computes in products of matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelFlops {
    /// Without what is computed again.
    pub flops: f64,
    /// The type of the operands of most of them.
    pub dtype: DType,
}

/// What a step of a whole model needs. Attention counts whole, also where it is causal, as papers count it.
pub fn model_flops(program: &Program, anatomy: &Anatomy) -> ModelFlops {
    let mut by_dtype: Vec<(DType, f64)> = Vec::new();
    add(&kernels(program), anatomy, 1.0, &mut by_dtype);
    let most = by_dtype.iter().max_by(|left, right| left.1.total_cmp(&right.1));
    ModelFlops { flops: by_dtype.iter().map(|entry| entry.1).sum(), dtype: most.map_or(DType::F32, |entry| entry.0) }
}

fn add(kernels: &[Kernel], anatomy: &Anatomy, runs: f64, by_dtype: &mut Vec<(DType, f64)>) {
    for kernel in kernels.iter().filter(|kernel| !anatomy.is_recomputed(kernel.op)) {
        let dtype = match &kernel.task {
            Task::Products(products) => products.first().map(|product| product.dtype),
            Task::Attention(attention) => Some(attention.dtype),
            Task::Loop { body, trips } => {
                add(body, anatomy, runs * *trips as f64, by_dtype);
                None
            }
            Task::Branch(branches) => {
                // The simulator runs the longest; which that is depends on devices, so the first stands for all.
                branches.iter().take(1).for_each(|branch| add(branch, anatomy, runs, by_dtype));
                None
            }
            Task::Chain | Task::Collective { .. } | Task::HostCopy { .. } => None,
        };
        let Some(dtype) = dtype else { continue };
        let flops = runs * kernel_flops(kernel);
        match by_dtype.iter_mut().find(|entry| entry.0 == dtype) {
            Some(entry) => entry.1 += flops,
            None => by_dtype.push((dtype, flops)),
        }
    }
}

/// The rate of the first so many devices of a cluster together, at products of such operands.
pub fn peak_flops_per_second(cluster: &Cluster, engine: &Engine, dtype: DType, devices: usize) -> f64 {
    (0..devices).map(|number| peak(cluster.device(number), engine, dtype)).sum()
}

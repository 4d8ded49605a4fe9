//! How long a device takes for a kernel.

use super::engine::Engine;
use super::kernels::{AttentionTask, Kernel, Task};
use super::products::Product;
use crate::cluster::Device;
use crate::program::DType;

/// Seconds of a kernel that is neither a collective, nor a loop, nor a branch.
pub fn kernel_seconds(device: &Device, engine: &Engine, kernel: &Kernel) -> f64 {
    let seconds = match &kernel.task {
        Task::Chain => chain_seconds(device, kernel.bytes),
        Task::Products(products) => products_seconds(device, engine, products, kernel.bytes),
        Task::Attention(attention) => attention_seconds(device, engine, attention, kernel.bytes),
        Task::Collective { .. } | Task::HostCopy { .. } | Task::Loop { .. } | Task::Branch(_) => 0.0,
    };
    seconds / engine.kernel_speed
}

/// Floating-point operations of the same kernel, as papers count them: attention whole, also where it is causal.
pub fn kernel_flops(kernel: &Kernel) -> f64 {
    match &kernel.task {
        Task::Products(products) => products.iter().map(Product::flops).sum(),
        Task::Attention(attention) => {
            let scores = (attention.heads * attention.queries) as f64 * attention.keys as f64;
            // The gradient makes the scores again, which counts as work that the model does not need.
            let products = if attention.is_gradient { 4.0 } else { 2.0 };
            products * 2.0 * scores * attention.width as f64
        }
        Task::Chain | Task::Collective { .. } | Task::HostCopy { .. } | Task::Loop { .. } | Task::Branch(_) => 0.0,
    }
}

/// A kernel that reads and writes so many bytes and computes little.
pub(crate) fn chain_seconds(device: &Device, bytes: f64) -> f64 {
    moving_seconds(device, bytes) + device.launch_seconds
}

/// A kernel of products that reads and writes so many bytes.
pub(super) fn products_seconds(device: &Device, engine: &Engine, products: &[Product], bytes: f64) -> f64 {
    let computing: f64 = products.iter().map(|product| product_seconds(device, engine, product)).sum();
    computing.max(moving_seconds(device, bytes)) + device.launch_seconds
}

fn moving_seconds(device: &Device, bytes: f64) -> f64 {
    bytes / (device.memory_bytes_per_second * device.efficiency.memory)
}

/// Tiles that libraries for products have kernels for.
const TILES: [(f64, f64); 6] =
    [(256.0, 128.0), (128.0, 256.0), (128.0, 128.0), (128.0, 64.0), (64.0, 128.0), (64.0, 64.0)];

/// The area of a tile whose data take as long to load as its products take.
const TILE_AREA: f64 = 1700.0;

/// A product is cut into tiles, one for each processor at a time, so that the last round may be nearly empty.
/// The best tile is taken, as libraries do. Small tiles load more for each product.
fn product_seconds(device: &Device, engine: &Engine, product: &Product) -> f64 {
    let rate = peak(device, engine, product.dtype) * device.efficiency.products;
    let processors = device.processors as f64;
    let seconds = |(rows, columns): (f64, f64)| {
        let tiles = product.count * (product.rows / rows).ceil() * (product.columns / columns).ceil();
        let rounds = (tiles / processors).ceil();
        let area = rows * columns;
        let depth = product.depth + device.efficiency.tile_depth;
        2.0 * rounds * processors * (area + TILE_AREA) * depth / rate
    };
    TILES.into_iter().map(seconds).fold(f64::INFINITY, f64::min)
}

pub(super) fn peak(device: &Device, engine: &Engine, dtype: DType) -> f64 {
    let rates = &device.flops_per_second;
    match dtype {
        DType::BF16 | DType::F16 if engine.f8 && rates.f8 > 0.0 => rates.f8,
        DType::F32 if engine.tf32 && rates.tf32 > 0.0 => rates.tf32,
        _ => rates.of(dtype),
    }
}

/// Fused attention is bound by its products. Written out, scores are written and read by each step.
fn attention_seconds(device: &Device, engine: &Engine, attention: &AttentionTask, bytes: f64) -> f64 {
    let AttentionTask { heads, queries, keys, width, is_gradient, .. } = *attention;
    let (heads, queries, keys, width) = (heads as f64, queries as f64, keys as f64, width as f64);
    let scores = heads * queries * keys;
    if engine.fused_attention {
        // What a causal mask hides is left out by whole tiles.
        let seen = if attention.is_causal { 0.5 } else { 1.0 };
        let products = if is_gradient { 5.0 } else { 2.0 };
        let rate = device.flops_per_second.of(attention.dtype) * device.efficiency.attention;
        let computing = products * 2.0 * scores * width * seen / rate;
        return computing.max(moving_seconds(device, bytes)) + device.launch_seconds;
    }
    let product = |rows, columns, depth| Product { count: heads, rows, columns, depth, dtype: attention.dtype };
    let score = product_seconds(device, engine, &product(queries, keys, width));
    let mix = product_seconds(device, engine, &product(queries, width, keys));
    // Forward: scores are written, read and written by the softmax, and read. Backward: the same for their
    // gradients, with the probabilities read twice and the gradients of the scores read twice.
    let (products, passes, kernels) = if is_gradient { (2.0, 1.75, 5.0) } else { (1.0, 1.0, 3.0) };
    let moved = passes * engine.score_passes * scores * attention.element_bytes as f64 + bytes;
    products * (score + mix) + moving_seconds(device, moved) + kernels * device.launch_seconds
}

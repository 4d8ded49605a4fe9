//! The profiler beside what XLA says of the programs that it compiled (`tests/profile/xla.json`), and beside what
//! PyTorch says of those that it ran (`tests/profile/torch.json`).

mod common;
mod recorded;

use meshwright::profile::{MemoryModel, profile, work};
use meshwright::program::Op;
use recorded::{Attention, Comparison, SMALLEST, TORCH, against_torch, against_xla, number, program, rows};

#[test]
fn temporary_memory_is_near_what_xla_allocates() {
    let mut compared = against_xla();
    compared.sort_by(|left, right| left.error().abs().total_cmp(&right.error().abs()));
    let table: Vec<String> =
        compared.iter().map(|each| format!("{:+6.1}% {}", 100.0 * each.error(), each.name)).collect();
    let median = compared[compared.len() / 2].error().abs();
    let near = compared.iter().filter(|each| each.error().abs() <= NEAR).count() as f64 / compared.len() as f64;
    let farthest = compared[compared.len() - 1].error().abs();
    let is_near = median <= MEDIAN && near >= MOST && farthest <= FARTHEST;
    assert!(compared.len() > 80 && is_near, "{median} {near}\n{}", table.join("\n"));
}

const MEDIAN: f64 = 0.012;
const NEAR: f64 = 0.15;
/// Some programs that recompute are farther off.
const MOST: f64 = 0.95;
/// None is farther off than this.
const FARTHEST: f64 = 0.2;

/// XLA counts the body of a loop once, so only programs without loops are compared.
#[test]
fn work_is_what_xla_counts() {
    let (mut compared, mut near) = (0, 0);
    for row in rows("xla.json") {
        let program = program(&row);
        let loops = program.ops.iter().filter(|(_, op)| matches!(op.op, Op::While)).count();
        if loops > 0 || number(&row, "temp_bytes") < SMALLEST {
            continue;
        }
        let found: f64 = program.ops.ids().map(|op| work(&program, op).total()).sum();
        let error = found / number(&row, "flops") - 1.0;
        assert!(error.abs() <= LARGEST_WORK_ERROR, "{}: {:+.1}%", row["name"], 100.0 * error);
        compared += 1;
        near += usize::from(error.abs() <= NEAR_WORK);
    }
    assert!(compared > 40 && near * 10 >= compared * 9, "{near} of {compared} are near");
}

const LARGEST_WORK_ERROR: f64 = 0.05;
/// Convolutions of small images, and long sequences, are farther off.
const NEAR_WORK: f64 = 0.02;

/// Attention is one op in PyTorch as it is in the models; where it is written out, there is no telling how.
#[test]
fn memory_op_by_op_is_what_pytorch_allocates() {
    for (quantity, compared) in TORCH.iter().zip(against_torch(Attention::Whole)) {
        assert!(compared.len() > 20, "{} rows", compared.len());
        let most = if quantity.name == "work" { 0.0 } else { NEAR_PYTORCH };
        for each in compared {
            let Comparison { name, truth, found } = &each;
            assert!(each.error().abs() <= most, "{} of {name}: {found} instead of {truth}", quantity.name);
        }
    }
}

/// Statistics of a few numbers are not the same.
const NEAR_PYTORCH: f64 = 0.0005;

/// A scale that the forward pass reads, and the backward pass in a sum: libraries for processors without an accelerator
/// find it spread in memory.
#[test]
fn accelerators_spread_what_is_small_wherever_sums_read_it() {
    let program = common::import_text(SCALED).expect("a program");
    let temporary = |model: MemoryModel| profile(&program, model).memory.temporary_bytes();
    let spread_bytes = 512 * 4096 * 4;
    assert!(temporary(MemoryModel::Fused) >= spread_bytes, "{}", temporary(MemoryModel::Fused));
    assert!(temporary(MemoryModel::Ordered) < spread_bytes, "{}", temporary(MemoryModel::Ordered));
}

const SCALED: &str = "
func.func @main(%x: tensor<512x4096xf32>, %scale: tensor<4096xf32>, %gradient: tensor<512x4096xf32>)
    -> (tensor<512x4096xf32>, tensor<512xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %spread = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<4096xf32>) -> tensor<512x4096xf32>
  %scaled = stablehlo.multiply %x, %spread : tensor<512x4096xf32>
  %back = stablehlo.multiply %gradient, %spread : tensor<512x4096xf32>
  %sum = stablehlo.reduce(%back init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<512x4096xf32>, tensor<f32>) -> tensor<512xf32>
  return %scaled, %sum : tensor<512x4096xf32>, tensor<512xf32>
}
";

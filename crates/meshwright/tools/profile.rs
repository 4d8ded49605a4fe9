//! Profiles what other tools have been asked about (`tests/profile`), for `cargo xtask bench`.
//!
//! ```text
//! profile errors          what XLA and PyTorch say, what we say, and how far that is off
//! profile seconds NAME    the ops of a recorded program, and the least seconds that it takes to profile it
//!                         under a compiler that fuses and op by op
//! ```

#![expect(clippy::print_stdout, reason = "a tool prints what it makes")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/recorded/mod.rs"]
mod recorded;

use std::time::{Duration, Instant};

use meshwright::profile::{MemoryModel, profile};
use meshwright::program::Program;
use recorded::{Attention, Comparison, TORCH, XLA, against_torch, against_xla, program, rows};

const ROUNDS: usize = 10;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["errors"] => {
            print_errors(&format!("fused: {}", XLA[0].name), "XLA", &against_xla());
            for (attention, words) in [(Attention::Whole, ""), (Attention::WrittenOut, ", attention written out")] {
                for (quantity, compared) in TORCH.iter().zip(against_torch(attention)) {
                    print_errors(&format!("eager: {}{words}", quantity.name), "PyTorch", &compared);
                }
            }
            Ok(())
        }
        ["seconds", name] => {
            let recorded = ["xla.json", "torch.json"].into_iter().flat_map(rows).find(|row| row["name"] == name);
            let program = program(&recorded.ok_or_else(|| format!("nothing is recorded as `{name}`"))?);
            let [fused, eager] = [MemoryModel::Fused, MemoryModel::Eager].map(|model| least_seconds(&program, model));
            println!("{} {fused} {eager}", program.ops.len());
            Ok(())
        }
        _ => Err("usage: profile errors | profile seconds NAME".to_owned()),
    }
}

fn least_seconds(program: &Program, memory_model: MemoryModel) -> f64 {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let profile = profile(program, memory_model);
        least = least.min(start.elapsed());
        drop(profile);
    }
    least.as_secs_f64()
}

fn print_errors(title: &str, truth: &str, compared: &[Comparison]) {
    println!("{title:<56}{truth:>17}{:>17}{:>9}", "meshwright", "error");
    for each in compared {
        let error = format!("{:+.1}%", 100.0 * each.error());
        println!("{:<56}{:>17.0}{:>17.0}{error:>9}", each.name, each.truth, each.found);
    }
    let mut errors: Vec<f64> = compared.iter().map(|each| 100.0 * each.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    if let Some(worst) = errors.last() {
        println!("median of {}: {:.1}%, worst: {worst:.1}%\n", errors.len(), errors[errors.len() / 2]);
    }
}

//! Fits what links cost to measured all-reduces: `cargo run --release --example links`.

#![expect(clippy::print_stdout, reason = "a tool tells its findings")]

#[path = "../tests/measured/mod.rs"]
mod measured;

use measured::{Measured, error, node, read};
use meshwright::cluster::{Collective, FitError, Link, MeasuredCollective, fit_link};

fn main() -> Result<(), FitError> {
    for gpu in ["a100", "v100"] {
        let rows: Vec<Measured> = read().into_iter().filter(|row| row.gpu == gpu).collect();
        let cluster = node(gpu);
        let all_reduces: Vec<MeasuredCollective> = rows.iter().map(all_reduce).collect();
        let link = fit_link(&cluster, &all_reduces)?;
        let mut errors: Vec<f64> = rows.iter().map(|row| error(&cluster, Some(&link), row).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let Link { efficiency, start_seconds, hop_seconds, copy_share, .. } = link;
        println!(
            "{gpu}: efficiency {efficiency:.3}, start {start_seconds:.2e} s, hop {hop_seconds:.2e} s, copy share {copy_share:.3}"
        );
        println!(
            "    median error {:.1}%, worst {:.1}%",
            100.0 * errors[errors.len() / 2],
            100.0 * errors[errors.len() - 1]
        );
    }
    Ok(())
}

fn all_reduce(row: &Measured) -> MeasuredCollective {
    let Measured { devices, bytes, seconds, .. } = *row;
    MeasuredCollective { collective: Collective::AllReduce, devices, bytes, seconds }
}

//! Fits what links cost to measured all-reduces: `cargo run --release --example links`.
//!
//! Four numbers for each kind of link, changed one after the other by smaller and smaller factors as long as the
//! mean of the logarithms' distances falls. That mean treats twice and half as fast alike, and single odd
//! measurements move it little.

#![expect(clippy::print_stdout, reason = "a tool tells its findings")]

#[path = "../tests/measured/mod.rs"]
mod measured;

use measured::{Measured, error, node, read};
use meshwright::cluster::{Cluster, Link};

fn main() {
    for gpu in ["a100", "v100"] {
        let rows: Vec<Measured> = read().into_iter().filter(|row| row.gpu == gpu).collect();
        let cluster = node(gpu);
        let link = fit(&cluster, &rows);
        let mut errors: Vec<f64> = rows.iter().map(|row| error(&cluster, Some(&link), row).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let [efficiency, start, hop, copy] = numbers(&link);
        println!("{gpu}: efficiency {efficiency:.3}, start {start:.2e} s, hop {hop:.2e} s, copy share {copy:.3}");
        println!(
            "    median error {:.1}%, worst {:.1}%",
            100.0 * errors[errors.len() / 2],
            100.0 * errors[errors.len() - 1]
        );
    }
}

fn fit(cluster: &Cluster, rows: &[Measured]) -> Link {
    // A start away from zero, from which factors reach every number.
    let mut link = Link { copy_share: 0.1, efficiency: 0.9, ..cluster.nodes[0].link.clone() };
    let mut least = distance(cluster, &link, rows);
    let mut step = 0.5;
    while step > 1e-4 {
        let mut is_better = false;
        for number in 0..4 {
            for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                let changed = changed(&link, number, factor);
                let distance = distance(cluster, &changed, rows);
                if distance < least {
                    (link, least, is_better) = (changed, distance, true);
                }
            }
        }
        if !is_better {
            step /= 2.0;
        }
    }
    link
}

fn distance(cluster: &Cluster, link: &Link, rows: &[Measured]) -> f64 {
    rows.iter().map(|row| (1.0 + error(cluster, Some(link), row)).ln().abs()).sum::<f64>() / rows.len() as f64
}

fn changed(link: &Link, number: usize, factor: f64) -> Link {
    let mut link = link.clone();
    match number {
        0 => link.efficiency = (link.efficiency * factor).min(1.0),
        1 => link.start_seconds *= factor,
        2 => link.hop_seconds *= factor,
        _ => link.copy_share *= factor,
    }
    link
}

fn numbers(link: &Link) -> [f64; 4] {
    [link.efficiency, link.start_seconds, link.hop_seconds, link.copy_share]
}

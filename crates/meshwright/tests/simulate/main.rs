//! The simulator: hand-made pipelines and lists of kernels whose times are known, and what holds of all models.

mod kernels;
mod models;
mod pipelines;
#[path = "../small/mod.rs"]
mod small;

use meshwright::cluster::{Cluster, parse};
use meshwright::simulate::{Engine, engine};

/// An engine whose host takes no time and whose collectives take nothing from kernels.
fn free_host() -> Engine {
    Engine {
        dispatch_seconds: 0.0,
        collective_seconds: 0.0,
        step_seconds: 0.0,
        contention: 0.0,
        ..engine("xla").expect("an engine").clone()
    }
}

/// Eight devices between which messages take no time.
fn free_links() -> Cluster {
    let mut cluster = parse("8xh100").expect("a cluster");
    let link = &mut cluster.nodes[0].link;
    (link.start_seconds, link.hop_seconds, link.bytes_per_second) = (0.0, 0.0, 1e30);
    cluster
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    let difference = (found - expected).abs();
    assert!(difference <= 1e-9 * expected.abs().max(1e-6), "{found} is not {expected}");
}

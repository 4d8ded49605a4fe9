//! A cluster of one node, from what was measured on it.

use std::borrow::Cow;

use super::fit::{FittedDevice, Measurements, fit_device};
use crate::cluster::{
    Cluster, Device, FitError, Link, MeasuredCollective, Residual, System, Wiring, collective_errors, find_reported,
    fit_link, parse, peak_and_share, rounded,
};

/// What an engine says of the devices of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredNode {
    pub name: String,
    pub devices: usize,
    pub memory_bytes: usize,
    /// Units that each work on a tile of a product, where the engine knows.
    pub processors: Option<usize>,
}

/// A cluster whose numbers fit measurements, and how well they do.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub cluster: Cluster,
    /// The device of our tables that this is: it has the maker's rates, and what was not measured.
    pub system: Option<&'static System>,
    /// As it is in the cluster.
    pub device: FittedDevice,
    /// None where there was nothing to communicate with.
    pub link: Option<Residual>,
}

/// Fits a node to measurements. Collectives may be none, as for a single device.
pub fn calibrate(
    node: &MeasuredNode,
    measured: &Measurements,
    collectives: &[MeasuredCollective],
) -> Result<Calibration, FitError> {
    let (system, mut cluster) = start(node)?;
    let described = Device {
        name: system.map_or_else(|| Cow::Owned(node.name.clone()), |system| system.device.name.clone()),
        memory_bytes: node.memory_bytes,
        processors: node.processors.unwrap_or(cluster.nodes[0].device.processors).max(1),
        ..cluster.nodes[0].device.clone()
    };
    let device = fit_device(&described, system.map(|system| &system.device), measured)?;
    cluster.name = format!("{}x{}", node.devices, device.device.name);
    cluster.nodes[0].device = device.device.clone();
    let mut link = None;
    if !collectives.is_empty() {
        let collectives = without_calls(collectives, device.call_seconds);
        cluster.nodes[0].link = fitted_link(&cluster, system.is_some(), &collectives)?;
        link = Residual::of(&collective_errors(&cluster, &cluster.nodes[0].link, &collectives));
    }
    Ok(Calibration { cluster, system, device, link })
}

/// A cluster of such a node before anything was measured: one of our tables, or else of cores of a CPU, of which
/// what is not measured stays.
fn start(node: &MeasuredNode) -> Result<(Option<&'static System>, Cluster), FitError> {
    let system = find_reported(&node.name).filter(|system| node.devices <= system.most_in_node);
    let name = system.map_or("cpu", |system| &*system.device.name);
    let unknown = |_| FitError::Devices { found: node.devices };
    let mut cluster = parse(&format!("{}x{name}", node.devices)).map_err(unknown)?;
    if system.is_none() {
        let link = &mut cluster.nodes[0].link;
        (link.name, link.wiring, link.lanes) = (Cow::Borrowed("measured"), Wiring::Switch, 1);
    }
    Ok((system, cluster))
}

/// Collectives inside of a program do not wait for the host. What it needs to call one is known no better than to
/// a tenth of the shortest.
fn without_calls(collectives: &[MeasuredCollective], call_seconds: f64) -> Vec<MeasuredCollective> {
    let without = |measured: &MeasuredCollective| MeasuredCollective {
        seconds: (measured.seconds - call_seconds).max(0.1 * measured.seconds),
        ..*measured
    };
    collectives.iter().map(without).collect()
}

fn fitted_link(cluster: &Cluster, is_known: bool, collectives: &[MeasuredCollective]) -> Result<Link, FitError> {
    let before = &cluster.nodes[0].link;
    // A ring sends less than twice what it reduces, so that no lane is faster than this.
    let fastest = collectives.iter().map(|measured| 2.0 * measured.bytes as f64 / measured.seconds).fold(1.0, f64::max);
    let bytes_per_second = if is_known { before.bytes_per_second } else { fastest };
    let mut start = cluster.clone();
    start.nodes[0].link.bytes_per_second = bytes_per_second;
    let link = fit_link(&start, collectives)?;
    let maker = is_known.then_some(bytes_per_second);
    let (bytes_per_second, efficiency) = peak_and_share(link.lane_bytes_per_second(), maker);
    Ok(Link {
        bytes_per_second: rounded(bytes_per_second),
        efficiency: rounded(efficiency),
        start_seconds: rounded(link.start_seconds),
        hop_seconds: rounded(link.hop_seconds),
        // Descent reaches no zero.
        copy_share: if link.copy_share < 1e-3 { 0.0 } else { rounded(link.copy_share) },
        ..link
    })
}

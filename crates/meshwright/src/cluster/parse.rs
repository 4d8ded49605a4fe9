//! Names of clusters: `8xh100`, `4x8xa100-80g`.

use super::group::torus_axes;
use super::{Cluster, ClusterError, Link, Nodes, SYSTEMS, System, Wiring, devices, links};

/// The most devices that a cluster may have: beyond any that was built, and far from where numbers overflow.
const MAXIMUM_DEVICES: usize = 1 << 20;

/// Reads `4x8xa100-80g`: nodes, devices of a node, and the device. One number is devices of one node.
pub fn parse(name: &str) -> Result<Cluster, ClusterError> {
    let refuse = |span: std::ops::Range<usize>, message: String, hint: String| {
        Err(ClusterError { span, message, hint: Some(hint) })
    };
    let (counts, device_name) = split_counts(name);
    let start = name.len() - device_name.len();
    let Some(system) = devices::find(device_name) else {
        let message = format!("there is no device `{device_name}`");
        return refuse(start..name.len(), message, format!("there are {}", device_names(device_name)));
    };
    let (nodes, per_node) = match counts[..] {
        [] => (1, 1),
        [devices] => (1, devices),
        [nodes, devices] => (nodes, devices),
        _ => {
            let hint = "write nodes, devices of a node and the device, such as `4x8xh100`".to_owned();
            return refuse(0..start, format!("`{name}` has too many numbers"), hint);
        }
    };
    if nodes == 0 || per_node == 0 {
        return refuse(0..start, format!("`{name}` has no devices"), "give numbers from 1 on".to_owned());
    }
    let most = system.most_in_node;
    if per_node > most {
        let message = format!("a node has at most {most} of `{device_name}`, not {per_node}");
        let nodes = nodes.saturating_mul(per_node.div_ceil(most));
        return refuse(0..start, message, format!("write nodes first, such as `{nodes}x{most}x{device_name}`"));
    }
    if nodes.checked_mul(per_node).is_none_or(|devices| devices > MAXIMUM_DEVICES) {
        let message = format!("`{name}` has more devices than {MAXIMUM_DEVICES}, the most that a cluster may have");
        return refuse(0..start, message, "give fewer nodes".to_owned());
    }
    Ok(build(name, nodes, per_node, system))
}

/// The numbers before a device's name, and that name. Names may have the letter `x` too.
fn split_counts(name: &str) -> (Vec<usize>, &str) {
    let mut counts = Vec::new();
    let mut rest = name;
    while let Some((count, after)) = rest.split_once('x') {
        if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        counts.push(count.parse().unwrap_or(usize::MAX));
        rest = after;
    }
    (counts, rest)
}

/// The devices whose names begin alike, or all.
fn device_names(name: &str) -> String {
    let family = name.split('-').next().unwrap_or(name);
    let all: Vec<&str> = SYSTEMS.iter().map(|system| &*system.device.name).collect();
    let alike: Vec<&str> = all.iter().copied().filter(|name| !family.is_empty() && name.starts_with(family)).collect();
    if alike.is_empty() { all.join(", ") } else { alike.join(", ") }
}

fn build(name: &str, count: usize, devices: usize, system: &System) -> Cluster {
    // A test holds the table to names of links that there are.
    let find = |name| links::find(name).unwrap_or(&links::LINKS[0]).clone();
    let link = wired(find(system.link), devices);
    let adapters = devices.div_ceil(system.devices_per_adapter.max(1));
    let nodes = Nodes { count, devices, device: system.device.clone(), link, adapters };
    Cluster { name: name.to_owned(), nodes: vec![nodes], network: find(system.network) }
}

/// A link for so many devices of a node: a torus gets its axes.
pub(super) fn wired(link: Link, devices: usize) -> Link {
    match link.wiring {
        Wiring::Torus { dimensions, .. } => Link { axes: torus_axes(devices, dimensions), ..link },
        Wiring::Cube | Wiring::Full | Wiring::Switch => Link { axes: Vec::new(), ..link },
    }
}

//! Clusters: devices, the links between them, and how long collectives take over those.
//!
//! `devices.rs` and `links.rs` are tables of what there is, each number with its source. `parse.rs` reads
//! names such as `4x8xh100`, `file.rs` files that change a named cluster, `collective.rs` has the times, and `fit.rs`
//! finds numbers of links for which these times are as measured.

mod collective;
mod devices;
mod file;
mod fit;
mod group;
mod links;
mod parse;
mod print;
mod quantity;

pub use collective::{Algorithm, Collective, Estimate, estimate};
pub use devices::{Device, Efficiency, Host, Rates, SYSTEMS, System, find_reported};
pub use file::parse_file;
pub use fit::{FitError, MeasuredCollective, Residual, collective_errors, fit_link, peak_and_share};
pub(crate) use fit::{check_seconds, descend, log_error, rounded};
pub use group::{Group, Span};
pub use links::{LINKS, Link, Wiring};
pub use parse::parse;
pub use quantity::parse_bytes;

use std::borrow::Cow;
use std::ops::Range;

/// Nodes of devices, and what is between the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub name: String,
    /// Nodes in the order of their devices' numbers. Nodes alike share an entry; a cluster of one kind has one.
    pub nodes: Vec<Nodes>,
    /// What joins the nodes: the rate is that of one adapter.
    pub network: Link,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Nodes {
    pub count: usize,
    /// Devices of each node.
    pub devices: usize,
    pub device: Device,
    /// What joins the devices of a node.
    pub link: Link,
    /// Network adapters of each node.
    pub adapters: usize,
}

impl Cluster {
    /// Devices of all nodes.
    pub fn devices(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes.count * nodes.devices).sum()
    }

    pub fn node_count(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes.count).sum()
    }

    /// Devices of the smallest node. Groups that cross nodes have as many devices in each.
    pub fn devices_per_node(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes.devices).min().unwrap_or(1)
    }

    /// The memory that every device has: a program is the same for all devices of its mesh.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes.device.memory_bytes).min().unwrap_or(0)
    }

    /// The device of a number, and the last one for numbers beyond.
    pub fn device(&self, number: usize) -> &Device {
        let mut before = 0;
        for nodes in &self.nodes {
            before += nodes.count * nodes.devices;
            if number < before {
                return &nodes.device;
            }
        }
        &self.nodes[self.nodes.len() - 1].device
    }

    /// The slowest device at products of matrices.
    pub fn slowest_device(&self) -> &Device {
        let rate = |device: &Device| device.flops_per_second.f16.max(device.flops_per_second.f32);
        let devices = self.nodes.iter().map(|nodes| &nodes.device);
        let slowest = devices.min_by(|left, right| rate(left).total_cmp(&rate(right)));
        slowest.unwrap_or_else(|| self.device(0))
    }

    /// Nodes of those kinds that some devices are of, as a cluster of their own.
    pub fn around(&self, devices: Range<usize>) -> Cow<'_, Cluster> {
        let (mut nodes, mut before) = (Vec::new(), 0);
        for entry in &self.nodes {
            let after = before + entry.count * entry.devices;
            if before < devices.end && devices.start < after {
                nodes.push(entry.clone());
            }
            before = after;
        }
        match nodes.len() {
            count if count == self.nodes.len() || count == 0 => Cow::Borrowed(self),
            _ => Cow::Owned(Cluster { name: self.name.clone(), nodes, network: self.network.clone() }),
        }
    }

    /// Some of the nodes as a cluster of their own, such as those of one stage of a pipeline.
    pub fn part(&self, first: usize, count: usize) -> Cluster {
        let mut nodes = Vec::new();
        let mut before = 0;
        for entry in &self.nodes {
            let from = first.clamp(before, before + entry.count);
            let until = (first + count).clamp(before, before + entry.count);
            if until > from {
                nodes.push(Nodes { count: until - from, ..entry.clone() });
            }
            before += entry.count;
        }
        Cluster { name: self.name.clone(), nodes, network: self.network.clone() }
    }
}

/// What is wrong with the name or the file of a cluster, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterError {
    /// Bytes of the text.
    pub span: std::ops::Range<usize>,
    pub message: String,
    pub hint: Option<String>,
}

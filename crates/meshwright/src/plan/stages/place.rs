//! Devices that stages may have.

use std::ops::Range;

use crate::cluster::{Cluster, Device, Nodes};
use crate::plan::frames::frames_of;
use crate::shard::Mesh;

/// Nodes alike, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Kind<'c> {
    pub(super) device: &'c Device,
    /// The numbers of their devices.
    pub(super) devices: Range<usize>,
    pub(super) node_count: usize,
    pub(super) per_node: usize,
}

/// The nodes of a cluster by their kinds, in order.
pub(super) fn kinds(cluster: &Cluster) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for Nodes { count, devices, device, .. } in &cluster.nodes {
        let first = kinds.last().map_or(0, |before| before.devices.end);
        let devices_of_all = first..first + count * devices;
        kinds.push(Kind { device, devices: devices_of_all, node_count: *count, per_node: *devices });
    }
    kinds
}

impl Kind<'_> {
    /// Whether a stage may have these devices: some of a node, or whole nodes.
    pub(super) fn may_give(&self, devices: &Range<usize>) -> bool {
        let is_own = self.devices.start <= devices.start && devices.end <= self.devices.end;
        let first = devices.start.wrapping_sub(self.devices.start) % self.per_node;
        let is_whole = first == 0 && devices.len().is_multiple_of(self.per_node);
        is_own && (is_whole || first + devices.len() <= self.per_node)
    }

    /// The meshes that some of the stages may have: powers of two, and what divides a node or all of them.
    pub(super) fn meshes(&self) -> Vec<Mesh> {
        let sizes = |most: usize| (1..=most).filter(move |size| size.is_power_of_two() || most.is_multiple_of(*size));
        let parts = sizes(self.per_node).map(|devices| (1, devices));
        let nodes = sizes(self.node_count).filter(|&nodes| nodes > 1).map(|nodes| (nodes, self.per_node));
        parts.chain(nodes).filter_map(|(nodes, devices)| frames_of(nodes, devices).ok()).flatten().collect()
    }
}

/// The meshes that all stages may have: parts of a node, and whole nodes, of which there are as many as it takes for at
/// least two stages. No stage has devices of two kinds, or of two nodes that are not whole.
pub(super) fn stage_meshes(kinds: &[Kind<'_>]) -> Vec<Mesh> {
    let total: usize = kinds.iter().map(|kind| kind.devices.len()).sum();
    let per_node = kinds.iter().map(|kind| kind.per_node).min().unwrap_or(1);
    let most_nodes = kinds.iter().map(|kind| kind.node_count).min().unwrap_or(1);
    let mut shapes: Vec<(usize, usize)> = (1..=per_node).map(|devices| (1, devices)).collect();
    if kinds.iter().all(|kind| kind.per_node == per_node) {
        shapes.extend((2..=most_nodes).map(|nodes| (nodes, per_node)));
    }
    let is_even = |&(nodes, devices): &(usize, usize)| {
        kinds.iter().all(|kind| kind.per_node.is_multiple_of(devices) && kind.node_count.is_multiple_of(nodes))
    };
    let shapes = shapes.into_iter().filter(is_even).filter(|(nodes, devices)| 2 * nodes * devices <= total);
    shapes.filter_map(|(nodes, devices)| frames_of(nodes, devices).ok()).flatten().collect()
}

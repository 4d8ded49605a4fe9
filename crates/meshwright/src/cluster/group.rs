//! Where the devices of a group lie.

use super::{Cluster, Link, Wiring};

/// A group of devices that communicate, told by how many there are on each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Devices in each node.
    pub in_node: usize,
    pub nodes: usize,
    /// Groups like this one that communicate at the same time and share the adapters of a node.
    pub at_once: usize,
    /// How it lies in the torus of a node, where that is one.
    pub spans: Vec<Span>,
}

/// The part of one axis of a torus that a group takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Devices of the group along the axis.
    pub length: usize,
    /// Groups that lie between each other along the axis, so that their data pass the same links.
    pub shared: usize,
    /// The span goes all around a ring.
    pub is_closed: bool,
}

impl Group {
    /// The group along pieces of a mesh, each a number of devices and the distance between their numbers, when
    /// all devices of the cluster form such groups at once. The pieces of a mesh axis are in this form already.
    pub fn along(cluster: &Cluster, pieces: &[(usize, usize)]) -> Group {
        let per_node = cluster.devices_per_node().max(1);
        let (mut in_node, mut nodes) = (1, 1);
        let mut inner = Vec::new();
        for &(size, stride) in pieces {
            let stride = stride.max(1);
            let fitting = (per_node / stride).clamp(1, size.max(1));
            in_node *= fitting;
            nodes *= size.max(1).div_ceil(fitting);
            if fitting > 1 {
                inner.push((fitting, stride));
            }
        }
        let spans = cluster.nodes.first().map(|nodes| spans(&nodes.link, &inner)).unwrap_or_default();
        Group { in_node, nodes, at_once: (per_node / in_node).max(1), spans }
    }

    /// All devices of a cluster.
    pub fn whole(cluster: &Cluster) -> Group {
        Group::along(cluster, &[(cluster.devices(), 1)])
    }

    pub fn devices(&self) -> usize {
        self.in_node * self.nodes
    }
}

/// Devices are numbered along the last axis first, so a piece of a mesh covers a range of each axis.
fn spans(link: &Link, pieces: &[(usize, usize)]) -> Vec<Span> {
    let Wiring::Torus { closed_from, .. } = link.wiring else { return Vec::new() };
    let mut spans = Vec::new();
    let mut axis_stride = 1;
    for &axis in link.axes.iter().rev() {
        let end = axis_stride * axis;
        let (mut length, mut nearest, mut farthest) = (1, end, 0);
        for &(size, stride) in pieces {
            let from = stride.max(axis_stride);
            let until = (stride * size).min(end);
            if until > from {
                length *= until / from;
                nearest = nearest.min(from);
                farthest = farthest.max(until);
            }
        }
        if length > 1 {
            let is_closed = axis >= closed_from && farthest == end;
            spans.push(Span { length, shared: (nearest / axis_stride).max(1), is_closed });
        }
        axis_stride = end;
    }
    spans
}

/// Axes for so many devices, as equal as its divisors allow, shortest first.
pub(super) fn torus_axes(devices: usize, dimensions: usize) -> Vec<usize> {
    let mut axes = Vec::new();
    let mut rest = devices;
    for left in (1..=dimensions).rev() {
        let fair = (rest as f64).powf(1.0 / left as f64).round().max(1.0) as usize;
        let axis = if left == 1 { rest } else { (1..=fair).rev().find(|axis| rest.is_multiple_of(*axis)).unwrap_or(1) };
        axes.push(axis);
        rest /= axis;
    }
    axes.sort_unstable();
    axes
}

//! How long collectives take.
//!
//! A collective is bound by what it waits for one hop after another, and by the bytes that each device sends
//! over the narrowest link on the way. Algorithms trade one for the other; the fastest is chosen, as the
//! libraries of the engines do.

use super::{Cluster, Group, Link, Nodes, Wiring};

/// What a group of devices does together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    CollectivePermute,
    ReduceScatter,
    /// From one device to another, as between stages of a pipeline.
    Send,
}

/// How a group does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Every device sends to its partner, or to all others at once.
    Direct,
    /// Within nodes, and between the devices of nodes that correspond to each other.
    Hierarchical,
    /// Nothing to do.
    None,
    /// Around all devices, node by node.
    Ring,
    /// Rings along all axes of a torus at once.
    Torus,
    /// Two binary trees over the nodes, each for half of the data.
    Tree,
}

/// A time, and the algorithm that takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub seconds: f64,
    pub algorithm: Algorithm,
}

/// The time of a collective of a group, all nodes being as slow as the slowest kind.
///
/// `bytes` are those of the whole value on one device: what is reduced, sent or cut apart, and for an
/// all-gather what comes out.
pub fn estimate(cluster: &Cluster, collective: Collective, group: &Group, bytes: usize) -> Estimate {
    let nothing = Estimate { seconds: 0.0, algorithm: Algorithm::None };
    if group.devices() < 2 || bytes == 0 {
        return nothing;
    }
    let estimates = cluster.nodes.iter().map(|nodes| {
        let place = Place { nodes, network: &cluster.network, group };
        place.best(collective, bytes as f64)
    });
    estimates.fold(nothing, |slowest, next| if next.seconds > slowest.seconds { next } else { slowest })
}

/// A group in nodes of one kind.
#[derive(Clone, Copy)]
struct Place<'p> {
    nodes: &'p Nodes,
    network: &'p Link,
    group: &'p Group,
}

/// What passes over a link: hops that wait for each other, bytes that each device sends, and at which rate.
struct Passage<'p> {
    link: &'p Link,
    hops: f64,
    bytes: f64,
    bytes_per_second: f64,
}

impl Passage<'_> {
    fn seconds(&self) -> f64 {
        self.link.start_seconds + self.hops * self.link.hop_seconds + self.bytes / self.bytes_per_second
    }
}

/// How often the bytes of a value pass a ring, and in how many rounds over its other devices.
fn rounds(collective: Collective) -> f64 {
    match collective {
        Collective::AllReduce => 2.0,
        Collective::AllGather
        | Collective::AllToAll
        | Collective::Broadcast
        | Collective::CollectivePermute
        | Collective::ReduceScatter
        | Collective::Send => 1.0,
    }
}

impl Place<'_> {
    fn best(&self, collective: Collective, bytes: f64) -> Estimate {
        let candidates: Vec<(Algorithm, f64)> = match collective {
            Collective::AllToAll => vec![(Algorithm::Direct, self.exchange(bytes))],
            Collective::CollectivePermute | Collective::Send => vec![(Algorithm::Direct, self.send(bytes))],
            Collective::AllGather | Collective::AllReduce | Collective::Broadcast | Collective::ReduceScatter => {
                self.spread(collective, bytes)
            }
        };
        let first = Estimate { seconds: f64::INFINITY, algorithm: Algorithm::None };
        candidates.into_iter().fold(
            first,
            |best, (algorithm, seconds)| {
                if seconds < best.seconds { Estimate { seconds, algorithm } } else { best }
            },
        )
    }

    /// Algorithms for what every device ends up with, or contributes to.
    fn spread(&self, collective: Collective, bytes: f64) -> Vec<(Algorithm, f64)> {
        let is_torus = matches!(self.nodes.link.wiring, Wiring::Torus { .. });
        let Group { in_node, nodes, .. } = *self.group;
        let mut candidates = Vec::new();
        if nodes == 1 {
            let algorithm = if is_torus { Algorithm::Torus } else { Algorithm::Ring };
            candidates.push((algorithm, self.within(collective, bytes)));
        } else if !is_torus || in_node == 1 {
            candidates.push((Algorithm::Ring, self.ring(collective, bytes)));
        }
        if collective == Collective::AllReduce && !is_torus {
            candidates.push((Algorithm::Tree, self.tree(bytes)));
        }
        if nodes > 1 && in_node > 1 {
            candidates.push((Algorithm::Hierarchical, self.hierarchical(collective, bytes)));
        }
        candidates
    }

    /// A ring, or rings along the axes of a torus, in one node.
    fn within(&self, collective: Collective, bytes: f64) -> f64 {
        let link = &self.nodes.link;
        let devices = self.group.in_node as f64;
        let rounds = rounds(collective);
        let sent = sent_share(collective, devices) * bytes;
        let passage = if let Wiring::Torus { .. } = link.wiring {
            Passage { link, hops: rounds * self.torus_hops(), bytes: sent, bytes_per_second: self.torus_rate() }
        } else {
            Passage {
                link,
                hops: rounds * (devices - 1.0),
                bytes: sent + copied_share(collective) * link.copy_share * bytes,
                bytes_per_second: link.group_bytes_per_second(self.group.in_node),
            }
        };
        passage.seconds()
    }

    /// One ring over all devices of all nodes. Its hops are of both kinds; the narrower link bounds it.
    fn ring(&self, collective: Collective, bytes: f64) -> f64 {
        let Group { in_node, nodes, .. } = *self.group;
        let devices = (in_node * nodes) as f64;
        let rounds = rounds(collective);
        let between = rounds * (devices - 1.0) * nodes as f64 / devices;
        let inside = if in_node > 1 { rounds * (devices - 1.0) - between } else { 0.0 };
        let passage = Passage {
            link: self.network,
            hops: between,
            bytes: sent_share(collective, devices) * bytes,
            bytes_per_second: self.crossing_rate(in_node, self.group.at_once),
        };
        passage.seconds() + inside * self.nodes.link.hop_seconds
    }

    /// Two binary trees over the nodes, or over the devices of one node: all data go up and down. Nodes of
    /// several devices are chains.
    fn tree(&self, bytes: f64) -> f64 {
        let Group { in_node, nodes, at_once, .. } = *self.group;
        let inside = &self.nodes.link;
        if nodes == 1 {
            let passage = Passage {
                link: inside,
                hops: 2.0 * depth(in_node),
                bytes: (2.0 + inside.copy_share) * bytes,
                bytes_per_second: inside.group_bytes_per_second(in_node),
            };
            return passage.seconds();
        }
        let passage = Passage {
            link: self.network,
            hops: 2.0 * depth(nodes),
            bytes: 2.0 * bytes,
            bytes_per_second: self.crossing_rate(in_node, at_once),
        };
        passage.seconds() + 2.0 * (in_node as f64 - 1.0) * inside.hop_seconds
    }

    /// Each node first makes or last spreads pieces, one for each of its devices; between nodes, devices in the
    /// same place of their nodes share a piece.
    fn hierarchical(&self, collective: Collective, bytes: f64) -> f64 {
        let Group { in_node, nodes, at_once, .. } = *self.group;
        let group = Group { in_node: 1, nodes, at_once: at_once * in_node, spans: Vec::new() };
        let between = Place { group: &group, ..*self };
        let piece = bytes / in_node as f64;
        let across = match collective {
            Collective::AllReduce => between.ring(collective, piece).min(between.tree(piece)),
            Collective::AllGather
            | Collective::AllToAll
            | Collective::Broadcast
            | Collective::CollectivePermute
            | Collective::ReduceScatter
            | Collective::Send => between.ring(collective, piece),
        };
        let inside = match collective {
            Collective::AllReduce => {
                self.within(Collective::ReduceScatter, bytes) + self.within(Collective::AllGather, bytes)
            }
            // The device that has the data cuts it for its node, which puts the pieces together at the end.
            Collective::Broadcast => 2.0 * self.within(Collective::AllGather, bytes),
            Collective::AllGather
            | Collective::AllToAll
            | Collective::CollectivePermute
            | Collective::ReduceScatter
            | Collective::Send => self.within(collective, bytes),
        };
        inside + across
    }

    /// Each device sends another piece to each other. Links within and between nodes work at the same time, but
    /// a device begins one message after the other.
    fn exchange(&self, bytes: f64) -> f64 {
        let Group { in_node, nodes, at_once, .. } = *self.group;
        let (in_node_count, node_count) = (in_node as f64, nodes as f64);
        let link = &self.nodes.link;
        let (mut start, mut wait, mut stream) = (0.0, 0.0, 0.0);
        if in_node > 1 {
            let (hops, passed, bytes_per_second) = if let Wiring::Torus { .. } = link.wiring {
                (self.torus_hops(), self.torus_exchange_share() * bytes / node_count, link.lane_bytes_per_second())
            } else {
                let share = (in_node_count - 1.0) / (in_node_count * node_count);
                (in_node_count - 1.0, share * bytes, link.group_bytes_per_second(in_node))
            };
            (start, wait, stream) = (link.start_seconds, hops * link.hop_seconds, passed / bytes_per_second);
        }
        if nodes > 1 {
            let passed = (node_count - 1.0) / node_count * bytes;
            start = self.network.start_seconds.max(start);
            wait += (node_count - 1.0) * self.network.hop_seconds;
            stream = stream.max(passed / self.adapter_rate(1, at_once * in_node));
        }
        start + wait + stream
    }

    /// Each device sends all it has to its neighbor. Where a node has several devices of the group, one of them
    /// has its neighbor in another node.
    fn send(&self, bytes: f64) -> f64 {
        let Group { in_node, nodes, at_once, .. } = *self.group;
        let link = &self.nodes.link;
        let mut seconds: f64 = 0.0;
        if in_node > 1 {
            let shared = self.group.spans.iter().map(|span| span.shared).max().unwrap_or(1) as f64;
            let bytes_per_second = link.group_bytes_per_second(2) / shared;
            seconds = Passage { link, hops: 1.0, bytes, bytes_per_second }.seconds();
        }
        if nodes > 1 {
            let bytes_per_second = self.adapter_rate(1, at_once);
            seconds = seconds.max(Passage { link: self.network, hops: 1.0, bytes, bytes_per_second }.seconds());
        }
        seconds
    }

    /// What a ring or tree through devices of a node and out of it carries.
    fn crossing_rate(&self, in_node: usize, at_once: usize) -> f64 {
        let outside = self.adapter_rate(in_node, at_once);
        if in_node > 1 { outside.min(self.nodes.link.group_bytes_per_second(in_node)) } else { outside }
    }

    /// What a group with so many devices in a node sends out of it, when so many groups do at once. A group
    /// uses the adapters that are nearest to its devices, at least one; groups share all of them evenly.
    fn adapter_rate(&self, in_node: usize, at_once: usize) -> f64 {
        let adapters = self.nodes.adapters as f64;
        let own = (adapters * in_node as f64 / self.nodes.devices as f64).max(1.0);
        own.min(adapters / at_once as f64) * self.network.lane_bytes_per_second()
    }

    /// Devices along all axes, one axis after the other; a closed axis is walked both ways.
    fn torus_hops(&self) -> f64 {
        let walk = |length: usize, is_closed: bool| {
            if is_closed { length as f64 / 2.0 } else { length as f64 - 1.0 }
        };
        self.group.spans.iter().map(|span| walk(span.length, span.is_closed) * span.shared as f64).sum()
    }

    /// All axes carry a part of the data at once, each in both directions where it is closed.
    fn torus_rate(&self) -> f64 {
        let lanes = self.group.spans.iter().map(|span| {
            let ways = if span.is_closed { 2.0 } else { 1.0 };
            ways / span.shared as f64
        });
        // Nobody said where a group lies that has no spans: it has one lane.
        let lanes = if self.group.spans.is_empty() { 1.0 } else { lanes.sum() };
        lanes * self.nodes.link.lane_bytes_per_second()
    }

    /// What the busiest link of an axis carries when everybody sends to everybody, in shares of a device's
    /// bytes: an eighth of its length for a ring, a quarter for a line.
    fn torus_exchange_share(&self) -> f64 {
        let shares = self.group.spans.iter().map(|span| {
            let ways = if span.is_closed { 8.0 } else { 4.0 };
            (span.length * span.shared) as f64 / ways
        });
        shares.fold(0.0, f64::max)
    }
}

/// Levels of a binary tree below its root.
fn depth(leaves: usize) -> f64 {
    f64::from(leaves.max(1).next_power_of_two().trailing_zeros())
}

/// What each device sends, in shares of the value.
fn sent_share(collective: Collective, devices: f64) -> f64 {
    let others = (devices - 1.0) / devices;
    match collective {
        Collective::AllReduce => 2.0 * others,
        Collective::AllGather | Collective::AllToAll | Collective::ReduceScatter => others,
        Collective::Broadcast | Collective::CollectivePermute | Collective::Send => 1.0,
    }
}

/// Half of the work on buffers of an all-reduce is that of its reduce-scatter; what only passes has none.
fn copied_share(collective: Collective) -> f64 {
    match collective {
        Collective::AllReduce => 1.0,
        Collective::AllGather | Collective::ReduceScatter => 0.5,
        Collective::AllToAll | Collective::Broadcast | Collective::CollectivePermute | Collective::Send => 0.0,
    }
}

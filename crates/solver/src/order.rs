//! In which order to eliminate nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An elimination order. Nodes that are not in it keep their labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub(crate) steps: Vec<Step>,
    /// Entries of all tables together, the eliminated nodes' labels included.
    pub(crate) work: f64,
}

/// A node and those that are its neighbors when its turn comes, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) node: u32,
    pub(crate) neighbors: Vec<u32>,
}

/// Takes the node whose elimination makes the smallest table, over and over. Where that would have
/// more than `largest` entries, the node's own labels included, the neighbor that makes the most
/// tables large is left out; once there is `most_work`, so is everything else. `sizes` are label counts;
/// `neighbors` are those within `nodes`.
pub(crate) fn smallest_first(
    sizes: impl Fn(u32) -> usize,
    nodes: &[u32],
    mut neighbors: Vec<Vec<u32>>,
    largest: f64,
    most_work: f64,
) -> Order {
    // From here on, nodes are places in the list; it is ascending, and so are the places.
    let bits: Vec<f64> = nodes.iter().map(|node| (sizes(*node) as f64).log2()).collect();
    let weight = |node: usize, neighbors: &[u32]| {
        let sum: f64 = neighbors.iter().map(|other| bits[*other as usize]).sum();
        // Ordered as integers, so that equal weights are equal whatever the order of addition.
        ((sum + bits[node]) * 1024.0).round() as u64
    };
    let mut weights: Vec<u64> = (0..nodes.len()).map(|node| weight(node, &neighbors[node])).collect();
    let mut waiting: BinaryHeap<Reverse<(u64, u32)>> =
        weights.iter().enumerate().map(|(node, weight)| Reverse((*weight, node as u32))).collect();
    let mut gone = vec![false; nodes.len()];
    let mut order = Order::default();
    let most = (largest.log2() * 1024.0) as u64;
    while let Some(Reverse((at, node))) = waiting.pop() {
        let index = node as usize;
        if gone[index] || at != weights[index] {
            continue;
        }
        if order.work > most_work {
            break;
        }
        if at > most {
            let left_out = largest_burden(&neighbors, &bits, index);
            gone[left_out as usize] = true;
            for other in std::mem::take(&mut neighbors[left_out as usize]) {
                let list = &mut neighbors[other as usize];
                list.retain(|neighbor| *neighbor != left_out);
                weights[other as usize] = weight(other as usize, list);
                waiting.push(Reverse((weights[other as usize], other)));
            }
            if left_out != node {
                waiting.push(Reverse((weights[index], node)));
            }
            continue;
        }
        gone[index] = true;
        let near = std::mem::take(&mut neighbors[index]);
        for other in &near {
            let list = union_without(&neighbors[*other as usize], &near, [node, *other]);
            weights[*other as usize] = weight(*other as usize, &list);
            neighbors[*other as usize] = list;
            waiting.push(Reverse((weights[*other as usize], *other)));
        }
        order.work += (at as f64 / 1024.0).exp2();
        order.steps.push(Step { node, neighbors: near });
    }
    // What was left out keeps its label, for those eliminated before that was known as well.
    let mut is_in = vec![false; nodes.len()];
    order.steps.iter().for_each(|step| is_in[step.node as usize] = true);
    for step in &mut order.steps {
        step.node = nodes[step.node as usize];
        step.neighbors.retain(|place| is_in[*place as usize]);
        step.neighbors.iter_mut().for_each(|place| *place = nodes[*place as usize]);
    }
    order
}

/// Among a node and its neighbors, the one whose labels count in the most tables.
fn largest_burden(neighbors: &[Vec<u32>], bits: &[f64], node: usize) -> u32 {
    let burden = |node: &u32| (bits[*node as usize] * 1024.0) as u64 * neighbors[*node as usize].len() as u64;
    let own = node as u32;
    neighbors[node].iter().copied().chain([own]).max_by_key(burden).unwrap_or(own)
}

/// The union of two ascending lists, without two nodes.
fn union_without(first: &[u32], second: &[u32], without: [u32; 2]) -> Vec<u32> {
    let mut list = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.iter().copied().peekable(), second.iter().copied().peekable());
    loop {
        let next = match (first.peek(), second.peek()) {
            (None, None) => return list,
            (Some(ours), Some(theirs)) if ours == theirs => {
                second.next();
                first.next()
            }
            (Some(ours), Some(theirs)) if theirs < ours => second.next(),
            (None, Some(_)) => second.next(),
            _ => first.next(),
        };
        list.extend(next.filter(|node| !without.contains(node)));
    }
}

//! In which order to eliminate nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An elimination order with what each step costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub(crate) steps: Vec<Step>,
    /// Nodes whose elimination would make a table larger than allowed.
    pub(crate) left: Vec<u32>,
}

/// A node and those that are its neighbors when its turn comes, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) node: u32,
    pub(crate) neighbors: Vec<u32>,
}

/// Takes the node whose elimination makes the smallest table, over and over, while tables have at
/// most `largest` entries, the node's own labels included. `sizes` are label counts.
pub(crate) fn smallest_first<'a>(
    sizes: &[usize],
    factors: impl Iterator<Item = &'a [u32]>,
    largest: f64,
) -> Order {
    let mut neighbors: Vec<Vec<u32>> = vec![Vec::new(); sizes.len()];
    for nodes in factors {
        for node in nodes {
            neighbors[*node as usize].extend(nodes.iter().filter(|other| *other != node));
        }
    }
    for list in &mut neighbors {
        list.sort_unstable();
        list.dedup();
    }
    let bits: Vec<f64> = sizes.iter().map(|size| (*size as f64).log2()).collect();
    let weight = |node: usize, neighbors: &[u32]| {
        let sum: f64 = neighbors.iter().map(|other| bits[*other as usize]).sum();
        // Ordered as integers, so that equal weights are equal whatever the order of addition.
        ((sum + bits[node]) * 1024.0).round() as u64
    };
    let mut weights: Vec<u64> = (0..sizes.len()).map(|node| weight(node, &neighbors[node])).collect();
    let mut waiting: BinaryHeap<Reverse<(u64, u32)>> =
        weights.iter().enumerate().map(|(node, weight)| Reverse((*weight, node as u32))).collect();
    let mut gone = vec![false; sizes.len()];
    let mut order = Order::default();
    let most = (largest.log2() * 1024.0) as u64;
    while let Some(Reverse((at, node))) = waiting.pop() {
        let index = node as usize;
        if gone[index] || at != weights[index] {
            continue;
        }
        if at > most {
            break;
        }
        gone[index] = true;
        let near = std::mem::take(&mut neighbors[index]);
        for other in &near {
            let list = union_without(&neighbors[*other as usize], &near, [node, *other]);
            weights[*other as usize] = weight(*other as usize, &list);
            neighbors[*other as usize] = list;
            waiting.push(Reverse((weights[*other as usize], *other)));
        }
        order.steps.push(Step { node, neighbors: near });
    }
    order.left = (0..sizes.len() as u32).filter(|node| !gone[*node as usize]).collect();
    order
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

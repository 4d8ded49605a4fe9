//! Exact elimination: the best labels of some nodes while all others keep theirs.
//!
//! Nodes are eliminated one by one; each leaves a table over its neighbors that says what it adds to
//! the cost at best. Where tables would grow too large, a node keeps its label instead.

use smallvec::SmallVec;

use crate::model::Model;
use crate::order::{Order, Step};

/// What stays the same for a model: who is next to whom.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// The factors of each node.
    pub(crate) factors: Vec<Vec<u32>>,
    /// The nodes that share a factor with each node, ascending.
    pub(crate) neighbors: Vec<Vec<u32>>,
}

impl Links {
    pub(crate) fn new(model: &Model) -> Links {
        let mut factors = vec![Vec::new(); model.nodes.len()];
        let mut neighbors = vec![Vec::new(); model.nodes.len()];
        for (index, factor) in model.factors.iter().enumerate() {
            for node in &factor.nodes {
                factors[*node as usize].push(index as u32);
                neighbors[*node as usize].extend(factor.nodes.iter().filter(|other| *other != node));
            }
        }
        for list in &mut neighbors {
            list.sort_unstable();
            list.dedup();
        }
        Links { factors, neighbors }
    }
}

/// The best labels for the nodes of an order; the callback says what the labels of a node cost by
/// themselves. Returns the nodes with their labels.
pub(crate) fn eliminate<'a>(
    model: &'a Model,
    links: &Links,
    order: &'a Order,
    labels: &[u32],
    mut costs: impl FnMut(u32, &mut Vec<f64>),
    scratch: &mut Scratch,
) -> Vec<(u32, u32)> {
    scratch.prepare(model.nodes.len(), order);
    let mut buckets: Vec<Vec<Table<'a>>> = order.steps.iter().map(|_| Vec::new()).collect();
    let mut own = Vec::new();
    let mut best: Vec<Vec<u32>> = Vec::with_capacity(order.steps.len());
    for (index, step) in order.steps.iter().enumerate() {
        own.clear();
        costs(step.node, &mut own);
        for factor in &links.factors[step.node as usize] {
            collect(model, *factor, step.node, labels, scratch, &mut own, &mut buckets[index]);
        }
        let tables = std::mem::take(&mut buckets[index]);
        let (values, choice) = minimize(model, step, &own, &tables, &mut scratch.row);
        best.push(choice);
        if let Some(next) = step.neighbors.iter().map(|node| scratch.turn[*node as usize]).min() {
            buckets[next as usize].push(Table::Made { nodes: &step.neighbors, values });
        }
    }
    let mut chosen: Vec<(u32, u32)> = Vec::with_capacity(order.steps.len());
    for (step, best) in order.steps.iter().zip(&best).rev() {
        let place = step.neighbors.iter().fold(0, |place, node| {
            place * model.nodes[*node as usize].costs.len() + scratch.chosen[*node as usize] as usize
        });
        let label = best[place];
        scratch.chosen[step.node as usize] = label;
        chosen.push((step.node, label));
    }
    scratch.finish(order);
    chosen
}

/// Memory that is used again from call to call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// When each node is eliminated, or `NEVER`.
    turn: Vec<u32>,
    chosen: Vec<u32>,
    row: Vec<f64>,
}

const NEVER: u32 = u32::MAX;

impl Scratch {
    fn prepare(&mut self, nodes: usize, order: &Order) {
        self.turn.resize(nodes, NEVER);
        self.chosen.resize(nodes, 0);
        for (turn, step) in order.steps.iter().enumerate() {
            self.turn[step.node as usize] = turn as u32;
        }
    }

    fn finish(&mut self, order: &Order) {
        order.steps.iter().for_each(|step| self.turn[step.node as usize] = NEVER);
    }
}

/// A table over some nodes, the last changing fastest.
#[derive(Debug)]
enum Table<'a> {
    /// A factor of the model, with the places of nodes that keep their labels folded into an offset.
    Given { values: &'a [f64], offset: usize, axes: SmallVec<[(u32, usize); 3]> },
    /// What an elimination left.
    Made { nodes: &'a [u32], values: Vec<f64> },
}

/// Adds a factor to a step if its node is the first of the factor's to be eliminated.
fn collect<'a>(
    model: &'a Model,
    index: u32,
    node: u32,
    labels: &[u32],
    scratch: &Scratch,
    own: &mut [f64],
    tables: &mut Vec<Table<'a>>,
) {
    let factor = &model.factors[index as usize];
    let turn = scratch.turn[node as usize];
    if factor.nodes.iter().any(|other| scratch.turn[*other as usize] < turn) {
        return;
    }
    let mut axes: SmallVec<[(u32, usize); 3]> = SmallVec::new();
    let (mut offset, mut stride) = (0, 1);
    for other in factor.nodes.iter().rev() {
        if scratch.turn[*other as usize] == NEVER {
            offset += labels[*other as usize] as usize * stride;
        } else {
            axes.push((*other, stride));
        }
        stride *= model.nodes[*other as usize].costs.len();
    }
    axes.reverse();
    if let &[(_, stride)] = &*axes {
        let entries = factor.table[offset..].iter().step_by(stride);
        own.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += entry);
        return;
    }
    tables.push(Table::Given { values: &factor.table, offset, axes });
}

/// A table as one elimination walks over it.
#[derive(Debug)]
struct Walk<'t> {
    values: &'t [f64],
    /// Where the walk is now.
    place: usize,
    /// Steps for the eliminated node's labels, and for those of each neighbor.
    own: usize,
    strides: SmallVec<[usize; 6]>,
}

/// The least cost over the labels of a node, for every combination of its neighbors', and which label
/// that is.
fn minimize(model: &Model, step: &Step, own: &[f64], tables: &[Table<'_>], row: &mut Vec<f64>) -> (Vec<f64>, Vec<u32>) {
    let sizes: SmallVec<[usize; 6]> =
        step.neighbors.iter().map(|node| model.nodes[*node as usize].costs.len()).collect();
    let mut walks: Vec<Walk<'_>> = tables.iter().map(|table| walk(model, step, table)).collect();
    let Some((&width, outer)) = sizes.split_last() else {
        let mut least = (f64::INFINITY, 0);
        for (label, cost) in own.iter().enumerate() {
            if *cost < least.0 {
                least = (*cost, label as u32);
            }
        }
        return (vec![least.0], vec![least.1]);
    };
    let count: usize = sizes.iter().product();
    let (mut values, mut best) = (vec![f64::INFINITY; count], vec![0_u32; count]);
    // Tables that do not have the last neighbor add one number to a whole row.
    let last = outer.len();
    walks.sort_by_key(|walk| walk.strides[last] != 0);
    let flat = walks.partition_point(|walk| walk.strides[last] == 0);
    row.resize(width, 0.0);
    let mut combination: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
    for (values, best) in values.chunks_exact_mut(width).zip(best.chunks_exact_mut(width)) {
        for (label, own) in own.iter().enumerate() {
            let (flat, deep) = walks.split_at(flat);
            let base = flat.iter().fold(*own, |sum, walk| sum + walk.values[walk.place + label * walk.own]);
            if base == f64::INFINITY {
                continue;
            }
            fill_row(row, base, deep, label, last);
            for ((value, best), sum) in values.iter_mut().zip(best.iter_mut()).zip(row.iter()) {
                if *sum < *value {
                    *value = *sum;
                    *best = label as u32;
                }
            }
        }
        advance(&mut walks, &mut combination, outer);
    }
    (values, best)
}

fn fill_row(row: &mut [f64], base: f64, walks: &[Walk<'_>], label: usize, last: usize) {
    let Some((first, rest)) = walks.split_first() else {
        row.fill(base);
        return;
    };
    let entries = |walk: &Walk<'_>| walk.place + label * walk.own;
    match first.strides[last] {
        1 => row.iter_mut().zip(&first.values[entries(first)..]).for_each(|(sum, entry)| *sum = base + entry),
        stride => {
            let values = first.values[entries(first)..].iter().step_by(stride);
            row.iter_mut().zip(values).for_each(|(sum, entry)| *sum = base + entry);
        }
    }
    for walk in rest {
        match walk.strides[last] {
            1 => row.iter_mut().zip(&walk.values[entries(walk)..]).for_each(|(sum, entry)| *sum += entry),
            stride => {
                let values = walk.values[entries(walk)..].iter().step_by(stride);
                row.iter_mut().zip(values).for_each(|(sum, entry)| *sum += entry);
            }
        }
    }
}

fn walk<'t>(model: &Model, step: &Step, table: &'t Table<'_>) -> Walk<'t> {
    let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(0, step.neighbors.len());
    let mut own = 0;
    let mut set = |node: u32, stride: usize| {
        if node == step.node {
            own = stride;
        } else if let Ok(position) = step.neighbors.binary_search(&node) {
            strides[position] = stride;
        }
    };
    let (values, place) = match table {
        Table::Given { values, offset, axes } => {
            axes.iter().for_each(|(node, stride)| set(*node, *stride));
            (&**values, *offset)
        }
        Table::Made { nodes, values } => {
            let mut stride = 1;
            for node in nodes.iter().rev() {
                set(*node, stride);
                stride *= model.nodes[*node as usize].costs.len();
            }
            (&values[..], 0)
        }
    };
    Walk { values, place, own, strides }
}

/// Moves every walk to the next combination of the neighbors before the last.
fn advance(walks: &mut [Walk<'_>], combination: &mut [usize], sizes: &[usize]) {
    for position in (0..sizes.len()).rev() {
        combination[position] += 1;
        if combination[position] < sizes[position] {
            walks.iter_mut().for_each(|walk| walk.place += walk.strides[position]);
            return;
        }
        combination[position] = 0;
        walks.iter_mut().for_each(|walk| walk.place -= walk.strides[position] * (sizes[position] - 1));
    }
}

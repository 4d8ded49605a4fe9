//! Problems like those that training steps give: layers of tensors cut along the axes of a mesh.

#![allow(dead_code, unreachable_pub, reason = "programs that share this file use parts of it")]

pub mod variant;

use std::collections::BTreeMap;
use std::sync::Arc;

use meshwright_solver::Problem;
use meshwright_solver::problem::{Alternative, Cost, Edge, FORBIDDEN, Node, Resource, Use};
use smallvec::{SmallVec, smallvec};

/// What a made-up training step is like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub layers: usize,
    /// How many devices there are along each axis of the mesh.
    pub axes: Vec<u64>,
    /// Whether what is stored must be stored as it was: pairs that differ are forbidden.
    pub binding: bool,
    /// Whether products have one table over both operands and the result.
    pub hyperedges: bool,
    /// The limit, as a multiple of the peak if everything used as little as it can.
    pub room: f64,
    pub seed: u64,
}

/// A step: forward, backward, and the update of every parameter.
pub fn training_step(shape: &Shape) -> Problem {
    let mut step = Step { shape, random: Random(shape.seed), ..Step::new(shape) };
    let mut stored: Vec<(Parameters, Activations)> = Vec::new();
    let mut last = step.tensor(&[BATCH, LENGTH, WIDTH], &[]);
    for _ in 0..shape.layers {
        let parameters = step.parameters();
        let activations = step.forward(last, &parameters);
        last = activations.result;
        stored.push((parameters, activations));
    }
    let mut gradient = step.elementwise(&[last]);
    for (parameters, activations) in stored.iter().rev() {
        gradient = step.backward(gradient, parameters, activations);
    }
    step.finish()
}

/// The limit at so many times the peak of what is used at least.
pub fn set_room(problem: &mut Problem, room: f64) {
    let mut changes: BTreeMap<u64, i128> = BTreeMap::new();
    for node in &problem.nodes {
        let least = node.alternatives.iter().min_by_key(|alternative| {
            let total: u64 = alternative.uses.iter().map(|used| used.amount).sum();
            (alternative.cost == FORBIDDEN, total)
        });
        for used in least.iter().flat_map(|alternative| &alternative.uses) {
            *changes.entry(used.start).or_default() += i128::from(used.amount);
            *changes.entry(used.end).or_default() -= i128::from(used.amount);
        }
    }
    let (mut now, mut peak) = (0, 0);
    for change in changes.values() {
        now += change;
        peak = peak.max(now);
    }
    problem.resources[0].limit = Some((peak as f64 * room) as u64);
}

const BATCH: u64 = 64;
const LENGTH: u64 = 1024;
const WIDTH: u64 = 4096;
const HEADS: u64 = 32;
const INNER: u64 = 4 * WIDTH;

#[derive(Debug)]
struct Parameters {
    norm: u32,
    qkv: [u32; 3],
    out: u32,
    up: u32,
    down: u32,
}

#[derive(Debug)]
struct Activations {
    input: u32,
    normed: u32,
    qkv: [u32; 3],
    scores: u32,
    mixed: u32,
    hidden: u32,
    active: u32,
    result: u32,
}

/// A step while it is written down.
#[derive(Debug)]
struct Step<'a> {
    shape: &'a Shape,
    random: Random,
    tensors: Vec<Tensor>,
    edges: Vec<Edge>,
    /// Tables are shared by pairs of tensors that are alike.
    tables: BTreeMap<Alike, Arc<[Cost]>>,
}

/// The dims of a tensor, those of an op that reads it, and which of the latter each of the former is.
type Alike = (Vec<u64>, Vec<u64>, Vec<Option<usize>>);

#[derive(Clone, Debug)]
struct Tensor {
    dims: Vec<u64>,
    /// Dims that are summed over where it is computed; they follow its own.
    summed: Vec<u64>,
    born: u64,
    dies: u64,
}

impl<'a> Step<'a> {
    fn new(shape: &'a Shape) -> Step<'a> {
        Step { shape, random: Random(0), tensors: Vec::new(), edges: Vec::new(), tables: BTreeMap::new() }
    }

    fn tensor(&mut self, dims: &[u64], summed: &[u64]) -> u32 {
        let born = self.tensors.len() as u64;
        self.tensors.push(Tensor { dims: dims.to_vec(), summed: summed.to_vec(), born, dies: born + 1 });
        self.tensors.len() as u32 - 1
    }

    fn parameters(&mut self) -> Parameters {
        let parameters = Parameters {
            norm: self.tensor(&[WIDTH], &[]),
            qkv: [(); 3].map(|()| self.tensor(&[WIDTH, WIDTH], &[])),
            out: self.tensor(&[WIDTH, WIDTH], &[]),
            up: self.tensor(&[WIDTH, INNER], &[]),
            down: self.tensor(&[INNER, WIDTH], &[]),
        };
        let Parameters { norm, qkv: [query, key, value], out, up, down } = parameters;
        // Parameters are there from the start.
        [norm, query, key, value, out, up, down].iter().for_each(|node| self.tensors[*node as usize].born = 0);
        parameters
    }

    fn forward(&mut self, input: u32, parameters: &Parameters) -> Activations {
        let normed = self.norm(input, parameters.norm);
        let qkv = parameters.qkv.map(|weights| {
            let flat = self.product(normed, weights, [&[0, 1], &[1]]);
            self.heads(flat)
        });
        let scores = self.tensor(&[BATCH, HEADS, LENGTH, LENGTH], &[WIDTH / HEADS]);
        self.read(qkv[0], scores, &[Some(0), Some(2), Some(1), Some(4)]);
        self.read(qkv[1], scores, &[Some(0), Some(3), Some(1), Some(4)]);
        let largest = self.tensor(&[BATCH, HEADS, LENGTH], &[LENGTH]);
        self.read(scores, largest, &[Some(0), Some(1), Some(2), Some(3)]);
        let powers = self.tensor(&[BATCH, HEADS, LENGTH, LENGTH], &[]);
        self.read(scores, powers, &[Some(0), Some(1), Some(2), Some(3)]);
        self.read(largest, powers, &[Some(0), Some(1), Some(2)]);
        let shares = self.elementwise(&[powers]);
        let mixed = self.tensor(&[BATCH, LENGTH, HEADS, WIDTH / HEADS], &[LENGTH]);
        self.read(shares, mixed, &[Some(0), Some(2), Some(1), Some(4)]);
        self.read(qkv[2], mixed, &[Some(0), Some(4), Some(2), Some(3)]);
        let flat = self.tensor(&[BATCH, LENGTH, WIDTH], &[]);
        self.read(mixed, flat, &[Some(0), Some(1), Some(2), None]);
        let projected = self.product(flat, parameters.out, [&[0, 1], &[1]]);
        let sum = self.elementwise(&[input, projected]);
        let normed_again = self.norm(sum, parameters.norm);
        let hidden = self.product(normed_again, parameters.up, [&[0, 1], &[1]]);
        let active = (0..4 + self.random.below(3)).fold(hidden, |value, _| self.elementwise(&[value]));
        let back = self.product(active, parameters.down, [&[0, 1], &[1]]);
        let result = self.elementwise(&[sum, back]);
        Activations { input, normed, qkv, scores: shares, mixed: flat, hidden, active, result }
    }

    fn backward(&mut self, gradient: u32, parameters: &Parameters, kept: &Activations) -> u32 {
        let down = self.weight_gradient(kept.active, gradient, parameters.down);
        let active = self.product_back(gradient, parameters.down);
        let hidden = (0..4).fold(active, |value, _| self.elementwise(&[value, kept.hidden]));
        let up = self.weight_gradient(kept.normed, hidden, parameters.up);
        let back = self.product_back(hidden, parameters.up);
        let sum = self.elementwise(&[back, gradient, kept.input]);
        let out = self.weight_gradient(kept.mixed, sum, parameters.out);
        let flat = self.product_back(sum, parameters.out);
        let mixed = self.heads(flat);
        let scores = self.tensor(&[BATCH, HEADS, LENGTH, LENGTH], &[WIDTH / HEADS]);
        self.read(mixed, scores, &[Some(0), Some(2), Some(1), Some(4)]);
        self.read(kept.qkv[2], scores, &[Some(0), Some(3), Some(1), Some(4)]);
        let scores = self.elementwise(&[scores, kept.scores]);
        let mut sums = vec![sum];
        for (weights, other) in parameters.qkv.iter().zip([kept.qkv[1], kept.qkv[0], mixed]) {
            let part = self.tensor(&[BATCH, LENGTH, HEADS, WIDTH / HEADS], &[LENGTH]);
            self.read(scores, part, &[Some(0), Some(2), Some(1), Some(4)]);
            self.read(other, part, &[Some(0), Some(4), Some(2), Some(3)]);
            let flat = self.tensor(&[BATCH, LENGTH, WIDTH], &[]);
            self.read(part, flat, &[Some(0), Some(1), Some(2), None]);
            let change = self.weight_gradient(kept.normed, flat, *weights);
            self.update(change, *weights);
            sums.push(self.product_back(flat, *weights));
        }
        for (change, weights) in [(down, parameters.down), (up, parameters.up), (out, parameters.out)] {
            self.update(change, weights);
        }
        self.elementwise(&sums)
    }

    /// Scale by a statistic over the last dim, and by a parameter.
    fn norm(&mut self, input: u32, scale: u32) -> u32 {
        let dims = self.tensors[input as usize].dims.clone();
        let (last, rest) = dims.split_last().expect("a tensor with dims");
        let statistic = self.tensor(rest, &[*last]);
        let all: Vec<Option<usize>> = (0..dims.len()).map(Some).collect();
        self.read(input, statistic, &all);
        let normed = self.elementwise(&[input]);
        self.read(statistic, normed, &all[..rest.len()]);
        self.read(scale, normed, &[Some(dims.len() - 1)]);
        normed
    }

    /// A tensor of the same dims, computed from others of these dims.
    fn elementwise(&mut self, inputs: &[u32]) -> u32 {
        let dims = self.tensors[inputs[0] as usize].dims.clone();
        let result = self.tensor(&dims, &[]);
        let same: Vec<Option<usize>> = (0..dims.len()).map(Some).collect();
        inputs.iter().for_each(|input| self.read(*input, result, &same));
        result
    }

    /// The product of `[batch, length, k]` and `[k, n]`.
    fn product(&mut self, left: u32, right: u32, [kept_left, kept_right]: [&[usize]; 2]) -> u32 {
        let dims = |tensor: u32, kept: &[usize]| -> Vec<u64> {
            kept.iter().map(|dim| self.tensors[tensor as usize].dims[*dim]).collect()
        };
        let result: Vec<u64> = [dims(left, kept_left), dims(right, kept_right)].concat();
        let summed = self.tensors[right as usize].dims[0];
        let result = self.tensor(&result, &[summed]);
        self.multiply(left, &[Some(0), Some(1), Some(3)], right, &[Some(3), Some(2)], result);
        result
    }

    /// The product of `[batch, length, n]` and the transpose of `[k, n]`.
    fn product_back(&mut self, gradient: u32, weights: u32) -> u32 {
        let [rows, columns] = self.tensors[weights as usize].dims[..] else { unreachable!("weights have two dims") };
        let result = self.tensor(&[BATCH, LENGTH, rows], &[columns]);
        self.multiply(gradient, &[Some(0), Some(1), Some(3)], weights, &[Some(2), Some(3)], result);
        result
    }

    /// The gradient of weights: a product summed over batch and length.
    fn weight_gradient(&mut self, input: u32, gradient: u32, weights: u32) -> u32 {
        let dims = self.tensors[weights as usize].dims.clone();
        let result = self.tensor(&dims, &[BATCH, LENGTH]);
        self.multiply(input, &[Some(2), Some(3), Some(0)], gradient, &[Some(2), Some(3), Some(1)], result);
        result
    }

    fn multiply(
        &mut self,
        left: u32,
        left_dims: &[Option<usize>],
        right: u32,
        right_dims: &[Option<usize>],
        result: u32,
    ) {
        if !self.shape.hyperedges || self.random.below(4) > 0 {
            self.read(left, result, left_dims);
            self.read(right, result, right_dims);
            return;
        }
        // One table for both, where it is not too large.
        let counts = [left, right, result].map(|node| self.cuts(node).len());
        if counts.iter().product::<usize>() > 50_000 {
            self.read(left, result, left_dims);
            self.read(right, result, right_dims);
            return;
        }
        let (first, second) = (self.table(left, result, left_dims), self.table(right, result, right_dims));
        let mut costs = Vec::with_capacity(counts.iter().product());
        for left in 0..counts[0] {
            for right in 0..counts[1] {
                for result in 0..counts[2] {
                    costs.push(first[left * counts[2] + result] + second[right * counts[2] + result]);
                }
            }
        }
        self.keep_until_now(left);
        self.keep_until_now(right);
        self.edges.push(Edge { nodes: smallvec![left, right, result], costs: costs.into() });
    }

    /// `[batch, length, width]` as heads.
    fn heads(&mut self, flat: u32) -> u32 {
        let result = self.tensor(&[BATCH, LENGTH, HEADS, WIDTH / HEADS], &[]);
        self.read(flat, result, &[Some(0), Some(1), Some(2)]);
        result
    }

    /// New state and new weights; the latter are stored where the old were.
    fn update(&mut self, gradient: u32, weights: u32) {
        let state = self.elementwise(&[gradient]);
        self.tensors[state as usize].born = 0;
        let end = self.tensors.len() as u64 + 1;
        let new = self.elementwise(&[weights, state]);
        let (born, labels) = (self.tensors[new as usize].born, self.cuts(new).len());
        // It takes the place of the old.
        self.tensors[new as usize].dies = born;
        self.tensors[state as usize].dies = end;
        if self.shape.binding {
            let costs = (0..labels * labels).map(|pair| if pair % (labels + 1) == 0 { 0 } else { FORBIDDEN });
            self.edges.push(Edge { nodes: smallvec![weights, new], costs: costs.collect() });
        }
    }

    fn keep_until_now(&mut self, tensor: u32) {
        let now = self.tensors.len() as u64;
        let tensor = &mut self.tensors[tensor as usize];
        tensor.dies = tensor.dies.max(now);
    }

    /// An op reads a tensor: `dims` says which of the op's dims each of the tensor's is.
    fn read(&mut self, tensor: u32, op: u32, dims: &[Option<usize>]) {
        self.keep_until_now(tensor);
        let costs = self.table(tensor, op, dims);
        let varied = self.random.below(5);
        let costs = if varied == 0 { costs.iter().map(|cost| cost + cost / 7).collect() } else { costs };
        self.edges.push(Edge { nodes: smallvec![tensor, op], costs });
    }

    fn table(&mut self, tensor: u32, op: u32, dims: &[Option<usize>]) -> Arc<[Cost]> {
        let (from, to) = (&self.tensors[tensor as usize], &self.tensors[op as usize]);
        let key = ([&from.dims[..], &from.summed].concat(), [&to.dims[..], &to.summed].concat(), dims.to_vec());
        if let Some(table) = self.tables.get(&key) {
            return table.clone();
        }
        let (sources, targets) = (self.cuts(tensor), self.cuts(op));
        let bytes = 2 * from.dims.iter().product::<u64>();
        let mut costs = Vec::new();
        for source in &sources {
            for target in &targets {
                costs.push(self.resharding(bytes, from.dims.len(), source, target, dims));
            }
        }
        let table: Arc<[Cost]> = costs.into();
        self.tables.insert(key, table.clone());
        table
    }

    /// What it takes to bring a tensor from one form into that in which an op reads it.
    fn resharding(&self, bytes: u64, rank: usize, source: &Cut, target: &Cut, dims: &[Option<usize>]) -> Cost {
        let mut bytes = bytes;
        for (axis, size) in self.shape.axes.iter().enumerate() {
            if source[axis].is_some_and(|dim| dim < rank) {
                bytes /= size;
            }
        }
        let mut cost = 0;
        for (axis, size) in self.shape.axes.iter().enumerate() {
            let have = source[axis].filter(|dim| *dim < rank);
            let want = target[axis].and_then(|dim| dims.iter().position(|of_op| *of_op == Some(dim)));
            cost += match (have, want) {
                (Some(have), Some(want)) if have != want => 1000 + bytes / size,
                (Some(_), None) => {
                    bytes *= size;
                    1000 + bytes * (axis as u64 + 1)
                }
                _ => 0,
            };
        }
        (cost / 1000) as Cost
    }

    /// The ways to cut an op along the mesh: the dim that each axis cuts, if any.
    fn cuts(&self, node: u32) -> Vec<Cut> {
        let tensor = &self.tensors[node as usize];
        let dims = [&tensor.dims[..], &tensor.summed].concat();
        let mut cuts: Vec<Cut> = vec![SmallVec::new()];
        for size in &self.shape.axes {
            let ways = std::iter::once(None).chain((0..dims.len()).filter(|dim| dims[*dim] % size == 0).map(Some));
            cuts =
                ways.flat_map(|way| cuts.iter().map(move |cut| cut.iter().copied().chain([way]).collect())).collect();
        }
        cuts
    }

    fn finish(mut self) -> Problem {
        let nodes = (0..self.tensors.len() as u32).map(|node| self.node(node)).collect();
        let resources = vec![Resource { name: "usage".to_owned(), limit: None }];
        let edges = std::mem::take(&mut self.edges);
        let mut problem = Problem { name: "step".to_owned(), resources, nodes, edges };
        set_room(&mut problem, self.shape.room);
        problem
    }

    fn node(&mut self, node: u32) -> Node {
        let tensor = self.tensors[node as usize].clone();
        let bytes = 2 * tensor.dims.iter().product::<u64>();
        let work = bytes * tensor.summed.iter().product::<u64>() / 2_000_000;
        let jitter = 1000 + self.random.below(50);
        let alternative = |cut: &Cut| {
            let (mut amount, mut work, mut partial) = (bytes, work * jitter / 1000, 0);
            for (axis, dim) in cut.iter().enumerate() {
                let size = self.shape.axes[axis];
                work /= if dim.is_some() { size } else { 1 };
                match dim {
                    Some(dim) if *dim < tensor.dims.len() => amount /= size,
                    Some(_) => partial += axis as u64 + 1,
                    None => {}
                }
            }
            let cost = (work + 2 * partial * amount / 1000) as Cost;
            let used = Use { resource: 0, start: tensor.born, end: tensor.dies, amount };
            Alternative { cost, uses: if used.is_empty() { SmallVec::new() } else { smallvec![used] } }
        };
        Node { alternatives: self.cuts(node).iter().map(alternative).collect() }
    }
}

/// For each axis of the mesh, the dim that it cuts.
type Cut = SmallVec<[Option<usize>; 3]>;

/// SplitMix64.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count.max(1)
    }
}

//! A model while it is being reduced.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Determined, KeptSlots, Reduced, Wipeout};
use crate::model::{Factor, Model, Node, View};

/// Nodes and factors keep their numbers; what is gone is `None`. A label whose cost is infinite is
/// gone too and leaves at the next [`Graph::compact`].
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Option<Node>>,
    pub(super) factors: Vec<Option<Factor>>,
    /// May name factors that are gone or that no longer have the node.
    adjacent: Vec<Vec<u32>>,
    /// For each node and label, which label it was at first.
    labels: Vec<Vec<u32>>,
    sizes: Vec<u32>,
    stand_ins: Vec<Vec<u32>>,
    steps: Vec<Determined>,
    /// Nodes whose costs, or a table they are in, changed lately.
    changed: Vec<bool>,
    gathered: Gathered,
    constant: f64,
    limits: Vec<i64>,
}

/// Tables by what they were made of: each with the table it was made from, which must not go while it is
/// known by its address, and the axes as [`Graph::gather`] has them.
type Gathered = FxHashMap<(*const f64, Vec<Vec<usize>>), (Arc<[f64]>, Arc<[f64]>)>;

impl Graph {
    pub(super) fn new(model: Model) -> Graph {
        let sizes: Vec<u32> = model.nodes.iter().map(|node| node.costs.len() as u32).collect();
        let mut graph = Graph {
            adjacent: vec![Vec::new(); model.nodes.len()],
            changed: vec![true; model.nodes.len()],
            labels: sizes.iter().map(|size| (0..*size).collect()).collect(),
            stand_ins: sizes.iter().map(|size| (0..*size).collect()).collect(),
            sizes,
            nodes: model.nodes.into_iter().map(Some).collect(),
            factors: Vec::new(),
            steps: Vec::new(),
            gathered: Gathered::default(),
            constant: model.constant,
            limits: model.limits,
        };
        for factor in model.factors {
            graph.add(factor);
        }
        graph
    }

    /// Nodes, labels and entries: reduction goes on while this falls.
    pub(super) fn size(&self) -> usize {
        let labels: usize = self.nodes.iter().flatten().map(|node| 1 + node.costs.len()).sum();
        labels + self.factors.iter().flatten().map(|factor| factor.table.len()).sum::<usize>()
    }

    pub(super) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes[node as usize].as_ref()
    }

    pub(super) fn label_count(&self, node: u32) -> usize {
        self.node(node).map_or(1, |node| node.costs.len())
    }

    /// The numbers of the factors that have a node, in order.
    pub(super) fn adjacent(&mut self, node: u32) -> SmallVec<[u32; 8]> {
        let Graph { adjacent, factors, .. } = self;
        let list = &mut adjacent[node as usize];
        list.retain(|factor| factors[*factor as usize].as_ref().is_some_and(|factor| factor.nodes.contains(&node)));
        list.iter().copied().collect()
    }

    /// How many factors have a node, at most.
    pub(super) fn degree(&self, node: u32) -> usize {
        self.adjacent[node as usize].len()
    }

    pub(super) fn view(&self, factor: &Factor, position: usize) -> View {
        let product = |nodes: &[u32]| nodes.iter().map(|node| self.label_count(*node)).product();
        let labels = self.label_count(factor.nodes[position]);
        View { outer: product(&factor.nodes[..position]), labels, inner: product(&factor.nodes[position + 1..]) }
    }

    /// The nodes around which something changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        let changed = self.changed.iter_mut().map(std::mem::take).enumerate();
        changed.filter(|(_, changed)| *changed).map(|(node, _)| node as u32).collect()
    }

    /// Adds a factor to the one between the same nodes, or as a new one, or to costs where it has
    /// fewer than two nodes.
    pub(super) fn add(&mut self, factor: Factor) {
        let factor = self.in_order(factor);
        factor.nodes.iter().for_each(|node| self.changed[*node as usize] = true);
        match *factor.nodes {
            [] => self.constant += factor.table.first().copied().unwrap_or(0.0),
            [node] => {
                if let Some(node) = &mut self.nodes[node as usize] {
                    node.costs.iter_mut().zip(&*factor.table).for_each(|(sum, cost)| *sum += cost);
                }
            }
            _ => {
                let fewest = factor.nodes.iter().copied().min_by_key(|node| self.adjacent[*node as usize].len());
                let near = self.adjacent(fewest.unwrap_or(0));
                let same = near.iter().copied().find(|other| {
                    self.factors[*other as usize].as_ref().is_some_and(|other| other.nodes == factor.nodes)
                });
                if let Some(other) = same.and_then(|other| self.factors[other as usize].as_mut()) {
                    other.table = other.table.iter().zip(&*factor.table).map(|(sum, cost)| sum + cost).collect();
                    return;
                }
                for node in &factor.nodes {
                    self.adjacent[*node as usize].push(self.factors.len() as u32);
                }
                self.factors.push(Some(factor));
            }
        }
    }

    /// The same factor with its nodes in ascending order.
    fn in_order(&mut self, factor: Factor) -> Factor {
        if factor.nodes.is_sorted() {
            return factor;
        }
        let strides = self.strides(&factor.nodes);
        let mut order: SmallVec<[usize; 4]> = (0..factor.nodes.len()).collect();
        order.sort_unstable_by_key(|position| factor.nodes[*position]);
        let axes: Vec<Vec<usize>> = order
            .iter()
            .map(|position| {
                let count = self.label_count(factor.nodes[*position]);
                (0..count).map(|label| label * strides[*position]).collect()
            })
            .collect();
        let nodes = order.iter().map(|position| factor.nodes[*position]).collect();
        Factor { nodes, table: self.gather(&factor.table, axes) }
    }

    pub(super) fn strides(&self, nodes: &[u32]) -> SmallVec<[usize; 4]> {
        let mut strides: SmallVec<[usize; 4]> = SmallVec::from_elem(1, nodes.len());
        for position in (1..nodes.len()).rev() {
            strides[position - 1] = strides[position] * self.label_count(nodes[position]);
        }
        strides
    }

    /// A node's label at first, by its label now.
    pub(super) fn first_label(&self, node: u32, label: usize) -> u32 {
        self.labels[node as usize][label]
    }

    /// Takes a label out in favor of another that is as good.
    pub(super) fn stand_in(&mut self, node: u32, label: usize, other: usize) {
        let (first, other) = (self.first_label(node, label), self.first_label(node, other));
        self.stand_ins[node as usize][first as usize] = other;
        if let Some(node) = &mut self.nodes[node as usize] {
            node.costs[label] = f64::INFINITY;
        }
    }

    /// Notes how the label of a node that goes follows from those of others, by their labels now.
    pub(super) fn determine(&mut self, node: u32, parents: &[u32], label_of: impl Fn(&[usize]) -> usize) {
        let sizes: SmallVec<[u32; 2]> = parents.iter().map(|parent| self.sizes[*parent as usize]).collect();
        let mut labels = vec![0; sizes.iter().map(|size| *size as usize).product()];
        let counts: SmallVec<[usize; 2]> = parents.iter().map(|parent| self.label_count(*parent)).collect();
        for_each_combination(&counts, |combination| {
            let place = parents.iter().zip(&sizes).zip(combination).fold(0, |place, ((parent, size), label)| {
                place * *size as usize + self.first_label(*parent, *label) as usize
            });
            labels[place] = self.first_label(node, label_of(combination));
        });
        self.steps.push(Determined { node, parents: parents.into(), sizes, labels });
    }

    /// Takes labels out that are gone, and nodes with a single label.
    pub(super) fn compact(&mut self) -> Result<(), Wipeout> {
        self.gathered.clear();
        let mut kept: Vec<Option<Vec<usize>>> = vec![None; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(node) = node.as_ref().filter(|node| node.costs.contains(&f64::INFINITY)) else { continue };
            let keep: Vec<usize> = (0..node.costs.len()).filter(|label| node.costs[*label] < f64::INFINITY).collect();
            if keep.is_empty() {
                return Err(Wipeout { node: Some(index as u32) });
            }
            kept[index] = Some(keep);
        }
        self.keep_in_factors(&kept);
        for (index, keep) in kept.iter().enumerate() {
            if let Some(keep) = keep {
                self.keep(index, keep);
            }
            if let Some(node) = &mut self.nodes[index] {
                let limits = &mut self.limits;
                node.uses.tidy(|(start, end), amount| {
                    limits[start as usize..end as usize].iter_mut().for_each(|limit| *limit -= amount);
                });
            }
        }
        for index in 0..self.nodes.len() as u32 {
            if self.node(index).is_some_and(|node| node.costs.len() == 1) {
                self.fix(index);
            }
        }
        self.gathered.clear();
        Ok(())
    }

    /// Takes what is not kept out of all tables. Nodes still have all their labels.
    fn keep_in_factors(&mut self, kept: &[Option<Vec<usize>>]) {
        for index in 0..self.factors.len() {
            let Some(factor) = &self.factors[index] else { continue };
            if factor.nodes.iter().all(|node| kept[*node as usize].is_none()) {
                continue;
            }
            factor.nodes.iter().for_each(|node| self.changed[*node as usize] = true);
            let Factor { nodes, table } = factor.clone();
            let strides = self.strides(&nodes);
            let axis = |(node, stride): (&u32, &usize)| match &kept[*node as usize] {
                Some(keep) => keep.iter().map(|label| label * stride).collect(),
                None => (0..self.label_count(*node)).map(|label| label * stride).collect(),
            };
            let axes = nodes.iter().zip(&strides).map(axis).collect();
            self.factors[index] = Some(Factor { nodes, table: self.gather(&table, axes) });
        }
    }

    fn keep(&mut self, index: usize, keep: &[usize]) {
        self.changed[index] = true;
        if let Some(node) = &mut self.nodes[index] {
            node.costs = keep.iter().map(|label| node.costs[*label]).collect();
            node.uses = node.uses.select(keep);
        }
        let labels = &mut self.labels[index];
        *labels = keep.iter().map(|label| labels[*label]).collect();
    }

    /// A table made of entries of another: each axis gives, for each of its labels, what it adds to the
    /// place of the entry. What was made before is used again.
    pub(super) fn gather(&mut self, table: &Arc<[f64]>, axes: Vec<Vec<usize>>) -> Arc<[f64]> {
        let made = self.gathered.entry((table.as_ptr(), axes));
        let made = match made {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => {
                let new = gather(table, &place.key().1).into();
                place.insert((table.clone(), new))
            }
        };
        made.1.clone()
    }

    /// Takes out a node with one label: what it costs and uses is given.
    fn fix(&mut self, index: u32) {
        for factor in self.adjacent(index) {
            if let Some(mut factor) = self.factors[factor as usize].take() {
                factor.nodes.retain(|node| *node != index);
                self.add(factor);
            }
        }
        if let Some(node) = &self.nodes[index as usize] {
            // What it uses has been taken out: all its labels use it alike.
            self.constant += node.costs[0];
        }
        self.determine(index, &[], |_| 0);
        self.nodes[index as usize] = None;
    }

    pub(super) fn finish(self, count: usize) -> (Model, Reduced) {
        let mut numbers = vec![0; self.nodes.len()];
        let mut model = Model { constant: self.constant, limits: self.limits, ..Model::default() };
        let mut reduced = Reduced {
            nodes: Vec::new(),
            labels: Vec::new(),
            steps: self.steps,
            stand_ins: self.stand_ins,
            slots: KeptSlots::default(),
            count,
        };
        for (index, (node, labels)) in self.nodes.into_iter().zip(self.labels).enumerate() {
            let Some(node) = node else { continue };
            numbers[index] = reduced.nodes.len() as u32;
            reduced.nodes.push(index as u32);
            reduced.labels.push(labels);
            model.nodes.push(node);
        }
        for mut factor in self.factors.into_iter().flatten() {
            factor.nodes.iter_mut().for_each(|node| *node = numbers[*node as usize]);
            model.factors.push(factor);
        }
        (model, reduced)
    }
}

/// See [`Graph::gather`].
fn gather(table: &[f64], axes: &[Vec<usize>]) -> Vec<f64> {
    let mut places = vec![0_usize];
    for axis in axes.iter().take(axes.len().saturating_sub(1)) {
        places = places.iter().flat_map(|place| axis.iter().map(move |more| place + more)).collect();
    }
    match axes.last() {
        None => vec![table[0]],
        Some(last) => places.iter().flat_map(|place| last.iter().map(move |more| table[place + more])).collect(),
    }
}

/// Calls back with every combination of labels, the last changing fastest.
pub(super) fn for_each_combination(counts: &[usize], mut each: impl FnMut(&[usize])) {
    if counts.contains(&0) {
        return;
    }
    let mut labels: SmallVec<[usize; 4]> = SmallVec::from_elem(0, counts.len());
    loop {
        each(&labels);
        let Some(position) = (0..counts.len()).rev().find(|position| labels[*position] + 1 < counts[*position]) else {
            return;
        };
        labels[position] += 1;
        labels[position + 1..].fill(0);
    }
}

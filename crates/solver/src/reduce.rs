//! Reduction: an equivalent model with fewer nodes, labels and entries, and the way back.
//!
//! Every step keeps at least one best assignment, whatever the limits are: a label may go only if
//! another costs no more and uses no more.

mod consistency;
mod determine;
mod dominance;
mod graph;
mod merge;
mod separable;
mod times;

use smallvec::SmallVec;

use crate::model::Model;
use graph::Graph;
use times::KeptSlots;

/// What is needed to make assignments of a reduced model those of the original.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    /// For each node of the model, which one it was.
    nodes: Vec<u32>,
    /// For each node and label of the model, which label it was.
    labels: Vec<Vec<u32>>,
    /// Nodes that went, in order of going.
    steps: Vec<Determined>,
    /// For each node and label before reduction, the label that is as good and may have been kept.
    stand_ins: Vec<Vec<u32>>,
    slots: KeptSlots,
    /// How many nodes there were.
    count: usize,
}

/// A node whose label follows from those of others. All numbers are those before reduction.
#[derive(Clone, Debug)]
struct Determined {
    node: u32,
    parents: SmallVec<[u32; 2]>,
    /// How many labels each parent had at first.
    sizes: SmallVec<[u32; 2]>,
    /// The label for every combination of the parents' labels; the last changes fastest.
    labels: Vec<u32>,
}

/// No assignment avoids what is forbidden: this node, if it is one, has no label left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wipeout {
    pub(crate) node: Option<u32>,
}

/// Rounds of reduction go on while each changes the size by more than one part in this many. Where a node
/// that went left a table that is larger, the next round may make it small; nodes only ever go, so rounds end.
const WORTHWHILE: usize = 100;

/// Reduces for as long as it pays.
pub(crate) fn reduce(model: Model) -> Result<(Model, Reduced), Wipeout> {
    let count = model.nodes.len();
    let mut graph = Graph::new(model);
    loop {
        let before = graph.size();
        consistency::enforce(&mut graph)?;
        graph.compact()?;
        separable::absorb(&mut graph);
        merge::merge_bound(&mut graph);
        determine::determine(&mut graph);
        dominance::remove_dominated(&mut graph);
        graph.compact()?;
        if before.abs_diff(graph.size()) <= before / WORTHWHILE {
            break;
        }
    }
    // Message passing relies on every label having support.
    loop {
        let before = graph.size();
        consistency::enforce(&mut graph)?;
        graph.compact()?;
        if graph.size() == before {
            break;
        }
    }
    let (mut model, mut reduced) = graph.finish(count);
    if !model.constant.is_finite() {
        return Err(Wipeout { node: None });
    }
    reduced.slots = times::keep_binding(&mut model);
    Ok((model, reduced))
}

impl Reduced {
    /// The assignment of the original model that an assignment of the reduced one stands for.
    pub(crate) fn expand(&self, assignment: &[u32]) -> Vec<u32> {
        let mut all = vec![0; self.count];
        for ((node, labels), label) in self.nodes.iter().zip(&self.labels).zip(assignment) {
            all[*node as usize] = labels[*label as usize];
        }
        for step in self.steps.iter().rev() {
            let place = step
                .parents
                .iter()
                .zip(&step.sizes)
                .fold(0, |place, (parent, size)| place * *size as usize + all[*parent as usize] as usize);
            all[step.node as usize] = step.labels[place];
        }
        all
    }

    /// The assignment of the reduced model that is as good as one of the original, if that avoids
    /// all labels that were forbidden. Others come out as anything.
    pub(crate) fn restrict(&self, assignment: &[u32]) -> Vec<u32> {
        let label = |(node, labels): (&u32, &Vec<u32>)| {
            let stand_ins = &self.stand_ins[*node as usize];
            let mut label = assignment[*node as usize];
            while stand_ins[label as usize] != label {
                label = stand_ins[label as usize];
            }
            labels.binary_search(&label).unwrap_or(0) as u32
        };
        self.nodes.iter().zip(&self.labels).map(label).collect()
    }

    /// Prices for the slots that are left. What a slot that is gone had goes to the one that speaks for
    /// it, where it bounds at least as much; slots that cannot bind need no price.
    pub(crate) fn carry_prices(&self, prices: &[f64]) -> Vec<f64> {
        let mut carried = vec![0.0; self.slots.slots.len()];
        for (price, heir) in prices.iter().zip(&self.slots.heirs) {
            if let Some(heir) = heir {
                carried[*heir as usize] += price;
            }
        }
        carried
    }

    /// Which slot it was.
    pub(crate) fn first_slot(&self, slot: usize) -> usize {
        self.slots.slots[slot] as usize
    }
}

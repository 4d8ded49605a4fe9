//! From what was chosen to a recipe for the whole program.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::Classes;
use super::buffers::Buffers;
use super::bundle::Bundles;
use super::choices::{Choice, Cut};
use super::graph::{Graph, Origin};
use super::label::Labelled;
use super::lives::Mode;
use super::moves::{Axes, Place};
use super::recipe::{Again, OpRecipe, Recipe};
use super::sketch::Frame;
use crate::program::{Id, OpId, Phase, Program, ValueId};
use crate::shard::{FactorId, Layout, Reduction, Sharding};

/// What the labels of a sketch mean.
pub(super) struct Chosen<'a> {
    pub(super) bundles: &'a Bundles,
    pub(super) classes: &'a Classes,
    pub(super) graph: &'a Graph,
    pub(super) choices: &'a [Vec<Choice>],
    pub(super) labelled: &'a Labelled,
    pub(super) axes: &'a Axes,
}

impl Chosen<'_> {
    fn choice(&self, class: usize) -> &Choice {
        &self.choices[class][self.labelled.labels[class].choice]
    }

    fn place(&self, origin: Origin) -> Place {
        origin.place(self.choice(origin.class()))
    }

    /// The recipe that says the same about the program itself.
    pub(super) fn recipe(&self, base: &Layout<'_>, buffers: &Buffers, frame: &Frame) -> Recipe {
        let program = base.program;
        let mut ops: Vec<OpRecipe> = Vec::new();
        for (number, bundle) in self.bundles.list.iter().enumerate() {
            let choice = self.choice(self.classes.of[number]);
            ops.extend(choice.ops.iter().zip(&bundle.ops).map(|(cut, &op)| self.op_recipe(program, op, cut)));
        }
        ops.sort_by_key(|recipe| recipe.op);
        let argument = |&value: &ValueId| match self.graph.origins[value.index()] {
            Some(origin) => self.sharding(program, value, self.place(origin)),
            None => Sharding::whole(program.shape(value).len()),
        };
        Recipe {
            mesh: frame.mesh.clone(),
            microbatches: frame.microbatches,
            is_eager: frame.is_eager,
            arguments: program.body().arguments.iter().map(argument).collect(),
            ops,
            again: self.again(base, buffers),
            splits: Vec::new(),
            held: Vec::new(),
            staging: None,
        }
    }

    /// How every argument lies where the forward pass reads it, if it does.
    pub(super) fn used(&self, program: &Program) -> Vec<Option<Sharding>> {
        let argument = |&value: &ValueId| {
            let place = self.brought(self.graph.flow_of[value.index()][0]?)?;
            Some(self.sharding(program, value, place))
        };
        program.body().arguments.iter().map(argument).collect()
    }

    fn op_recipe(&self, program: &Program, op: OpId, cut: &Cut) -> OpRecipe {
        let results = program.ops[op].results.iter().enumerate().map(|(index, &value)| {
            let lies = cut.lies[index].finished(self.axes.len());
            let place = self.target(value, cut.made[index]).unwrap_or(lies);
            self.sharding(program, value, place)
        });
        let factors = cut.strategy.factors.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
        let factors = factors.map(|(factor, pieces)| (factor as FactorId, *pieces)).collect();
        OpRecipe { op, factors, results: results.collect() }
    }

    fn sharding(&self, program: &Program, value: ValueId, place: Place) -> Sharding {
        self.axes.sharding(place, program.shape(value).len(), Reduction::Sum)
    }

    /// What is made again, layer by layer: bundles that are, and in their layers all that engines make wherever it is
    /// read instead of writing it to memory, so that they keep nothing else of it.
    fn again(&self, base: &Layout<'_>, buffers: &Buffers) -> Vec<Again> {
        if self.labelled.labels.iter().all(|label| label.mode != Mode::Again) {
            return Vec::new();
        }
        let program = base.program;
        let is_late = |op: OpId| base.anatomy.phase(op) == Phase::Backward;
        let mut groups: BTreeMap<Option<(usize, usize)>, BTreeSet<ValueId>> = BTreeMap::new();
        let layer = |op: OpId| {
            let place = self.bundles.of(op).and_then(|bundle| self.classes.places[bundle]);
            place.map(|place| (place.stretch, place.layer))
        };
        let is_chosen = |op: OpId| {
            let class = self.bundles.of(op).map(|bundle| self.classes.of[bundle]);
            class.is_some_and(|class| self.labelled.labels[class].mode == Mode::Again)
        };
        let is_passing = |op: OpId| {
            let is_heavy = self.bundles.of(op).is_some_and(|bundle| self.bundles.list[bundle].is_heavy);
            !is_heavy && !program.ops[op].results.iter().any(|&result| buffers.is_written(result))
        };
        for &op in program.body().ops.iter().filter(|&&op| is_chosen(op)) {
            groups.entry(layer(op)).or_default();
        }
        for &op in program.body().ops.iter().filter(|&&op| is_late(op)) {
            for value in program.outer_reads(op) {
                let maker =
                    program.producer(value).filter(|&maker| self.bundles.of(maker).is_some() && !is_late(maker));
                let Some(maker) = maker.filter(|&maker| is_chosen(maker) || is_passing(maker)) else { continue };
                if let Some(reads) = groups.get_mut(&layer(maker)) {
                    reads.insert(value);
                }
            }
        }
        let group = |reads: BTreeSet<ValueId>| {
            let mut open: Vec<OpId> = reads.iter().filter_map(|&value| program.producer(value)).collect();
            let mut found: BTreeSet<OpId> = BTreeSet::new();
            while let Some(op) = open.pop() {
                let is_member = is_chosen(op) || is_passing(op);
                if is_member && !program.ops[op].operands.is_empty() && found.insert(op) {
                    open.extend(program.ops[op].operands.iter().filter_map(|&operand| program.producer(operand)));
                }
            }
            Again { ops: found.into_iter().collect(), reads: reads.into_iter().collect() }
        };
        groups.into_values().filter(|reads| !reads.is_empty()).map(group).collect()
    }

    /// Where a value that comes out as parts of sums is brought at once: where most need it.
    fn target(&self, value: ValueId, made: Place) -> Option<Place> {
        if !made.is_partial(self.axes.len()) {
            return None;
        }
        let flow = self.graph.flow_of[value.index()].iter().flatten().next()?;
        // Lowering carries parts of sums on where that is cheaper.
        Some(self.brought(*flow)?.finished(self.axes.len()))
    }

    /// Where a flow is brought: for all its readers, or for the first.
    fn brought(&self, flow: u32) -> Option<Place> {
        self.labelled.copies[flow as usize].or_else(|| {
            let reader = self.graph.flows[flow as usize].readers.first()?;
            Some(reader.place(self.choice(reader.class)))
        })
    }
}

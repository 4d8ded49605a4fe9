//! From what was chosen to a recipe for the whole program.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::{Classes, Together};
use super::choices::{Choice, Cut};
use super::graph::{Graph, Origin};
use super::label::Labelled;
use super::lives::Mode;
use super::moves::{Axes, Place};
use super::recipe::{Again, OpRecipe, Recipe};
use super::sketch::{Frame, Ground};
use crate::program::{Id, OpId, Phase, Program, ValueId};
use crate::shard::{FactorId, Reduction, Sharding};

/// What the labels of a sketch mean.
pub(super) struct Chosen<'a> {
    pub(super) ground: &'a Ground<'a>,
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
    pub(super) fn recipe(&self, frame: &Frame) -> Recipe {
        let Ground { program, bundles, .. } = self.ground;
        let mut ops: Vec<OpRecipe> = Vec::new();
        for (number, bundle) in bundles.list.iter().enumerate() {
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
            again: self.again(),
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

    /// What is made again, layer by layer: bundles that are, and all that engines make wherever it is read instead of writing
    /// it to memory, so that they keep nothing else of it.
    fn again(&self) -> Vec<Again> {
        if self.labelled.labels.iter().all(|label| label.mode != Mode::Again) {
            return Vec::new();
        }
        let Ground { base, bundles, .. } = self.ground;
        let program = base.program;
        let is_late = |op: OpId| base.anatomy.phase(op) == Phase::Backward;
        let together = |op: OpId| bundles.of(op).map(|bundle| self.ground.together(self.classes, bundle, op));
        let mut groups: BTreeMap<Together, (BTreeSet<OpId>, BTreeSet<ValueId>)> = BTreeMap::new();
        for &op in program.body().ops.iter().filter(|&&op| self.is_again(op)) {
            together(op).into_iter().for_each(|together| _ = groups.entry(together).or_default());
        }
        let late = program.body().ops.iter().filter(|&&op| is_late(op));
        let mut open: Vec<ValueId> = late.flat_map(|&op| program.outer_reads(op)).collect();
        while let Some(value) = open.pop() {
            let maker = program.producer(value).filter(|&maker| !is_late(maker) && self.may_make(maker, value));
            let Some(together_with) = maker.and_then(together) else { continue };
            let Some((ops, reads)) = groups.get_mut(&together_with) else { continue };
            if !reads.insert(value) {
                continue;
            }
            let mut makers: Vec<OpId> = maker.into_iter().collect();
            while let Some(op) = makers.pop() {
                if program.ops[op].operands.is_empty() || !ops.insert(op) {
                    continue;
                }
                for &operand in &program.ops[op].operands {
                    let Some(maker) = program.producer(operand).filter(|&maker| self.may_make(maker, operand)) else {
                        continue;
                    };
                    // What others make again is theirs.
                    match self.is_again(maker) && together(maker) != Some(together_with) {
                        true => open.push(operand),
                        false => makers.push(maker),
                    }
                }
            }
        }
        let made = groups.into_values().filter(|(_, reads)| !reads.is_empty());
        made.map(|(ops, reads)| Again { ops: ops.into_iter().collect(), reads: reads.into_iter().collect() }).collect()
    }

    /// Whether an op was chosen to be made again.
    fn is_again(&self, op: OpId) -> bool {
        let class = self.ground.bundles.of(op).map(|bundle| self.classes.of[bundle]);
        class.is_some_and(|class| self.labelled.labels[class].mode == Mode::Again)
    }

    /// Whether what an op makes is made again, or wherever it is read.
    fn may_make(&self, op: OpId, value: ValueId) -> bool {
        let Ground { program, bundles, buffers, .. } = self.ground;
        let is_light = bundles.of(op).is_none_or(|bundle| !bundles.list[bundle].is_heavy);
        let is_again = || self.is_again(op) && !self.ground.is_shared(self.classes, value);
        is_again() || is_light && !program.ops[op].results.iter().any(|&result| buffers.is_written(result))
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

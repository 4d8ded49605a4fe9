//! From what was chosen to a layout of the whole program.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use super::alike::Classes;
use super::bundle::{Bundles, source};
use super::choices::{Choice, Cut};
use super::graph::{Graph, Origin};
use super::label::Labelled;
use super::lives::{Buffers, Mode};
use super::moves::{Axes, Place};
use crate::program::{Group, Id, Op, OpId, Phase, Program, Recomputation, ValueId, recompute};
use crate::shard::{Layout, Mesh, PieceSet, Reduction, Sharding};

/// Everything that a plan decides about a program.
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

    /// The program with what is made again, and the op of the program planned that each of its ops is.
    pub(super) fn rewrite(
        &self,
        planned: &Layout<'_>,
        buffers: &Buffers,
        in_time: bool,
    ) -> (Program, Vec<Option<OpId>>) {
        let (program, anatomy) = (planned.program, &planned.anatomy);
        let is_late = |op: OpId| anatomy.phase(op) == Phase::Backward;
        let groups = self.again_groups(program, buffers, &is_late);
        if groups.is_empty() {
            return (program.clone(), program.ops.ids().map(Some).collect());
        }
        let recomputation = Recomputation { is_late: &is_late, groups, delayed: FxHashSet::default() };
        let (again, first) = recompute(program, recomputation);
        if !in_time {
            return (again, first);
        }
        let (freed, second) = again.free_arguments_with_origins();
        (freed, second.into_iter().map(|op| op.and_then(|op| first[op.index()])).collect())
    }

    /// What is made again, layer by layer: bundles that are, and in their layers all that engines make wherever it is
    /// read instead of writing it to memory, so that they keep nothing else of it.
    fn again_groups(&self, program: &Program, buffers: &Buffers, is_late: &dyn Fn(OpId) -> bool) -> Vec<Group> {
        let mut groups: BTreeMap<Option<(usize, usize)>, Group> = BTreeMap::new();
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
                if let Some(group) = groups.get_mut(&layer(maker)) {
                    group.read.insert(value);
                }
            }
        }
        groups.retain(|_, group| !group.read.is_empty());
        for group in groups.values_mut() {
            let mut open: Vec<OpId> = group.read.iter().filter_map(|&value| program.producer(value)).collect();
            let mut found: BTreeSet<OpId> = BTreeSet::new();
            while let Some(op) = open.pop() {
                let is_member = is_chosen(op) || is_passing(op);
                if is_member && !program.ops[op].operands.is_empty() && found.insert(op) {
                    open.extend(program.ops[op].operands.iter().filter_map(|&operand| program.producer(operand)));
                }
            }
            group.ops = found.into_iter().collect();
        }
        groups.into_values().collect()
    }

    /// Lays the rewritten program out as it was chosen. The mesh may have axes in time behind those of devices; they
    /// cut nothing yet.
    pub(super) fn lay_out<'p>(
        &self,
        planned: &Program,
        program: &'p Program,
        origins: &[Option<OpId>],
        mesh: &Mesh,
    ) -> Layout<'p> {
        let mut layout = Layout::new(program, mesh.clone());
        let mut cuts: Vec<Option<&Cut>> = vec![None; planned.ops.len()];
        for (number, bundle) in self.bundles.list.iter().enumerate() {
            let choice = self.choice(self.classes.of[number]);
            choice.ops.iter().zip(&bundle.ops).for_each(|(cut, op)| cuts[op.index()] = Some(cut));
        }
        for (op, origin) in program.ops.ids().zip(origins) {
            let Some(origin) = *origin else { continue };
            let Some(cut) = cuts[origin.index()] else { continue };
            layout.set_strategy(op, cut.strategy.clone());
            let values = program.ops[op].results.iter().zip(&planned.ops[origin].results);
            for (index, (&value, &old)) in values.enumerate() {
                let place = self.target(old, cut.made[index]).unwrap_or(cut.lies[index]);
                self.set(&mut layout, value, place);
            }
        }
        for (&value, &old) in program.body().arguments.iter().zip(&planned.body().arguments) {
            if let Some(origin) = self.graph.origins[old.index()] {
                self.set(&mut layout, value, self.place(origin));
            }
        }
        for &op in &program.body().ops {
            if program.ops[op].op == Op::OptimizationBarrier {
                for &value in &program.ops[op].results {
                    let lies: Sharding = layout.sharding(source(program, value)).clone();
                    layout.set_sharding(value, &lies);
                }
            }
        }
        layout
    }

    fn set(&self, layout: &mut Layout<'_>, value: ValueId, place: Place) {
        let rank = layout.program.shape(value).len();
        layout.set_sharding(value, &self.axes.sharding(place, rank, Reduction::Sum));
    }

    /// Where a value that comes out as parts of sums is brought at once: where most need it.
    fn target(&self, value: ValueId, made: Place) -> Option<Place> {
        if !made.is_partial(self.axes.len()) {
            return None;
        }
        let flow = self.graph.flow_of[value.index()].iter().flatten().next()?;
        let copy = self.labelled.copies[*flow as usize];
        copy.or_else(|| {
            let reader = self.graph.flows[*flow as usize].readers.first()?;
            Some(reader.place(self.choice(reader.class)))
        })
    }
}

/// Keeps axes of devices where they are, whatever is cut in time from here on.
pub(super) fn freeze(layout: &mut Layout<'_>, pieces: PieceSet) {
    let (values, ops): (Vec<ValueId>, Vec<OpId>) =
        (layout.program.values.ids().collect(), layout.program.ops.ids().collect());
    values.into_iter().for_each(|value| layout.block(value, pieces));
    ops.into_iter().for_each(|op| layout.block_op(op, pieces));
}

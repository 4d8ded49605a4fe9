//! From what was chosen to a layout of the whole program.

use super::alike::Classes;
use super::bundle::{Bundles, source};
use super::choices::Choice;
use super::graph::{Graph, Origin};
use super::label::Labelled;
use super::moves::{Axes, Place};
use crate::program::{Id, OpId, Program, ValueId};
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
        &self.choices[class][self.labelled.chosen[class]]
    }

    fn place(&self, origin: Origin) -> Place {
        origin.place(self.choice(origin.class()))
    }

    /// Lays the program out as it was chosen. The mesh may have axes in time behind those of devices; they cut
    /// nothing yet.
    pub(super) fn lay_out<'p>(&self, program: &'p Program, mesh: &Mesh) -> Layout<'p> {
        let mut layout = Layout::new(program, mesh.clone());
        for (number, bundle) in self.bundles.list.iter().enumerate() {
            let choice = self.choice(self.classes.of[number]);
            for (cut, &op) in choice.ops.iter().zip(&bundle.ops) {
                layout.set_strategy(op, cut.strategy.clone());
                for (index, &value) in program.ops[op].results.iter().enumerate() {
                    let place = self.target(value, cut.made[index]).unwrap_or(cut.lies[index]);
                    self.set(&mut layout, value, place);
                }
            }
        }
        for &value in &program.body().arguments {
            if let Some(origin) = self.graph.origins[value.index()] {
                self.set(&mut layout, value, self.place(origin));
            }
        }
        for &op in &program.body().ops {
            if program.ops[op].op == crate::program::Op::OptimizationBarrier {
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

//! The layers of a model: the smallest parts that stages are made of, found from dataflow.

use super::assign::{Cut, assign, working_ops};
use super::balance::finest;
use super::portable::Portable;
use crate::program::{Anatomy, Id, OpId, Phase, Program, ValueId};

/// A model cut into layers. What of the backward pass and the update belongs to a layer follows its forward pass.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// The first op of every layer but the first.
    pub(crate) starts: Vec<OpId>,
    /// For every op, the layer that it belongs to; none where nobody reads what it makes.
    pub(crate) of: Vec<Option<u32>>,
    /// For every argument, the first layer that reads it.
    pub(crate) arguments: Vec<Option<u32>>,
    /// For every layer but the last, the values that later layers read of it or of earlier ones.
    pub(crate) crossing: Vec<Vec<ValueId>>,
}

impl Layers {
    /// None where no argument is a parameter, or something else keeps the model from being cut.
    pub(crate) fn find(program: &Program, anatomy: &Anatomy) -> Option<Layers> {
        let portable = Portable::find(program, anatomy);
        let ops = working_ops(program, anatomy, &portable, Phase::Forward);
        let starts: Vec<OpId> = finest(program, &portable, &ops).into_iter().map(|place| ops[place]).collect();
        let assignment = assign(program, anatomy, starts.len() + 1, &Cut::Before(&starts)).ok()?;
        let mut of: Vec<Option<u32>> =
            assignment.chunks.iter().map(|chunks| chunks.first().map(|&chunk| chunk as u32)).collect();
        // What stands wherever it is read belongs to who reads it first.
        let mut wanted: Vec<Option<u32>> = vec![None; program.values.len()];
        for &op in program.body().ops.iter().rev() {
            let results = program.ops[op].results.iter();
            let layer = of[op.index()].or_else(|| results.filter_map(|result| wanted[result.index()]).min());
            of[op.index()] = layer;
            let Some(layer) = layer else { continue };
            for value in program.outer_reads(op) {
                let first = wanted[value.index()].get_or_insert(layer);
                *first = layer.min(*first);
            }
        }
        let crossing = crossing(program, &portable, &ops, &of, starts.len());
        let arguments = program.body().arguments.iter().map(|value| wanted[value.index()]).collect();
        Some(Layers { starts, of, arguments, crossing })
    }

    pub(crate) fn count(&self) -> usize {
        self.starts.len() + 1
    }
}

fn crossing(
    program: &Program,
    portable: &Portable,
    ops: &[OpId],
    of: &[Option<u32>],
    cuts: usize,
) -> Vec<Vec<ValueId>> {
    let mut last: Vec<Option<u32>> = vec![None; program.values.len()];
    for &op in ops {
        program.reads(op).iter().for_each(|value| last[value.index()] = of[op.index()]);
    }
    let mut crossing = vec![Vec::new(); cuts];
    for &op in ops {
        let Some(made) = of[op.index()] else { continue };
        for &value in program.ops[op].results.iter().filter(|value| !portable.is_portable(**value)) {
            let until = last[value.index()].unwrap_or(made);
            (made..until).for_each(|cut| crossing[cut as usize].push(value));
        }
    }
    crossing
}

//! What was decided, for people.

use super::label::Labelled;
use super::lives::Mode;
use super::sketch::Sketch;
use crate::program::{OpId, Phase};
use crate::shard::Reduction;

/// What a class of ops alike does.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The ops that share it, bundle by bundle; those of a bundle are alike from bundle to bundle.
    pub bundles: Vec<Vec<OpId>>,
    pub phase: Phase,
    pub keeping: Keeping,
    /// How the last result of a bundle lies, such as `[{device}, {}]`.
    pub lies: String,
    /// Of computing and moving, in all its bundles, as the labelling counts them.
    pub compute_seconds: f64,
    pub inner_seconds: f64,
}

/// What becomes of what the forward pass makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    Kept,
    /// It is made again for the backward pass.
    Recomputed,
    /// The backward pass does not need it.
    Dropped,
}

/// What was decided for every class of a sketch.
pub(super) fn decisions(sketch: &Sketch<'_>, labelled: &Labelled) -> Vec<Decision> {
    let (program, bundles) = (sketch.ground.program, &sketch.ground.bundles);
    let decide = |(class, members): (usize, &Vec<usize>)| {
        let label = labelled.labels[class];
        let choice = &sketch.choices[class][label.choice];
        let (first, count) = (&bundles.list[members[0]], members.len() as f64);
        let last = first.ops.len() - 1;
        let result = program.ops[first.ops[last]].results.first();
        let place = choice.ops[last].made.first();
        let lies = result.zip(place).map(|(&result, &place)| {
            let rank = program.shape(result).len();
            sketch.axes.sharding(place, rank, Reduction::Sum).describe(&sketch.frame.mesh)
        });
        Decision {
            bundles: members.iter().map(|&member| bundles.list[member].ops.clone()).collect(),
            phase: first.phase,
            keeping: match label.mode {
                Mode::Kept => Keeping::Kept,
                Mode::Again => Keeping::Recomputed,
                Mode::Gone => Keeping::Dropped,
            },
            lies: lies.unwrap_or_default(),
            compute_seconds: count * choice.compute_seconds,
            inner_seconds: count * choice.inner_seconds,
        }
    };
    sketch.classes.members.iter().enumerate().map(decide).collect()
}

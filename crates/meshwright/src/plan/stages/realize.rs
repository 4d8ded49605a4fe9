//! From a division to the recipe that says the same about the program itself, and what that comes to.

use super::divide::Stage;
use super::menu::{Menu, StageCost};
use super::order::Order;
use crate::pipeline::{Layers, Pipeline, Pipelined, Staging};
use crate::plan::label::Labelled;
use crate::plan::recipe::{Again, OpRecipe, Recipe};
use crate::plan::sketch::Sketch;
use crate::program::{ArgumentClass, Id, OpId, Program};
use crate::shard::{Layout, Sharding};
use crate::simulate::{Prepared, Runner, Timeline, simulate};

/// A division with what was chosen for each of its chunks.
pub(super) struct Chosen<'m, 'g> {
    pub(super) chunks: Vec<(Stage, StageCost, &'m Menu<'g>)>,
    pub(super) order: Order,
}

/// What stages come to.
#[derive(Debug)]
pub(super) struct Realized {
    pub(super) recipe: Recipe,
    pub(super) pipeline: Pipeline,
    /// Of every chunk.
    pub(super) modules: Vec<String>,
    pub(super) classes: Vec<ArgumentClass>,
    pub(super) timeline: Timeline,
}

impl<'m, 'g> Chosen<'m, 'g> {
    /// The labels that most layers go by, and where they are from.
    pub(super) fn main(&self) -> Option<(&'m Sketch<'g>, &'m Labelled)> {
        let part = |(stage, cost, menu): &(Stage, StageCost, &'m Menu<'g>)| {
            let is_first = 2 * cost.first_count >= stage.layers.len();
            (stage.layers.len(), &*menu.sketch, &menu.ways[cost.ways[usize::from(!is_first)]].labelled)
        };
        let main = self.chunks.iter().map(part).max_by_key(|(count, ..)| *count);
        main.map(|(_, sketch, labelled)| (sketch, labelled))
    }

    /// The recipe for all of the program: every op as the labels of its layer have it.
    pub(super) fn recipe(&self, program: &Program, layers: &Layers) -> Option<Recipe> {
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of: Vec<usize> = vec![0; layers.count()];
        let mut chunk_of: Vec<usize> = vec![0; layers.count()];
        for (number, (stage, cost, menu)) in self.chunks.iter().enumerate() {
            for layer in stage.layers.clone() {
                let way = cost.ways[usize::from(layer - stage.layers.start >= cost.first_count)];
                let key = (std::ptr::from_ref(*menu) as usize, way);
                let known = parts.iter().position(|part| part.key == key);
                part_of[layer] = known.unwrap_or_else(|| {
                    parts.push(Part { key, recipe: menu.sketch.recipe(&menu.ways[way].labelled) });
                    parts.len() - 1
                });
                chunk_of[layer] = number;
            }
        }
        let first = &parts.first()?.recipe;
        let mut recipe = Recipe { ops: Vec::new(), again: Vec::new(), arguments: Vec::new(), ..first.clone() };
        let layer = |op: OpId| layers.of[op.index()].unwrap_or(0) as usize;
        for (number, part) in parts.iter().enumerate() {
            let is_own = |op: &OpId| part_of[layer(*op)] == number;
            recipe.ops.extend(part.recipe.ops.iter().filter(|recipe: &&OpRecipe| is_own(&recipe.op)).cloned());
            for again in &part.recipe.again {
                for stage in 0..self.chunks.len() {
                    let here = |op: &OpId| is_own(op) && chunk_of[layer(*op)] == stage;
                    let ops: Vec<OpId> = again.ops.iter().copied().filter(here).collect();
                    let is_read = |value: &&crate::program::ValueId| {
                        program.producer(**value).is_some_and(|maker| ops.contains(&maker))
                    };
                    let reads: Vec<_> = again.reads.iter().filter(is_read).copied().collect();
                    if !reads.is_empty() {
                        recipe.again.push(Again { ops, reads });
                    }
                }
            }
        }
        recipe.ops.sort_by_key(|recipe| recipe.op);
        recipe.again.sort_by_key(|again| again.ops.first().copied());
        let argument = |index: usize| -> Sharding {
            let layer = layers.arguments[index].unwrap_or(0) as usize;
            parts[part_of[layer]].recipe.arguments[index].clone()
        };
        recipe.arguments = (0..program.arguments.len()).map(argument).collect();
        let starts = self.chunks[1..].iter().map(|(stage, ..)| layers.starts[stage.layers.start - 1]).collect();
        recipe.staging = Some(Staging { schedule: self.order.schedule, chunks: self.order.chunks, starts, lacks: Vec::new() });
        Some(recipe)
    }
}

/// A recipe of labels.
struct Part {
    key: (usize, usize),
    recipe: Recipe,
}

/// Lowers and simulates a recipe with stages.
pub(super) fn realize(
    recipe: Recipe,
    base: &Layout<'_>,
    runner: Runner<'_>,
    price: crate::lower::Price<'_>,
) -> Result<Realized, String> {
    let Pipelined { pipeline, modules, anatomy, .. } = recipe.pipeline_on(base, price)?;
    let classes = anatomy.classes.clone();
    let prepared = Prepared::new(pipeline.clone(), &classes, runner.engine);
    let timeline = simulate(&prepared, runner.cluster, runner.engine);
    Ok(Realized { recipe, pipeline, modules, classes, timeline })
}

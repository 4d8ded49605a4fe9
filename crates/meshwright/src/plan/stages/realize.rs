//! From a division to the recipe that says the same about the program itself, and what that comes to.

use super::divide::Stage;
use super::menu::{Menu, StageCost};
use super::order::Order;
use super::union::{Does, Union};
use crate::pipeline::{Layers, Pipeline, Pipelined, Staging};
use crate::plan::label::Labelled;
use crate::plan::recipe::{Again, OpRecipe, Recipe};
use crate::plan::sketch::Sketch;
use crate::program::{ArgumentClass, Id, OpId, Program, ValueId};
use crate::shard::{Layout, Mesh, Piece, Sharding};
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
        let (parts, part_of, chunk_of) = self.parts(layers);
        let union = self.union(program, layers, &parts, &part_of)?;
        let first = &parts.first()?.recipe;
        let mesh = union.as_ref().map_or(&first.mesh, |union| &union.mesh).clone();
        let mut recipe = Recipe { mesh, ops: Vec::new(), again: Vec::new(), arguments: Vec::new(), ..first.clone() };
        let told =
            |part: &Part| union.as_ref().map_or_else(|| part.recipe.clone(), |all| all.told(part.mesh, &part.recipe));
        let told: Vec<Recipe> = parts.iter().map(told).collect();
        let layer = |op: OpId| layers.of[op.index()].unwrap_or(0) as usize;
        for (number, part) in told.iter().enumerate() {
            let is_own = |op: &OpId| part_of[layer(*op)] == number;
            recipe.ops.extend(part.ops.iter().filter(|recipe: &&OpRecipe| is_own(&recipe.op)).cloned());
            for again in &part.again {
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
            told[part_of[layer]].arguments[index].clone()
        };
        recipe.arguments = (0..program.arguments.len()).map(argument).collect();
        let starts = self.chunks[1..].iter().map(|(stage, ..)| layers.starts[stage.layers.start - 1]).collect();
        let Order { schedule, chunks } = self.order;
        let lacks = union.as_ref().map_or_else(Vec::new, |union| {
            let mesh = |(stage, ..): &(Stage, StageCost, &Menu<'_>)| parts[part_of[stage.layers.start]].mesh;
            self.chunks.iter().map(|chunk| union.lacks(mesh(chunk)).to_vec()).collect()
        });
        recipe.staging = Some(Staging { schedule, chunks, starts, lacks });
        Some(recipe)
    }

    /// The recipes that layers go by, each once, and of every layer which it is and in which chunk it stands.
    fn parts(&self, layers: &Layers) -> (Vec<Part>, Vec<usize>, Vec<usize>) {
        let mut parts: Vec<Part> = Vec::new();
        let mut meshes: Vec<&Mesh> = Vec::new();
        let mut part_of: Vec<usize> = vec![0; layers.count()];
        let mut chunk_of: Vec<usize> = vec![0; layers.count()];
        for (number, (stage, cost, menu)) in self.chunks.iter().enumerate() {
            let own = &menu.sketch.frame.mesh;
            let mesh = meshes.iter().position(|mesh| *mesh == own).unwrap_or_else(|| {
                meshes.push(own);
                meshes.len() - 1
            });
            for layer in stage.layers.clone() {
                let way = cost.ways[usize::from(layer - stage.layers.start >= cost.first_count)];
                let key = (std::ptr::from_ref(*menu) as usize, way);
                let known = parts.iter().position(|part| part.key == key);
                part_of[layer] = known.unwrap_or_else(|| {
                    parts.push(Part { key, mesh, recipe: menu.sketch.recipe(&menu.ways[way].labelled) });
                    parts.len() - 1
                });
                chunk_of[layer] = number;
            }
        }
        (parts, part_of, chunk_of)
    }

    /// One mesh for all stages where they have several, and no other where they have one. The outer `None` says that it
    /// cannot be made.
    fn union(&self, program: &Program, layers: &Layers, parts: &[Part], part_of: &[usize]) -> Option<Option<Union>> {
        let mut meshes: Vec<(&Mesh, Vec<Does>)> = Vec::new();
        for (stage, _, menu) in &self.chunks {
            let part = &parts[part_of[stage.layers.start]];
            if part.mesh == meshes.len() {
                let mesh = &menu.sketch.frame.mesh;
                let ends = [stage.layers.start.checked_sub(1), Some(stage.layers.end - 1)];
                let crossing = ends.into_iter().flatten().filter_map(|cut| layers.crossing.get(cut)).flatten();
                let crossing: Vec<ValueId> = crossing.copied().collect();
                meshes.push((mesh, does(program, mesh, &crossing, &part.recipe)));
            }
        }
        if meshes.len() == 1 { Some(None) } else { Union::new(&meshes).ok().map(Some) }
    }
}

/// What every piece does to values: the dimension that it cuts of the largest that it cuts.
fn does(program: &Program, mesh: &Mesh, values: &[ValueId], recipe: &Recipe) -> Vec<Does> {
    let mut values = values.to_vec();
    values.sort_by_key(|&value| std::cmp::Reverse(program.ty(value).bytes()));
    let lies = |value: &ValueId| {
        let maker = program.producer(*value)?;
        let place = recipe.ops.binary_search_by_key(&maker, |recipe| recipe.op).ok()?;
        let result = program.ops[maker].results.iter().position(|result| result == value)?;
        recipe.ops[place].results.get(result)
    };
    let lies: Vec<&Sharding> = values.iter().filter_map(lies).collect();
    let does = |piece: Piece| lies.iter().find_map(|lies| lies.dims.iter().position(|pieces| pieces.contains(&piece)));
    mesh.all_pieces().map(does).collect()
}

/// A recipe of labels.
struct Part {
    key: (usize, usize),
    /// The number of its mesh.
    mesh: usize,
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

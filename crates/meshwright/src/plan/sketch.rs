//! One mesh, one number of microbatches: what is decided, lowered and simulated for it.

use std::sync::{Arc, Mutex};

use super::alike::{Classes, Together};
use super::buffers::Buffers;
use super::bundle::Bundles;
use super::choices::{Choice, Scene};
use super::costs::Costs;
use super::exposure::Exposure;
use super::fixed::Fixed;
use super::frames::batch;
use super::graph::Graph;
use super::label::{
    Effort, Label, Labelled, Prices, Task, Until, Worth, all_choices, alternatives, label, label_bound, label_for,
    label_free,
};
use super::lives::Lives;
use super::moves::{Axes, MOST_DIMS, Moves, SharedPrices};
use super::parts::Parts;
use super::realize::Chosen;
use super::recipe::{Lowered, Recipe, Rewritten, Split, is_state};
use super::runner_up::Contest;
use super::split::Thick;
use super::time::{MOST_FACTORS, Time};
use super::told::{Rewriting, Told};
use super::work::Work;
use crate::lower::{Haste, LocalProgram};
use crate::pipeline::Layers;
use crate::program::{ArgumentClass, Id, OpId, Phase, Program, ValueId, is_heavy};
use crate::shard::{Layout, Mesh};
use crate::simulate::{Prepared, Runner, Timeline, simulate};
use crate::tactics::Freedom;

/// Programs of no more bundles are planned one by one.
const FEW_BUNDLES: usize = 400;

/// What all sketches of a program share.
pub(super) struct Ground<'g> {
    pub(super) program: &'g Program,
    /// The program on no mesh.
    pub(super) base: Layout<'g>,
    pub(super) costs: Costs<'g>,
    pub(super) work: Work,
    pub(super) bundles: Bundles,
    /// Of bundles in layers that all do the same, where nothing was decided before.
    pub(super) classes: Arc<Classes>,
    pub(super) buffers: Buffers,
    /// What the arguments are for.
    pub(super) arguments: Vec<ArgumentClass>,
    pub(super) told: Option<Told<'g>>,
    pub(super) rewriting: Rewriting,
    /// The smallest parts that dataflow cuts the model into.
    parts: Option<Layers>,
    pub(super) may_recompute: bool,
    /// For every value whether the program gives it back, as no argument's next value, and nobody reads it.
    is_only_given: Vec<bool>,
    /// Prices on meshes, as far as they have been asked for.
    prices: Mutex<Vec<(Mesh, SharedPrices)>>,
}

impl<'g> Ground<'g> {
    /// The program lies on no mesh.
    pub(super) fn new(base: Layout<'g>, costs: Costs<'g>, told: Option<Told<'g>>) -> Result<Ground<'g>, String> {
        let program = base.program;
        if let Some((value, _)) = program.values.iter().find(|(_, value)| value.ty.rank() > MOST_DIMS) {
            return Err(format!("{value} has more than {MOST_DIMS} dimensions, which no plan can be made for"));
        }
        if let Some(&op) = base.ops().iter().find(|&&op| base.rule(op).factors.len() > MOST_FACTORS) {
            return Err(format!("{op} has more than {MOST_FACTORS} factors, which no plan can be made for"));
        }
        let bundles = Bundles::new(&base);
        let buffers = Buffers::new(&base, &bundles, costs.memory_model);
        // Where there is little to decide, layers alike may do different things from the start.
        let runs = if bundles.list.len() <= FEW_BUNDLES { usize::MAX } else { 1 };
        let rewriting = told.map(|told| Rewriting::new(&base, &bundles, told)).transpose()?.unwrap_or_default();
        let classes = Arc::new(Classes::new(&base, &bundles, runs, None, &rewriting));
        let arguments = base.anatomy.classes.clone();
        let may_recompute = told.is_none_or(|told| told.auto.may(Freedom::Remat));
        let is_only_given = only_given(&base);
        let parts = Layers::find(program, &base.anatomy);
        Ok(Ground {
            program,
            base,
            costs,
            work: Work::new(program),
            bundles,
            classes,
            buffers,
            arguments,
            told,
            rewriting,
            parts,
            may_recompute,
            is_only_given,
            prices: Mutex::default(),
        })
    }

    /// What passes between classes.
    fn graph(&self, classes: &Classes, time: &Time, frame: &Frame) -> Graph {
        let mut graph = Graph::new(&self.base, &self.bundles, classes, time, frame);
        if self.costs.worker.is_some_and(|worker| !worker.engine.overlap) {
            // Nor does it have time to wait for others. Where collectives run beside kernels, pricing what products read on
            // the way to a gradient alone was tried, and made as many plans slower as faster.
            for flow in &mut graph.flows {
                flow.is_alone = true;
                flow.is_combined &= self.base.anatomy.is_final_gradient(flow.value);
            }
        }
        graph
    }

    /// What an op of a bundle is made again with.
    pub(super) fn together(&self, classes: &Classes, bundle: usize, op: OpId) -> Together {
        if let Some(scope) = self.rewriting.scope(op) {
            return Together::Scope(scope);
        }
        match (classes.places[bundle], &self.parts) {
            (Some(place), _) => Together::Layer(place.stretch, place.layer),
            (None, Some(parts)) => parts.of[op.index()].map_or(Together::Alone(bundle), Together::Part),
            (None, None) => Together::Alone(bundle),
        }
    }

    /// Whether a value is there anyway, where what makes it is made again: others than the backward pass read it.
    pub(super) fn is_shared(&self, classes: &Classes, value: ValueId) -> bool {
        let together = |op: OpId| self.bundles.of(op).map(|bundle| self.together(classes, bundle, op));
        let own = self.program.producer(value).and_then(together);
        let is_early = |op: &&OpId| self.base.anatomy.phase(**op) != Phase::Backward;
        self.buffers.of(value).iter().filter(is_early).any(|&reader| together(reader) != own)
    }

    /// The prices on a mesh that all its sketches share.
    fn prices(&self, mesh: &Mesh) -> SharedPrices {
        let Ok(mut prices) = self.prices.lock() else { return SharedPrices::default() };
        if let Some((_, known)) = prices.iter().find(|(known, _)| known == mesh) {
            return known.clone();
        }
        prices.push((mesh.clone(), SharedPrices::default()));
        prices[prices.len() - 1].1.clone()
    }
}

fn only_given(base: &Layout<'_>) -> Vec<bool> {
    let (program, body) = (base.program, base.program.body());
    let mut is_only_given = vec![false; program.values.len()];
    for (index, result) in body.results.iter().enumerate() {
        is_only_given[result.index()] = !base.anatomy.next.contains(&Some(index));
    }
    for &op in &body.ops {
        program.outer_reads(op).into_iter().for_each(|value| is_only_given[value.index()] = false);
    }
    is_only_given
}

/// How the devices and the batch are cut, before anything is decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) mesh: Mesh,
    pub(super) microbatches: usize,
    /// Weights are gathered, and gradients reduced, in every trip.
    pub(super) is_eager: bool,
    /// Into how many runs layers alike may be split.
    pub(super) runs: usize,
    /// What takes most at a time runs in slices.
    pub(super) is_sliced: bool,
    /// State lies on the host.
    pub(super) is_held: bool,
    /// Parameters are stored as they are read.
    pub(super) is_stored: bool,
    /// Axes that do not cut what is cut into microbatches, in order.
    pub(super) unbatched: Vec<usize>,
}

impl Frame {
    /// The plainest.
    pub(super) fn new(mesh: Mesh, microbatches: usize) -> Frame {
        Frame {
            mesh,
            microbatches,
            is_eager: false,
            runs: 1,
            is_sliced: false,
            is_held: false,
            is_stored: false,
            unbatched: Vec::new(),
        }
    }
}

/// A frame with all that can be decided in it.
pub(super) struct Sketch<'g> {
    pub(super) ground: &'g Ground<'g>,
    pub(super) frame: Frame,
    pub(super) axes: Axes,
    pub(super) time: Time,
    pub(super) classes: Arc<Classes>,
    pub(super) graph: Graph,
    pub(super) choices: Arc<Vec<Vec<Choice>>>,
    pub(super) lives: Lives,
    pub(super) prices: SharedPrices,
}

/// What was decided, and what comes of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) labelled: Labelled,
    pub(super) recipe: Recipe,
    pub(super) local: LocalProgram,
    pub(super) timeline: Timeline,
    pub(super) peak_bytes: u64,
    pub(super) classes: Vec<ArgumentClass>,
}

impl<'g> Sketch<'g> {
    pub(super) fn new(ground: &'g Ground<'g>, frame: Frame) -> Result<Sketch<'g>, String> {
        let time = Time::new(&ground.base, frame.microbatches)?;
        Sketch::in_time(ground, frame, time)
    }

    /// The same where it is known what is cut into microbatches.
    pub(super) fn in_time(ground: &'g Ground<'g>, frame: Frame, time: Time) -> Result<Sketch<'g>, String> {
        let Ground { base, bundles, costs, .. } = ground;
        let batch = || batch(ground.program, &ground.arguments);
        let fixed = ground.told.map(|told| Fixed::new(base, &frame.mesh, told, batch())).transpose()?;
        let classes = match (frame.runs, &fixed) {
            (1, None) => ground.classes.clone(),
            (runs, fixed) => {
                let runs = if bundles.list.len() <= FEW_BUNDLES { usize::MAX } else { runs };
                Arc::new(Classes::new(base, bundles, runs, fixed.as_ref(), &ground.rewriting))
            }
        };
        let axes = Axes::new(&frame.mesh);
        let time = ground.rewriting.slices.iter().fold(time, |time, slices| time.sliced(slices));
        let graph = ground.graph(&classes, &time, &frame);
        let lives = Lives::new(ground, &time, &classes, &graph, frame.is_held);
        let prices = ground.prices(&frame.mesh);
        let mut sketch = Sketch { ground, frame, axes, time, classes, graph, choices: Arc::default(), lives, prices };
        let mut moves = Moves::new(&sketch.frame.mesh, &sketch.axes, costs.price, &sketch.prices, Haste::Awaited);
        let mut layout = base.on(sketch.frame.mesh.clone());
        if let Some(fixed) = &fixed {
            fixed.block(&mut layout);
        }
        let (parts, work, worker) = (sketch.parts(), &ground.work, costs.worker);
        let is_only_given = &ground.is_only_given;
        let mesh = &sketch.frame.mesh;
        let unbatched = sketch.frame.unbatched.iter().flat_map(|&axis| mesh.pieces(axis)).collect();
        let rewriting = &ground.rewriting;
        let mut scene =
            Scene { layout, parts, work, worker, fixed: fixed.as_ref(), rewriting, is_only_given, unbatched };
        let choices = all_choices(&mut scene, &mut moves, bundles, &sketch.classes);
        drop((scene, moves));
        sketch.choices = Arc::new(choices);
        Ok(sketch)
    }

    /// The same where what takes most at a time runs in slices, some of them of values.
    pub(super) fn sliced(&self, slices: Option<&Arc<Vec<u8>>>) -> Sketch<'g> {
        let Sketch { ground, frame, axes, time, classes, graph, choices, lives, prices } = self;
        let frame = Frame { is_sliced: true, ..frame.clone() };
        let time = slices.map_or_else(|| time.clone(), |slices| time.sliced(slices));
        let (axes, graph, lives) = (axes.clone(), graph.clone(), lives.clone());
        let (classes, choices, prices) = (classes.clone(), choices.clone(), prices.clone());
        Sketch { ground, frame, axes, time, classes, graph, choices, lives, prices }
    }

    /// The same where state lies on the host.
    pub(super) fn held(&self) -> Sketch<'g> {
        let Sketch { ground, frame, axes, time, classes, graph, choices, prices, .. } = self;
        let frame = Frame { is_held: true, ..frame.clone() };
        let lives = Lives::new(ground, time, classes, graph, true);
        let (axes, time, graph) = (axes.clone(), time.clone(), graph.clone());
        let (classes, choices, prices) = (classes.clone(), choices.clone(), prices.clone());
        Sketch { ground, frame, axes, time, classes, graph, choices, lives, prices }
    }

    /// The same where weights are gathered, and gradients reduced, in every trip.
    pub(super) fn made_eager(&self) -> Sketch<'g> {
        self.reframed(Frame { is_eager: true, ..self.frame.clone() })
    }

    /// The same where parameters are stored as they are read, and so gathered once.
    pub(super) fn stored(&self) -> Sketch<'g> {
        self.reframed(Frame { is_eager: false, is_stored: true, ..self.frame.clone() })
    }

    /// The same where values go other ways.
    fn reframed(&self, frame: Frame) -> Sketch<'g> {
        let Sketch { ground, axes, time, classes, choices, prices, .. } = self;
        let graph = ground.graph(classes, time, &frame);
        let lives = Lives::new(ground, time, classes, &graph, frame.is_held);
        let (axes, time) = (axes.clone(), time.clone());
        let (classes, choices, prices) = (classes.clone(), choices.clone(), prices.clone());
        Sketch { ground, frame, axes, time, classes, graph, choices, lives, prices }
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        Parts { program: self.ground.program, axes: &self.axes, time: &self.time }
    }

    /// The cheapest labels under a limit, as far as the labelling knows, perhaps from others on; perhaps none where nothing
    /// is as fast as it must be.
    pub(super) fn label(
        &self,
        limit_bytes: u64,
        exposure: Exposure,
        before: Option<&Labelled>,
        until: Until,
    ) -> Option<Labelled> {
        self.with_task(exposure, |task, moves| label(task, moves, limit_bytes, before, until))
    }

    /// The cheapest labels where there is memory enough.
    pub(super) fn label_free(&self, exposure: Exposure) -> Option<Labelled> {
        self.with_task(exposure, |task, moves| label_free(task, moves, Effort::Little))
    }

    /// The cheapest labels where there is not, from others on.
    pub(super) fn label_bound(
        &self,
        limit_bytes: u64,
        exposure: Exposure,
        before: &Labelled,
        until: Until,
    ) -> Option<Labelled> {
        self.with_task(exposure, |task, moves| label_bound(task, moves, limit_bytes, before, until))
    }

    /// The cheapest labels where memory costs so much, for each of several worths, and what moving values takes of
    /// every flow and in all trips.
    pub(super) fn label_for(&self, exposure: Exposure, worths: &[Worth]) -> Vec<(Labelled, Vec<f64>)> {
        self.with_task(exposure, |task, moves| label_for(task, moves, worths))
    }

    /// What each class could do instead of what was chosen for it, under a limit.
    pub(super) fn alternatives(&self, labelled: &Labelled, limit_bytes: u64) -> Vec<Contest> {
        self.with_task(labelled.exposure, |task, moves| alternatives(task, moves, labelled, limit_bytes))
    }

    fn with_task<R>(&self, exposure: Exposure, act: impl FnOnce(&Task<'_>, &mut Prices<'_>) -> R) -> R {
        let Costs { price, unit, .. } = self.ground.costs;
        let moves = |haste: Haste| Moves::new(&self.frame.mesh, &self.axes, price, &self.prices, haste);
        let mut moves = Prices { awaited: moves(Haste::Awaited), combined: moves(Haste::Combined) };
        let task = Task {
            parts: self.parts(),
            classes: &self.classes,
            graph: &self.graph,
            choices: &self.choices,
            lives: &self.lives,
            exposure,
            may_recompute: self.ground.may_recompute,
            host_seconds_per_byte: self.ground.costs.host_seconds_per_byte,
            unit,
        };
        act(&task, &mut moves)
    }

    fn chosen<'a>(&'a self, labelled: &'a Labelled) -> Chosen<'a> {
        let Sketch { ground, classes, graph, choices, axes, .. } = self;
        Chosen { ground, classes, graph, choices, labelled, axes }
    }

    /// What was decided, told about the program itself.
    pub(super) fn recipe(&self, labelled: &Labelled) -> Recipe {
        let Ground { program, .. } = self.ground;
        let mut recipe = self.chosen(labelled).recipe(&self.frame);
        recipe.splits.clone_from(&self.ground.rewriting.splits);
        if self.frame.is_stored {
            let used = self.chosen(labelled).used(program).into_iter();
            for ((lies, used), class) in recipe.arguments.iter_mut().zip(used).zip(&self.ground.arguments) {
                if let (Some(used), ArgumentClass::Parameter) = (used, class) {
                    *lies = used;
                }
            }
        }
        if self.frame.is_held {
            let anatomy = &self.ground.base.anatomy;
            recipe.held = (0..program.arguments.len()).filter(|&argument| is_state(anatomy, argument)).collect();
        }
        recipe
    }

    /// What lies on the host for each device.
    pub(super) fn held_bytes(&self, labelled: &Labelled) -> u64 {
        let choice = |(class, label): (usize, &Label)| (class, &self.choices[class][label.choice]);
        let labels = labelled.labels.iter().enumerate().map(choice);
        labels.map(|(class, choice)| self.lives.held_bytes(&self.parts(), class, choice)).sum()
    }

    /// Lowers and simulates what was decided.
    pub(super) fn realize(&self, labelled: Labelled, runner: Runner<'_>) -> Result<Outcome, String> {
        let Ground { base, costs, .. } = self.ground;
        let mut recipe = self.recipe(&labelled);
        let mut lowered = recipe.lower_on(base, costs.price)?;
        if self.frame.is_sliced {
            let found = self.splits(&recipe, &lowered.local, lowered.rewritten.as_ref(), labelled.peak_bytes);
            if !found.is_empty() {
                recipe.splits.extend(found);
                lowered = recipe.lower_on(base, costs.price)?;
            }
        }
        Ok(Outcome::new(labelled, recipe, lowered, runner))
    }

    /// The same as what came of labels, in slices; nothing where nothing is worth slices.
    pub(super) fn slice(&self, outcome: &Outcome, runner: Runner<'_>) -> Result<Option<Outcome>, String> {
        let Ground { base, costs, .. } = self.ground;
        let Outcome { labelled, recipe, local, .. } = outcome;
        let found = self.splits(recipe, local, recipe.rewrite(base).as_ref(), labelled.peak_bytes);
        if found.is_empty() {
            return Ok(None);
        }
        let splits = self.ground.rewriting.splits.iter().cloned().chain(found).collect();
        let recipe = Recipe { splits, ..recipe.clone() };
        let lowered = recipe.lower_on(base, costs.price)?;
        Ok(Some(Outcome::new(labelled.clone(), recipe, lowered, runner)))
    }

    /// What else is worth slices, besides what was said to run in them.
    fn splits(
        &self,
        recipe: &Recipe,
        local: &LocalProgram,
        rewritten: Option<&Rewritten>,
        peak_bytes: u64,
    ) -> Vec<Split> {
        let Ground { base, buffers, rewriting, .. } = self.ground;
        let mut splits = Thick { base, recipe, local, rewritten, time: &self.time, buffers }.splits(peak_bytes);
        splits.iter_mut().for_each(|split| split.ops.retain(|&(op, _)| !rewriting.is_split(op)));
        splits.retain(|split| !split.ops.is_empty());
        splits
    }

    /// The same with less state on the host: as much as so many bytes have room for lies on the device.
    pub(super) fn fill(&self, outcome: &Outcome, room_bytes: u64, runner: Runner<'_>) -> Result<Outcome, String> {
        let Outcome { labelled, recipe, local, .. } = outcome;
        let bytes = |argument: usize| local.program.ty(local.program.body().arguments[argument]).bytes() as u64;
        let mut recipe = recipe.clone();
        let mut left_bytes = room_bytes;
        // What is updated first has the least time to be copied.
        recipe.held.retain(|&argument| match left_bytes.checked_sub(bytes(argument)) {
            Some(left) => {
                left_bytes = left;
                false
            }
            None => true,
        });
        let Ground { base, costs, .. } = self.ground;
        let lowered = recipe.lower_on(base, costs.price)?;
        Ok(Outcome::new(labelled.clone(), recipe, lowered, runner))
    }

    /// What products and attention take, each cut in the best way.
    pub(super) fn least_seconds(&self) -> f64 {
        let least = |(members, choices): (&Vec<usize>, &Vec<Choice>)| {
            let is_heavy = is_heavy(&self.ground.program.ops[self.ground.bundles.list[members[0]].ops[0]].op);
            let seconds = choices.iter().map(|choice| choice.compute_seconds).fold(f64::INFINITY, f64::min);
            if is_heavy && seconds.is_finite() { members.len() as f64 * seconds } else { 0.0 }
        };
        self.classes.members.iter().zip(self.choices.iter()).map(least).sum()
    }
}

impl Outcome {
    /// Simulates what was lowered.
    fn new(labelled: Labelled, recipe: Recipe, lowered: Lowered, runner: Runner<'_>) -> Outcome {
        let Lowered { local, classes, .. } = lowered;
        let prepared = Prepared::whole(&local, &classes, runner.engine);
        let timeline = simulate(&prepared, runner.cluster, runner.engine);
        let peak_bytes = timeline.stages.iter().map(|stage| stage.memory.peak_bytes).max().unwrap_or(0) as u64;
        Outcome { labelled, recipe, local, timeline, peak_bytes, classes }
    }
}

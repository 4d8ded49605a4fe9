//! The search for a plan.

use super::alike::Classes;
use super::bundle::Bundles;
use super::choices::{Scene, Worker};
use super::graph::Graph;
use super::label::{Exposure, all_choices, label};
use super::moves::{Axes, Moves};
use super::realize::{Chosen, freeze};
use super::time::{MICROBATCHES, Time};
use crate::cluster::Cluster;
use crate::lower::{LocalProgram, Movement, lower_layout};
use crate::program::Program;
use crate::shard::{Axis, Layout, Mesh, PieceSet};
use crate::simulate::{Engine, Prepared, Runner, Timeline, movement_seconds, simulate};

/// A step laid out, lowered and simulated.
#[derive(Debug)]
pub struct Planned {
    pub local: LocalProgram,
    pub timeline: Timeline,
    pub labelled_seconds: f64,
    pub bound_seconds: f64,
    pub text: String,
}

/// Plans a step on a mesh, in so many microbatches.
pub fn attempt(
    program: &Program,
    cluster: &Cluster,
    engine: &Engine,
    mesh: &Mesh,
    microbatches: usize,
    is_eager: bool,
) -> Result<Planned, String> {
    let runner = Runner { cluster, device: cluster.device(0), engine };
    let price = |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
    let t0 = std::time::Instant::now();
    let axes = Axes::new(mesh);
    let time = Time::new(program, microbatches)?;
    let t1 = std::time::Instant::now();
    let layout = Layout::new(program, mesh.clone());
    let bundles = Bundles::new(&layout);
    let t2 = std::time::Instant::now();
    let classes = Classes::new(&layout, &bundles, 1);
    let t3 = std::time::Instant::now();
    let graph = Graph::new(&layout, &bundles, &classes, &time, is_eager);
    let t4 = std::time::Instant::now();
    let mut moves = Moves::new(mesh, &axes, &price);
    let worker = Some(Worker { device: runner.device, engine });
    let mut scene = Scene::new(layout, &axes, &time, &bundles, worker);
    let choices = all_choices(&mut scene, &mut moves, &bundles, &classes);
    let t5 = std::time::Instant::now();
    let exposure = Exposure { weights: 0.3, gradients: 0.3 };
    let labelled = label(&scene, &mut moves, &classes, &graph, &choices, exposure).ok_or("there is no plan")?;
    let t6 = std::time::Instant::now();
    let mut axis_list = mesh.axes.clone();
    if microbatches > 1 {
        axis_list.push(Axis { name: MICROBATCHES.to_owned(), size: microbatches, temporal: true });
    }
    let full = Mesh::new(axis_list)?;
    let chosen = Chosen { bundles: &bundles, classes: &classes, graph: &graph, choices: &choices, labelled: &labelled, axes: &axes };
    let mut laid_out = chosen.lay_out(program, &full);
    if microbatches > 1 {
        let spatial: PieceSet = full.all_pieces().filter(|&piece| !full.is_temporal(piece)).collect();
        freeze(&mut laid_out, spatial);
        crate::tactics::cut_batch(&mut laid_out, full.axes.len() - 1)?;
        if is_eager {
            laid_out.eager = spatial;
        }
    }
    let t7 = std::time::Instant::now();
    let (_, local) = lower_layout(&laid_out, &price)?;
    let t8 = std::time::Instant::now();
    let prepared = Prepared::whole(local.clone(), &laid_out.anatomy.classes, engine);
    let timeline = simulate(&prepared, cluster, engine);
    let t9 = std::time::Instant::now();
    let mut text = String::new();
    for (class, members) in classes.members.iter().enumerate() {
        let choice = &choices[class][labelled.chosen[class]];
        let op = bundles.list[members[0]].ops[0];
        let last = bundles.list[members[0]].ops.len() - 1;
        let lop = bundles.list[members[0]].ops[last];
        let r = program.ops[lop].results[0];
        let lies = choice.ops[last].made.first().map(|&p| axes.sharding(p, program.shape(r).len(), Default::default()).describe(mesh)).unwrap_or_default();
        text += &format!(
            "{:>3}x {:?} {} {} ops={} choices={} {:.2}ms+{:.2}ms {} {}\n",
            members.len(), bundles.list[members[0]].phase, program.ops[op].op.name(),
            program.locations[program.ops[op].location].scope, bundles.list[members[0]].ops.len(), choices[class].len(),
            1e3 * choice.compute_seconds, 1e3 * choice.inner_seconds, program.ty(r), lies
        );
    }
    text += &format!("classes {} flows {} bundles {}\n", classes.members.len(), graph.flows.len(), bundles.list.len());
    text += &format!(
        "time {:?} bundles {:?} classes {:?} graph {:?} choices {:?} solve {:?} layout {:?} lower {:?} simulate {:?}",
        t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4, t6 - t5, t7 - t6, t8 - t7, t9 - t8
    );
    Ok(Planned { local, timeline, labelled_seconds: labelled.seconds, bound_seconds: labelled.lower_bound_seconds, text })
}

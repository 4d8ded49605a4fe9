//! From a setup to a prediction, through the real tactics, lowering and simulator.

use std::borrow::Cow;

use super::setup::{Degrees, Recompute, Setup, Sharding};
use crate::lower::estimate;
use crate::pipeline::only_pipeline;
use crate::shard::Mesh;
use crate::simulate::{Prepared, Timeline, simulate};
use crate::tactics::{TacticError, only_local, parse};

/// What is predicted of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub seconds: f64,
    /// On the device that needs most.
    pub peak_bytes: f64,
    pub fits: bool,
}

/// Lays a model out as its setup says, and gives what is recomputed. Setups with the same [`key`] have the same
/// outcome.
///
/// Where a run does not say what it recomputed, it is as little as fits: that is what its people would have done.
/// Measured times have no part in the choice.
pub fn prepare(setup: &Setup) -> Result<(Prepared, Recompute), String> {
    if setup.recompute != Recompute::Unsaid {
        return Ok((lay_out(setup)?, setup.recompute));
    }
    let try_out = |quarters: usize| {
        let recompute = if quarters == 0 { Recompute::None } else { Recompute::Quarters(quarters) };
        let prepared = lay_out(&Setup { recompute, ..setup.clone() })?;
        let fits = predict(setup, &prepared).0.fits;
        Ok::<_, String>((fits, (prepared, recompute)))
    };
    let (fits, none) = try_out(0)?;
    if fits {
        return Ok(none);
    }
    let (fits, half) = try_out(2)?;
    let (fits_too, other) = try_out(if fits { 1 } else { 3 })?;
    match (fits, fits_too) {
        (true, false) => Ok(half),
        (_, true) => Ok(other),
        (false, false) => Ok(try_out(4)?.1),
    }
}

fn lay_out(setup: &Setup) -> Result<Prepared, String> {
    let Degrees { context, model, stages, microbatches, .. } = setup.degrees;
    let data = data_width(setup);
    let mut built = setup.model.clone();
    let batch = data * setup.degrees.micro_batch * microbatches;
    built.set("batch", &batch.to_string())?;
    let program = built.build()?;
    // State is cut evenly: by as many devices as divide the width of the model.
    let shard = shard_width(setup);
    let axes = [("data", data / shard), ("shard", shard), ("context", context), ("model", model)];
    let spatial: Vec<String> =
        axes.iter().filter(|(_, size)| *size > 1).map(|(name, size)| format!("{name}={size}")).collect();
    let mut mesh = spatial.join(",");
    if mesh.is_empty() {
        mesh = "data=1".to_owned();
    }
    if microbatches > 1 {
        mesh += &format!(",micro={microbatches}@time");
    }
    let mesh = Mesh::parse(&mesh)?;
    let tactics = parse(&tactics_of(setup)).map_err(|error| error.message)?;
    let fail = |error: TacticError| format!("{}: {}", error.tactic, error.message);
    Ok(if stages > 1 {
        let (pipeline, anatomy) = only_pipeline(&program, &mesh, &tactics, &estimate).map_err(fail)?;
        Prepared::new(pipeline, &anatomy.classes, &setup.engine)
    } else {
        let (local, anatomy) = only_local(&program, &mesh, &tactics, &estimate).map_err(fail)?;
        Prepared::whole(&local, &anatomy.classes, &setup.engine)
    })
}

/// What was prepared for two replicas, for as many as a setup has.
fn widened<'p>(setup: &Setup, prepared: &'p Prepared) -> Cow<'p, Prepared> {
    let (replicas, stand_in) = (setup.degrees.data, data_width(setup));
    if replicas == stand_in {
        return Cow::Borrowed(prepared);
    }
    let mut wide = prepared.clone();
    wide.widen(setup.degrees.context * setup.degrees.model, stand_in, replicas);
    Cow::Owned(wide)
}

/// What setups must have in common to be laid out alike.
pub fn key(setup: &Setup) -> String {
    let Degrees { context, model, stages, chunks, microbatches, micro_batch, .. } = setup.degrees;
    let mut settings = setup.model.settings.clone();
    settings.batch = 0;
    // What fits decides what is recomputed where nobody says.
    let memory = if setup.recompute == Recompute::Unsaid { setup.cluster.memory_bytes() } else { 0 };
    format!(
        "{:?} {settings:?} {} {context} {model} {stages} {chunks} {microbatches} {micro_batch} {:?} {:?} {memory} {} {:?}",
        setup.model.family,
        setup.degrees.data,
        setup.sharding,
        setup.recompute,
        setup.engine.name,
        setup.engine.memory_model,
    )
}

/// Where replicas do the same, two stand for all.
fn data_width(setup: &Setup) -> usize {
    match setup.sharding {
        Sharding::Whole => setup.degrees.data.min(2),
        Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 => setup.degrees.data,
    }
}

/// How many parts the state of training is cut into.
fn shard_width(setup: &Setup) -> usize {
    match setup.sharding {
        Sharding::Whole => 1,
        Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 => {
            let hidden = setup.model.settings.hidden;
            let divides = |parts: &usize| setup.degrees.data.is_multiple_of(*parts) && hidden.is_multiple_of(*parts);
            (1..=setup.degrees.data).rev().find(divides).unwrap_or(1)
        }
    }
}

pub fn predict(setup: &Setup, prepared: &Prepared) -> (Prediction, Timeline) {
    let timeline = simulate(&widened(setup, prepared), &setup.cluster, &setup.engine);
    let peak_bytes = timeline.stages.iter().map(|stage| stage.memory.peak_bytes).max().unwrap_or(0);
    let fits = peak_bytes <= setup.cluster.memory_bytes();
    (Prediction { seconds: timeline.step_seconds, peak_bytes: peak_bytes as f64, fits }, timeline)
}

/// The tactics of a setup, as a user would write them.
fn tactics_of(setup: &Setup) -> String {
    let Degrees { data, context, model, .. } = setup.degrees;
    let mut text = String::new();
    let mut tactic = |lines: &str| text += &format!("[[tactic]]\n{lines}\n");
    let shard = shard_width(setup);
    if data_width(setup) > shard || data == 1 && context == 1 && model == 1 {
        tactic("axis = 'data'\npreset = 'data'");
    }
    if shard > 1 {
        tactic("axis = 'shard'\npreset = 'data'");
    }
    if context > 1 {
        tactic("axis = 'context'\npreset = 'sequence'");
    }
    if model > 1 {
        tactic("axis = 'model'\npreset = 'megatron'");
        if setup.engine.sequence_parallel {
            tactic("axis = 'model'\npreset = 'sequence'");
        }
        tactic("axis = 'model'\npreset = 'vocab'");
    }
    if shard > 1 {
        match setup.sharding {
            Sharding::Whole => {}
            // The weights that are updated lie in parts; a copy in 16 bits is gathered once.
            Sharding::Zero1 => tactic("axis = 'shard'\ntile = { 'params.**' = 'first' }"),
            Sharding::Zero2 => tactic("axis = 'shard'\npreset = 'zero2'"),
            Sharding::Zero3 => tactic("axis = 'shard'\npreset = 'zero3'"),
        }
    }
    if context > 1 {
        // Devices that share sequences share state, too.
        match setup.sharding {
            Sharding::Whole => {}
            Sharding::Zero1 => tactic("axis = 'context'\ntile = { 'params.**' = 'first' }"),
            Sharding::Zero2 => tactic("axis = 'context'\npreset = 'zero2'"),
            Sharding::Zero3 => tactic("axis = 'context'\npreset = 'zero3'"),
        }
    }
    if setup.degrees.microbatches > 1 {
        tactic("axis = 'micro'\npreset = 'data'");
    }
    if setup.recompute == Recompute::Attention && !setup.engine.fused_attention {
        tactic("remat = ['**/attn/attention']");
    }
    if let Recompute::Quarters(quarters) = setup.recompute {
        let layers = recomputed_layers(setup, quarters);
        if !layers.is_empty() {
            tactic(&format!("remat = [{}]", layers.join(", ")));
        }
    }
    if setup.degrees.stages > 1 {
        tactic(&stages_of(setup));
    }
    text
}

/// Of every four layers of a stage so many, as scopes.
fn recomputed_layers(setup: &Setup, quarters: usize) -> Vec<String> {
    let Degrees { stages, chunks, .. } = setup.degrees;
    let layers = setup.model.settings.layers;
    let mut before = vec![0; stages];
    let mut scopes = Vec::new();
    for layer in 0..layers {
        let before = &mut before[layer * stages * chunks / layers % stages];
        if (*before + 1) * quarters / 4 > *before * quarters / 4 {
            scopes.push(format!("'layers.{layer}'"));
        }
        *before += 1;
    }
    scopes
}

/// Layers are spread evenly where they can be, as Megatron wants them; else what they cost is.
fn stages_of(setup: &Setup) -> String {
    let Degrees { stages, chunks, .. } = setup.degrees;
    let (layers, parts) = (setup.model.settings.layers, stages * chunks);
    let schedule = if chunks > 1 { "interleaved" } else { "1f1b" };
    let cut = if layers.is_multiple_of(parts) {
        let each = layers / parts;
        let scopes = |part: usize| {
            let names: Vec<String> =
                (part * each..(part + 1) * each).map(|layer| format!("'layers.{layer}/**'")).collect();
            format!("[{}]", names.join(", "))
        };
        let parts: Vec<String> = (0..parts).map(scopes).collect();
        format!("[{}]", parts.join(", "))
    } else {
        stages.to_string()
    };
    format!("stages = {cut}\nschedule = '{schedule}'\nchunks = {chunks}")
}

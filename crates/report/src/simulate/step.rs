//! A step laid out for devices, and what becomes of it on a cluster.

use meshwright::cluster::Cluster;
use meshwright::program::{Anatomy, ArgumentClass, DTypeKind, Program};
use meshwright::simulate::{
    Engine, ModelFlops, Prepared, StageMemory, StageTimeline, Timeline, model_flops, peak_flops_per_second, simulate,
};
use meshwright::tactics::Feedback;

use crate::table::{count, counted};

/// A model laid out by tactics.
#[derive(Debug)]
pub struct Step {
    pub prepared: Prepared,
    /// Of every chunk, the modules of its forward pass; none where the model is not cut into stages.
    pub modules: Vec<String>,
    /// What tactics asked for and could not be.
    pub notes: Vec<String>,
    pub flops: ModelFlops,
    pub batch: Option<Batch>,
}

/// What a step goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub samples: usize,
    /// Where samples are rows of tokens.
    pub tokens: Option<usize>,
}

impl Step {
    pub fn of(prepared: Prepared, program: &Program, anatomy: &Anatomy, feedback: &[Feedback]) -> Step {
        let note = |feedback: &Feedback| {
            let tactic = feedback.tactic.clone();
            feedback.notes.iter().map(move |note| format!("{tactic}: {note}")).collect::<Vec<_>>()
        };
        Step {
            prepared,
            modules: Vec::new(),
            notes: feedback.iter().flat_map(note).collect(),
            flops: model_flops(program, anatomy),
            batch: batch(program, anatomy),
        }
    }

    /// The modules of the chunks of a stage.
    pub fn modules_of(&self, stage: usize) -> Vec<&str> {
        let stages = self.prepared.pipeline.stages.len();
        self.modules.iter().skip(stage).step_by(stages).map(String::as_str).collect()
    }
}

/// The first input that is a matrix of integers is rows of tokens; else the first input says how many samples
/// there are.
fn batch(program: &Program, anatomy: &Anatomy) -> Option<Batch> {
    let inputs = program.body().arguments.iter().zip(&anatomy.classes);
    let shapes = inputs.filter(|(_, class)| **class == ArgumentClass::Input).map(|(&value, _)| program.ty(value));
    let shapes: Vec<_> = shapes.filter(|ty| !ty.shape.is_empty()).collect();
    let is_integer = |kind: DTypeKind| matches!(kind, DTypeKind::Signed | DTypeKind::Unsigned);
    let tokens = shapes.iter().find(|ty| ty.shape.len() == 2 && is_integer(ty.dtype.kind()));
    let first = tokens.or_else(|| shapes.first())?;
    Some(Batch { samples: first.shape[0], tokens: tokens.map(|ty| ty.elements()) })
}

/// What is wrong with a step of so many devices on a cluster and what could be done, or else what there is to say.
pub fn check_devices(devices: usize, cluster: &Cluster) -> Result<Option<String>, (String, String)> {
    let there = cluster.devices();
    if devices <= there {
        let is_part = devices < there;
        return Ok(is_part.then(|| format!("{} of {} are used", count(devices), counted(there, "device"))));
    }
    let message = format!("the mesh has {}, `{}` has {}", counted(devices, "device"), cluster.name, count(there));
    let hint = match &cluster.nodes[..] {
        [nodes] => {
            let name = &nodes.device.name;
            let larger = match (devices.div_ceil(nodes.devices), nodes.devices) {
                (1, _) => format!("{devices}x{name}"),
                (count, each) => format!("{count}x{each}x{name}"),
            };
            format!("a cluster such as `--cluster {larger}` has as many, or give a smaller `--mesh`")
        }
        _ => "give a smaller `--mesh`, or a larger cluster".to_owned(),
    };
    Err((message, hint))
}

/// A step in time.
#[derive(Debug)]
pub struct Simulation<'s> {
    pub cluster: &'s Cluster,
    pub engine: &'s Engine,
    pub timeline: Timeline,
    /// The share of what devices could compute that the model needs, and that they compute.
    pub mfu: f64,
    pub hfu: f64,
    batch: Option<Batch>,
    /// Of each stage, what its devices have.
    limits: Vec<usize>,
}

impl<'s> Simulation<'s> {
    pub fn new(step: &Step, cluster: &'s Cluster, engine: &'s Engine) -> Simulation<'s> {
        let timeline = simulate(&step.prepared, cluster, engine);
        let pipeline = &step.prepared.pipeline;
        let rate = peak_flops_per_second(cluster, engine, step.flops.dtype, pipeline.devices());
        let possible = rate * timeline.step_seconds;
        let share = |flops: f64| if possible > 0.0 { flops / possible } else { 0.0 };
        let (mfu, hfu) = (share(step.flops.flops), share(timeline.flops));
        let limit = |stage: usize| {
            pipeline.devices_of(stage).map(|device| cluster.device(device).memory_bytes).min().unwrap_or(0)
        };
        let limits = (0..pipeline.stages.len()).map(limit).collect();
        Simulation { cluster, engine, timeline, mfu, hfu, batch: step.batch, limits }
    }

    pub fn stages(&self) -> &[StageTimeline] {
        &self.timeline.stages
    }

    pub fn limit(&self, stage: usize) -> usize {
        self.limits[stage]
    }

    /// The stage that has least left of its memory.
    pub fn fullest(&self) -> usize {
        let left = |stage: &usize| self.limits[*stage] as i128 - self.stages()[*stage].memory.peak_bytes as i128;
        (0..self.stages().len()).min_by_key(left).unwrap_or(0)
    }

    pub fn memory(&self) -> &StageMemory {
        &self.stages()[self.fullest()].memory
    }

    pub fn memory_limit(&self) -> usize {
        self.limits[self.fullest()]
    }

    pub fn fits(&self) -> bool {
        self.memory().peak_bytes <= self.memory_limit()
    }

    /// What goes through in a second, and what it is.
    pub fn throughput(&self) -> Option<(f64, &'static str)> {
        let (number, unit) = match self.batch? {
            Batch { tokens: Some(tokens), .. } => (tokens, "tokens"),
            Batch { samples, .. } => (samples, "samples"),
        };
        Some((number as f64 / self.timeline.step_seconds, unit))
    }

    /// Where the time of a step goes, over all stages: shares of a whole.
    pub fn time(&self) -> [(&'static str, f64); 4] {
        let mean = |seconds: fn(&StageTimeline) -> f64| {
            self.stages().iter().map(seconds).sum::<f64>() / self.stages().len().max(1) as f64
        };
        [
            ("compute", mean(|stage| stage.compute_seconds)),
            ("exposed communication", mean(|stage| stage.exposed_seconds)),
            ("bubble", mean(|stage| stage.bubble_seconds)),
            ("host", mean(|stage| stage.host_seconds)),
        ]
    }
}

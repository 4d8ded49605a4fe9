//! Alpa's ladders (Zheng and others, 2022, section 8 and appendix): models and devices of its evaluation, the plans it
//! published, and the grid that users of Megatron choose from, with stages.

use std::sync::atomic::{AtomicUsize, Ordering};

use meshwright::cluster::{Cluster, parse, parse_file};
use meshwright::lower::estimate;
use meshwright::pipeline::only_pipeline;
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::simulate::{Prepared, simulate};
use meshwright::tactics::parse as parse_tactics;

use super::grid::{Choice, REMATS, STATES, Setting};

/// A model on devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    pub(crate) model: &'static str,
    pub(crate) nodes: usize,
    /// In each node.
    pub(crate) devices: usize,
    pub(crate) published: Option<Published>,
    /// What was measured, of products of the model in 10^15 a second on all devices.
    pub(crate) measured: Option<f64>,
}

/// A plan with stages alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) stages: usize,
    pub(crate) data: usize,
    pub(crate) tensor: usize,
    pub(crate) microbatches: usize,
    pub(crate) has_experts: bool,
}

const fn published(stages: usize, data: usize, tensor: usize, microbatches: usize) -> Option<Published> {
    Some(Published { stages, data, tensor, microbatches, has_experts: false })
}

const fn experts(stages: usize, data: usize, microbatches: usize) -> Option<Published> {
    Some(Published { stages, data, tensor: 1, microbatches, has_experts: true })
}

/// Of the published plan of GPT 2.6B the stages have two, two and four devices, which is no grid.
#[rustfmt::skip] // One row a rung.
pub(crate) const RUNGS: &[Rung] = &[
    Rung { model: "gpt-350m", nodes: 1, devices: 1, published: None, measured: None },
    Rung { model: "gpt-1.3b", nodes: 1, devices: 4, published: None, measured: None },
    Rung { model: "gpt-2.6b", nodes: 1, devices: 8, published: None, measured: None },
    Rung { model: "gpt-6.7b", nodes: 2, devices: 8, published: published(2, 2, 4, 64), measured: None },
    Rung { model: "gpt-15b", nodes: 4, devices: 8, published: published(4, 2, 4, 128), measured: None },
    Rung { model: "gpt-39b", nodes: 8, devices: 8, published: published(16, 1, 4, 1024), measured: Some(3.62) },
    Rung { model: "moe-380m", nodes: 1, devices: 1, published: None, measured: None },
    Rung { model: "moe-1.3b", nodes: 1, devices: 4, published: None, measured: None },
    Rung { model: "moe-2.4b", nodes: 1, devices: 8, published: None, measured: None },
    Rung { model: "moe-10b", nodes: 2, devices: 8, published: experts(2, 8, 16), measured: None },
    Rung { model: "moe-27b", nodes: 4, devices: 8, published: experts(8, 4, 128), measured: None },
    Rung { model: "moe-70b", nodes: 8, devices: 8, published: experts(8, 8, 64), measured: Some(2.32) },
    Rung { model: "wresnet-250m", nodes: 1, devices: 1, published: None, measured: None },
    Rung { model: "wresnet-1b", nodes: 1, devices: 4, published: None, measured: None },
    Rung { model: "wresnet-2b", nodes: 1, devices: 8, published: None, measured: None },
    Rung { model: "wresnet-4b", nodes: 2, devices: 8, published: None, measured: None },
    Rung { model: "wresnet-6.8b", nodes: 4, devices: 8, published: None, measured: None },
    Rung { model: "wresnet-13b", nodes: 8, devices: 8, published: None, measured: Some(0.337) },
];

impl Rung {
    /// Alpa accumulates gradients of microbatches, each of which has norms of its own; how many there were for
    /// Wide-ResNet is not published. Groups of as many examples as this leave as many as plans need.
    pub(crate) fn settings(&self) -> &'static [&'static str] {
        if self.model.starts_with("wresnet") { &["norm_group=8"] } else { &[] }
    }

    /// Nodes of AWS p3.16xlarge, whose eight devices share one adapter of 25 Gbit/s.
    pub(crate) fn cluster(&self) -> Result<Cluster, String> {
        let Rung { nodes, devices, .. } = self;
        if *nodes == 1 {
            return parse(&format!("{devices}xv100-16g")).map_err(|error| error.message);
        }
        let text = format!(
            "name = \"{nodes}x{devices}xp3\"\nbase = \"{nodes}x{devices}xv100-16g\"\nadapters = 1\n\n[network]\nbase = \"ethernet-25\"\n"
        );
        parse_file(&text).map_err(|error| error.message)
    }
}

/// A point of the grid with stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) choice: Choice,
    pub(crate) stages: usize,
    pub(crate) chunks: usize,
}

/// What the simulator says of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    pub(crate) point: Point,
    pub(crate) seconds: f64,
    pub(crate) fits: bool,
}

impl Point {
    /// Lays the step out and simulates it.
    pub(crate) fn try_on(self, program: &Program, setting: Setting<'_>) -> Result<Tried, String> {
        let Setting { cluster, engine, limit_bytes } = setting;
        let Point { choice, stages, chunks } = self;
        if stages == 1 {
            let found = choice.try_on(program, setting)?;
            return Ok(Tried { point: self, seconds: found.seconds, fits: found.fits });
        }
        let schedule = if chunks > 1 { "interleaved" } else { "1f1b" };
        let cut = format!("\n[[tactic]]\nstages = {stages}\nschedule = '{schedule}'\nchunks = {chunks}\n");
        let tactics = parse_tactics(&(choice.tactics() + &cut)).map_err(|error| error.message)?;
        let mesh = Mesh::parse(&choice.mesh())?;
        let (pipeline, anatomy) = only_pipeline(program, &mesh, &tactics, &estimate).map_err(|error| error.message)?;
        let prepared = Prepared::new(pipeline, &anatomy.classes, engine);
        let timeline = simulate(&prepared, cluster, engine);
        let fits = timeline.stages.iter().all(|stage| stage.memory.peak_bytes <= limit_bytes);
        Ok(Tried { point: self, seconds: timeline.step_seconds, fits })
    }

    pub(crate) fn describe(&self) -> String {
        let Choice { data, tensor, microbatches, sequence, state, remat, .. } = self.choice;
        let chunks = if self.chunks > 1 { format!(" of {} chunks", self.chunks) } else { String::new() };
        let sequence = if sequence { " sequence" } else { "" };
        let (stages, state, remat) = (self.stages, state.name, remat.name);
        format!(
            "{stages} stages{chunks}, data {data}, tensor {tensor}, {microbatches} microbatches, {state}, again {remat}{sequence}"
        )
    }
}

/// The fastest of the ways in which a published plan may keep its state and what it computes again, which were not
/// published.
pub(crate) fn best_published(program: &Program, setting: Setting<'_>, published: Published) -> Option<Tried> {
    let Published { stages, data, tensor, microbatches, has_experts } = published;
    let mut points = Vec::new();
    for state in STATES {
        for remat in [REMATS[0], REMATS[2], REMATS[3]] {
            let vocab = tensor > 1;
            let choice =
                Choice { data, tensor, microbatches, expert: has_experts, sequence: false, vocab, state, remat };
            points.push(Point { choice, stages, chunks: 1 });
        }
    }
    fastest(program, setting, &points)
}

/// The grid of Megatron: tensor parallelism within nodes, stages over what is left, microbatches of one to eight samples
/// on every replica, stages in one or two chunks, the optimizer cut over replicas or not, and least recomputation that
/// fits.
pub(crate) fn best_of_grid(program: &Program, setting: Setting<'_>, batch: usize) -> Option<Tried> {
    let (devices, per_node) = (setting.cluster.devices(), setting.cluster.devices_per_node());
    let mut ladders: Vec<Vec<Point>> = Vec::new();
    for tensor in (0..=3).map(|power| 1 << power).filter(|tensor| *tensor <= per_node) {
        for stages in (1..=devices / tensor).filter(|stages| (devices / tensor).is_multiple_of(*stages)) {
            let data = devices / tensor / stages;
            for samples in [1, 2, 4, 8].into_iter().filter(|samples| batch.is_multiple_of(samples * data)) {
                let microbatches = batch / samples / data;
                for chunks in [1, 2] {
                    let is_even = chunks == 1 || stages > 1 && microbatches.is_multiple_of(stages);
                    if !is_even {
                        continue;
                    }
                    for state in [STATES[0], STATES[2]].into_iter().take(if data > 1 { 2 } else { 1 }) {
                        let (sequence, vocab) = (tensor > 1, tensor > 1);
                        let point = |remat| {
                            let choice =
                                Choice { data, tensor, microbatches, expert: false, sequence, vocab, state, remat };
                            Point { choice, stages, chunks }
                        };
                        ladders.push([REMATS[0], REMATS[1], REMATS[2]].map(point).to_vec());
                    }
                }
            }
        }
    }
    let first_that_fits = |ladder: &Vec<Point>| {
        ladder.iter().find_map(|point| point.try_on(program, setting).ok().filter(|tried| tried.fits))
    };
    fastest_of(in_threads(&ladders, first_that_fits))
}

fn fastest(program: &Program, setting: Setting<'_>, points: &[Point]) -> Option<Tried> {
    fastest_of(in_threads(points, |point| point.try_on(program, setting).ok().filter(|tried| tried.fits)))
}

fn fastest_of(tried: Vec<Option<Tried>>) -> Option<Tried> {
    tried.into_iter().flatten().min_by(|left, right| left.seconds.total_cmp(&right.seconds))
}

/// Does something with each of a list on two threads.
fn in_threads<T: Sync, R: Send>(list: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = list.get(number) else { return done };
            done.push((number, act(item)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..super::grid::THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread ends")).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

//! Alpa's ladders (Zheng and others, 2022, section 8 and appendix): models and devices of its evaluation, the plans it
//! published, and the grid that users of Megatron choose from, with stages.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshwright::cluster::{Cluster, parse, parse_file};
use meshwright::lower::estimate;
use meshwright::pipeline::only_pipeline;
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::simulate::{Prepared, simulate};
use meshwright::tactics::parse as parse_tactics;

use super::grid::{Choice, REMATS, STATES, Setting, Way, has_experts};

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
    /// What Alpa's runs differ in from the presets. Gradients of microbatches are accumulated, each of which has norms of
    /// its own; how many there were for Wide-ResNet is not published, and groups of as many examples as this leave as
    /// many as plans need. Experts are trained with Adafactor (`benchmark_3d_one_case_moe.py`): with two moments for
    /// every parameter, 70 billion would not fit 64 devices of 16 GB at all.
    pub(crate) fn settings(&self) -> &'static [&'static str] {
        match self.model {
            model if model.starts_with("wresnet") => &["norm_group=8"],
            model if model.starts_with("moe") => &["optimizer=adafactor"],
            _ => &[],
        }
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
    /// Of all stages on average.
    compute_seconds: f64,
}

impl Point {
    /// Lays the step out and simulates it.
    pub(crate) fn try_on(self, program: &Program, setting: Setting<'_>) -> Result<Tried, String> {
        let Setting { cluster, engine, limit_bytes } = setting;
        let Point { choice, stages, chunks } = self;
        if stages == 1 {
            let found = choice.try_on(program, setting)?;
            // How much of it is waiting is not told.
            return Ok(Tried { point: self, seconds: found.seconds, fits: found.fits, compute_seconds: 0.0 });
        }
        let schedule = if chunks > 1 { "interleaved" } else { "1f1b" };
        let cut = format!("\n[[tactic]]\nstages = {stages}\nschedule = '{schedule}'\nchunks = {chunks}\n");
        let tactics = parse_tactics(&(choice.tactics() + &cut)).map_err(|error| error.message)?;
        let mesh = Mesh::parse(&choice.mesh())?;
        let (pipeline, anatomy) = only_pipeline(program, &mesh, &tactics, &estimate).map_err(|error| error.message)?;
        let prepared = Prepared::new(pipeline, &anatomy.classes, engine);
        let timeline = simulate(&prepared, cluster, engine);
        let fits = timeline.stages.iter().all(|stage| stage.memory.peak_bytes <= limit_bytes);
        let computing: f64 = timeline.stages.iter().map(|stage| stage.compute_seconds).sum();
        let compute_seconds = computing / timeline.stages.len() as f64;
        Ok(Tried { point: self, seconds: timeline.step_seconds, fits, compute_seconds })
    }

    pub(crate) fn describe(&self) -> String {
        let Choice { data, tensor, microbatches, sequence, state, remat, expert, .. } = self.choice;
        let chunks = if self.chunks > 1 { format!(" of {} chunks", self.chunks) } else { String::new() };
        let sequence = if sequence { " sequence" } else { "" };
        let experts = if expert { " experts" } else { "" };
        let (stages, state, remat) = (self.stages, state.name, remat.name);
        format!(
            "{stages} stages{chunks}, data {data}, tensor {tensor}, {microbatches} microbatches, {state}, again {remat}{sequence}{experts}"
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
/// on every replica, stages in one or two chunks, the optimizer cut over replicas or not, experts cut over replicas or
/// not, and least recomputation that fits.
pub(crate) fn best_of_grid(program: &Program, setting: Setting<'_>, batch: usize) -> Option<Tried> {
    let (devices, per_node) = (setting.cluster.devices(), setting.cluster.devices_per_node());
    let experts = if has_experts(program) { &[false, true][..] } else { &[false] };
    let mut lines: Vec<Line> = Vec::new();
    for tensor in (0..=3).map(|power| 1 << power).filter(|tensor| *tensor <= per_node) {
        for stages in (1..=devices / tensor).filter(|stages| (devices / tensor).is_multiple_of(*stages)) {
            let data = devices / tensor / stages;
            for chunks in [1, 2].into_iter().filter(|&chunks| chunks == 1 || stages > 1) {
                for state in [STATES[0], STATES[2]].into_iter().take(if data > 1 { 2 } else { 1 }) {
                    for &expert in experts.iter().take(if data > 1 { 2 } else { 1 }) {
                        lines.push(Line { data, tensor, stages, chunks, state, expert });
                    }
                }
            }
        }
    }
    // What waits least is tried first, so that much of the rest is known to be slower.
    lines.sort_by_key(|line| line.stages);
    let trial = Trial { program, setting, batch, best_seconds: Mutex::new(f64::INFINITY), computing: Mutex::default() };
    fastest_of(in_threads(&lines, |line| trial.best_of(*line)))
}

/// Points that differ in the size of microbatches and in recomputation.
#[derive(Clone, Copy, Debug)]
struct Line {
    data: usize,
    tensor: usize,
    stages: usize,
    chunks: usize,
    state: Way,
    expert: bool,
}

impl Line {
    fn point(self, samples: usize, remat: Way, batch: usize) -> Point {
        let Line { data, tensor, stages, chunks, state, expert } = self;
        let (sequence, vocab) = (tensor > 1, tensor > 1);
        let microbatches = batch / samples / data;
        let choice = Choice { data, tensor, microbatches, expert, sequence, vocab, state, remat };
        Point { choice, stages, chunks }
    }
}

/// What is known while a grid is tried.
struct Trial<'t> {
    program: &'t Program,
    setting: Setting<'t>,
    batch: usize,
    best_seconds: Mutex<f64>,
    /// What devices compute on average.
    computing: Mutex<BTreeMap<Class, f64>>,
}

/// Tensor parallelism, samples, recomputation and experts. Stages and replicas of the same share the same work.
type Class = (usize, usize, &'static str, bool);

/// Updates differ a little in what they compute.
const COMPUTING_AT_LEAST: f64 = 0.97;

impl Trial<'_> {
    /// The fastest of a line, or none that is faster than what was found before. Larger microbatches take more memory,
    /// so that what is too large for one size is for the next.
    fn best_of(&self, line: Line) -> Option<Tried> {
        let Setting { engine, limit_bytes, .. } = self.setting;
        let room = limit_bytes.saturating_sub(engine.reserved_bytes) as f64 / (1.0 + engine.fragmentation);
        let state = line.point(1, REMATS[0], line.data).choice.state_bytes(self.program)?;
        // Some stage has at least as much as all on average.
        if state as f64 / line.stages as f64 > room {
            return None;
        }
        let mut remats = &REMATS[..3];
        let mut best: Option<Tried> = None;
        for samples in [1, 2, 4, 8].into_iter().filter(|samples| self.batch.is_multiple_of(samples * line.data)) {
            while let Some((&remat, others)) = remats.split_first() {
                let point = line.point(samples, remat, self.batch);
                let is_even = line.chunks == 1 || point.choice.microbatches.is_multiple_of(line.stages);
                if !is_even || self.least_seconds(point, samples) >= *self.best_seconds.lock().expect("a lock") {
                    break;
                }
                let Ok(tried) = point.try_on(self.program, self.setting) else { break };
                let key = (line.tensor, samples, remat.name, line.expert);
                if line.stages > 1 {
                    self.computing.lock().expect("a lock").entry(key).or_insert(tried.compute_seconds);
                }
                if tried.fits {
                    let mut least = self.best_seconds.lock().expect("a lock");
                    if tried.seconds < *least {
                        *least = tried.seconds;
                        best = Some(tried);
                    }
                    break;
                }
                remats = others;
            }
        }
        best
    }

    /// What a point takes at least: what devices compute, and what they wait for the first microbatch.
    fn least_seconds(&self, point: Point, samples: usize) -> f64 {
        let Choice { tensor, microbatches, remat, expert, .. } = point.choice;
        let key = (tensor, samples, remat.name, expert);
        let computing = self.computing.lock().expect("a lock").get(&key).copied().unwrap_or(0.0);
        let waiting = (point.stages - 1) as f64 / (microbatches * point.chunks) as f64;
        COMPUTING_AT_LEAST * computing * (1.0 + waiting)
    }
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

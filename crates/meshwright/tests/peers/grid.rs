//! The grid that users of Megatron and ZeRO choose their plans from, every point of it tried.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshwright::cluster::Cluster;
use meshwright::lower::estimate;
use meshwright::program::{ArgumentClass, Program};
use meshwright::shard::{Layout, Mesh};
use meshwright::simulate::{Engine, Prepared, simulate};
use meshwright::tactics::{apply, only_local, parse};

/// What became of the grid of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grid {
    /// The fastest first; of equals the one that is tried first.
    pub(crate) candidates: Vec<Candidate>,
    /// How many points could not be laid out, by what was said of them.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// A point of the grid, and what the simulator says of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) choice: Choice,
    pub(crate) seconds: f64,
    /// On the device that needs most.
    pub(crate) peak_bytes: usize,
    pub(crate) fits: bool,
}

/// A point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) data: usize,
    pub(crate) tensor: usize,
    pub(crate) microbatches: usize,
    /// Experts lie on the data axis.
    pub(crate) expert: bool,
    /// Between products that devices share, each has a part of the sequence.
    pub(crate) sequence: bool,
    /// Tables of tokens are cut by the axis of tensor parallelism.
    pub(crate) vocab: bool,
    pub(crate) state: Way,
    pub(crate) remat: Way,
}

/// One way of several, and the lines of the tactic that takes it; none where nothing is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    lines: &'static str,
}

/// How the state of training lies over the data axis. ZeRO-1 is there twice: as DeepSpeed has it, with whole
/// weights, and as Megatron's distributed optimizer, whose `f32` weights are cut with the moments and gathered once a
/// step in the type of computation.
pub(crate) const STATES: [Way; 5] = [
    Way { name: "whole", lines: "" },
    Way { name: "zero1", lines: "axis = 'data'\npreset = 'zero1'" },
    Way { name: "distributed", lines: "axis = 'data'\ntile = { 'params.**' = 'first' }" },
    Way { name: "zero2", lines: "axis = 'data'\npreset = 'zero2'" },
    Way { name: "zero3", lines: "axis = 'data'\npreset = 'zero3'" },
];

/// What is computed again for the backward pass.
pub(crate) const REMATS: [Way; 4] = [
    Way { name: "nothing", lines: "" },
    Way { name: "attention", lines: "remat = ['**/attn/attention']" },
    Way { name: "layers", lines: "remat = ['layers.*']" },
    Way { name: "everything", lines: "remat = ['**']" },
];

/// Where a step runs, and what it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) engine: &'a Engine,
    pub(crate) limit_bytes: usize,
}

/// Tries every point for a step. All devices are used. Points whose state alone is more than the limit are not laid
/// out, which changes no answer about what fits.
pub(crate) fn grid(program: &Program, setting: Setting<'_>) -> Grid {
    let (choices, hopeless) = small_enough(program, setting, &choices(program, setting.cluster));
    let mut grid = try_all(program, setting, &choices, THREADS);
    if hopeless > 0 {
        grid.refused.insert("the state of training alone is too large".to_owned(), hopeless);
    }
    grid
}

/// Threads that share the points of a grid.
pub(crate) const THREADS: usize = 2;

/// The points of the grid of a step.
pub(crate) fn choices(program: &Program, cluster: &Cluster) -> Vec<Choice> {
    let (devices, node) = (cluster.devices(), cluster.devices_per_node());
    let (batch, has_experts) = (batch(program), has_experts(program));
    let remats = remats(program, has_experts);
    let mut choices = Vec::new();
    for tensor in (1..=node).filter(|&tensor| devices.is_multiple_of(tensor)) {
        let data = devices / tensor;
        for (expert, sequence, vocab) in flags(tensor > 1, data > 1 && has_experts) {
            // Where there is one replica, all ways to lay its state out are the same.
            for &state in &STATES[..if data > 1 { STATES.len() } else { 1 }] {
                for &remat in &remats {
                    let microbatches = (0..usize::BITS).map(|power| 1 << power);
                    for microbatches in microbatches.take_while(|count| batch.is_multiple_of(data * count)) {
                        choices.push(Choice { data, tensor, microbatches, expert, sequence, vocab, state, remat });
                    }
                }
            }
        }
    }
    choices
}

/// What may be computed again. Where a model has layers, these are better than everything: values of the head are
/// needed at once anyway, and computing them again takes time and frees nothing. With experts it is not always so.
fn remats(program: &Program, has_experts: bool) -> Vec<Way> {
    let has_layers = program.locations.iter().any(|(_, location)| location.scope.starts_with("layers."));
    let is_useful = |way: &Way| match way.name {
        "layers" => has_layers,
        "everything" => !has_layers || has_experts,
        _ => true,
    };
    REMATS.into_iter().filter(is_useful).collect()
}

/// Experts, sequence and vocabulary: each as it may be.
fn flags(has_tensor_axis: bool, has_experts: bool) -> Vec<(bool, bool, bool)> {
    let both = |may: bool| if may { &[false, true][..] } else { &[false] };
    let mut flags = Vec::new();
    for &expert in both(has_experts) {
        for &sequence in both(has_tensor_axis) {
            flags.extend(both(has_tensor_axis).iter().map(|&vocab| (expert, sequence, vocab)));
        }
    }
    flags
}

/// Tries points on threads. What is found depends neither on how many these are nor on the order of the points, but
/// for points that are equally fast. Points that differ in microbatches alone are tried together.
pub(crate) fn try_all(program: &Program, setting: Setting<'_>, choices: &[Choice], threads: usize) -> Grid {
    let mut lines: Vec<(Choice, Vec<(usize, Choice)>)> = Vec::new();
    for (number, &choice) in choices.iter().enumerate() {
        let kind = Choice { microbatches: 1, ..choice };
        match lines.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, line)) => line.push((number, choice)),
            None => lines.push((kind, vec![(number, choice)])),
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, line)) = lines.get(number) else { return done };
            try_line(program, setting, line, &mut done);
        }
    };
    let mut tried: Vec<(usize, Result<Candidate, String>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread ends")).collect()
    });
    tried.sort_by_key(|(number, _)| *number);
    let mut grid = Grid { candidates: Vec::new(), refused: BTreeMap::new() };
    for (_, outcome) in tried {
        match outcome {
            Ok(candidate) => grid.candidates.push(candidate),
            Err(reason) => *grid.refused.entry(reason).or_default() += 1,
        }
    }
    grid.candidates.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    grid
}

/// What takes more than the limit by this factor does not fit in half as many, larger microbatches.
const FAR_TOO_LARGE: f64 = 1.25;

/// Tries points that differ in microbatches alone, those with most first. Fewer are larger, so that where they take far too
/// much, those with fewer are not laid out, which changes no answer about what fits; but for a single one, which has no
/// sums to keep.
fn try_line(
    program: &Program,
    setting: Setting<'_>,
    line: &[(usize, Choice)],
    done: &mut Vec<(usize, Result<Candidate, String>)>,
) {
    let mut line = line.to_vec();
    line.sort_by_key(|(_, choice)| std::cmp::Reverse(choice.microbatches));
    let mut is_far = false;
    for (number, choice) in line {
        if is_far && choice.microbatches > 1 {
            done.push((number, Err("more microbatches take far too much".to_owned())));
            continue;
        }
        let tried = choice.try_on(program, setting);
        let most = setting.limit_bytes as f64 * FAR_TOO_LARGE;
        is_far |= tried.as_ref().is_ok_and(|candidate| candidate.peak_bytes as f64 > most);
        done.push((number, tried));
    }
}

/// The choices whose state may fit, and how many others there are. Neither recomputation nor microbatches change how
/// state lies.
fn small_enough(program: &Program, setting: Setting<'_>, choices: &[Choice]) -> (Vec<Choice>, usize) {
    let engine = setting.engine;
    let room = setting.limit_bytes.saturating_sub(engine.reserved_bytes) as f64 / (1.0 + engine.fragmentation);
    let mut known: Vec<(Choice, bool)> = Vec::new();
    let mut kept = Vec::new();
    for &choice in choices {
        let base = Choice { microbatches: 1, remat: REMATS[0], ..choice };
        let found = known.iter().find(|(other, _)| *other == base).map(|&(_, may_fit)| may_fit);
        let may_fit = found.unwrap_or_else(|| {
            let may_fit = base.state_bytes(program).is_none_or(|bytes| bytes as f64 <= room);
            known.push((base, may_fit));
            may_fit
        });
        if may_fit {
            kept.push(choice);
        }
    }
    let hopeless = choices.len() - kept.len();
    (kept, hopeless)
}

impl Grid {
    /// The fastest that fits.
    pub(crate) fn best(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.fits)
    }

    /// The fastest that fits of every kind, the fastest kind first.
    pub(crate) fn best_of_kinds(&self) -> Vec<&Candidate> {
        let mut best: Vec<&Candidate> = Vec::new();
        for candidate in self.candidates.iter().filter(|candidate| candidate.fits) {
            if best.iter().all(|other| other.choice.kind() != candidate.choice.kind()) {
                best.push(candidate);
            }
        }
        best
    }
}

impl Choice {
    /// Lays the step out and simulates it. The error says why it cannot be.
    pub(crate) fn try_on(self, program: &Program, setting: Setting<'_>) -> Result<Candidate, String> {
        let Setting { cluster, engine, limit_bytes } = setting;
        let mesh = Mesh::parse(&self.mesh())?;
        let tactics = parse(&self.tactics()).map_err(|error| error.message)?;
        let (local, anatomy) = only_local(program, &mesh, &tactics, &estimate).map_err(|error| error.message)?;
        let prepared = Prepared::whole(&local, &anatomy.classes, engine);
        let timeline = simulate(&prepared, cluster, engine);
        let peak_bytes = timeline.stages.iter().map(|stage| stage.memory.peak_bytes).max().unwrap_or(0);
        Ok(Candidate { choice: self, seconds: timeline.step_seconds, peak_bytes, fits: peak_bytes <= limit_bytes })
    }

    /// What parameters and optimizer state take on a device; none where the step cannot be laid out.
    pub(crate) fn state_bytes(self, program: &Program) -> Option<usize> {
        let mut layout = Layout::new(program, Mesh::parse(&self.mesh()).ok()?);
        for (number, tactic) in (0..).zip(parse(&self.tactics()).ok()?) {
            apply(&mut layout, &tactic, number).ok()?;
        }
        let arguments = program.body().arguments.iter().zip(&layout.anatomy.classes);
        let state = arguments.filter(|(_, class)| **class != ArgumentClass::Input).map(|(&value, _)| value);
        Some(state.map(|value| layout.stored(value).local_type(&layout.mesh, program.ty(value)).bytes()).sum())
    }

    /// The mesh, as the command takes it. Tensor parallelism is within a node, so its axis is the last.
    pub(crate) fn mesh(&self) -> String {
        let mut axes = Vec::new();
        if self.data > 1 || self.tensor == 1 {
            axes.push(format!("data={}", self.data));
        }
        if self.tensor > 1 {
            axes.push(format!("model={}", self.tensor));
        }
        if self.microbatches > 1 {
            axes.push(format!("micro={}@time", self.microbatches));
        }
        axes.join(",")
    }

    /// The tactics, as a file of them has them.
    pub(crate) fn tactics(&self) -> String {
        let has_data = self.data > 1 || self.tensor == 1;
        let (is_cut, micro) = (self.microbatches > 1, "axis = 'micro'\npreset = 'data'");
        let rows = [
            // Microbatches of experts have loads of their own, so that what follows is within a microbatch.
            (is_cut && self.expert, micro),
            // Experts come before data: where tokens are cut already, their weights would be gathered.
            (self.expert, "axis = 'data'\npreset = 'expert'"),
            (has_data, "axis = 'data'\npreset = 'data'"),
            (self.tensor > 1, "axis = 'model'\npreset = 'megatron'"),
            (self.sequence, "axis = 'model'\npreset = 'sequence'"),
            (self.vocab, "axis = 'model'\npreset = 'vocab'"),
            (!self.state.lines.is_empty(), self.state.lines),
            (is_cut && !self.expert, micro),
            (!self.remat.lines.is_empty(), self.remat.lines),
        ];
        let taken: Vec<String> =
            rows.iter().filter(|(is_taken, _)| *is_taken).map(|(_, lines)| format!("[[tactic]]\n{lines}\n")).collect();
        taken.join("\n")
    }

    /// What people call a plan by: which axes there are and how the state lies.
    pub(crate) fn kind(&self) -> String {
        let axes = [(self.data > 1, "data"), (self.expert, "expert"), (self.tensor > 1, "megatron")];
        let mut words: Vec<&str> = axes.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect();
        words.push(self.state.name);
        words.join(" ")
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Candidate { choice, seconds, peak_bytes, fits } = self;
        let gib = *peak_bytes as f64 / f64::from(1 << 30);
        let flags = [(choice.expert, "expert"), (choice.sequence, "sequence"), (choice.vocab, "vocab")];
        let flags: Vec<&str> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
        let fits = if *fits { "fits" } else { "too large" };
        let (state, remat) = (choice.state.name, choice.remat.name);
        let plan = format!("{:32} {state:11} again {remat:10} {}", choice.mesh(), flags.join(" "));
        write!(f, "{seconds:>10.4} s {gib:>8.2} GiB {fits:9} {}", plan.trim_end())
    }
}

/// The choice of a candidate that was printed.
pub(crate) fn read_choice(line: &str) -> Option<Choice> {
    let (mesh, rest) = line.split_once(" GiB ")?.1.split_once('=')?;
    let mesh = format!("{}={rest}", mesh.split_whitespace().last()?);
    let mut words = mesh.split_whitespace();
    let mesh = Mesh::parse(words.next()?).ok()?;
    let size = |name: &str| mesh.axis(name).map_or(1, |axis| mesh.axes[axis].size);
    let way = |ways: &[Way], name: &str| ways.iter().find(|way| way.name == name).copied();
    let state = way(&STATES, words.next()?)?;
    let remat = way(&REMATS, words.nth(1)?)?;
    let flags: Vec<&str> = words.collect();
    let has = |flag: &str| flags.contains(&flag);
    let (expert, sequence, vocab) = (has("expert"), has("sequence"), has("vocab"));
    let (data, tensor, microbatches) = (size("data"), size("model"), size("micro"));
    Some(Choice { data, tensor, microbatches, expert, sequence, vocab, state, remat })
}

/// Examples in a step: the size that most of the data has along its first dimension, as the preset `data` has it.
fn batch(program: &Program) -> usize {
    let mut elements: BTreeMap<usize, usize> = BTreeMap::new();
    for (&value, class) in program.body().arguments.iter().zip(&program.anatomy().classes) {
        let ty = program.ty(value);
        if let (ArgumentClass::Input, Some(&size)) = (class, ty.shape.first()) {
            *elements.entry(size).or_default() += ty.elements();
        }
    }
    elements.into_iter().max_by_key(|(_, elements)| *elements).map_or(1, |(size, _)| size)
}

/// Whether the step has weights of experts that can be told apart.
pub(crate) fn has_experts(program: &Program) -> bool {
    let Ok(mesh) = Mesh::parse("data=2") else { return false };
    let Ok(tactics) = parse("[[tactic]]\naxis = 'data'\npreset = 'expert'") else { return false };
    let mut layout = Layout::new(program, mesh);
    tactics.iter().all(|tactic| apply(&mut layout, tactic, 0).is_ok())
}

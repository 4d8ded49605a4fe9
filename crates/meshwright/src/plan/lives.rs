//! What the values of each class take of memory, and when.

use std::collections::BTreeMap;

use super::alike::{Classes, Together};
use super::buffers::{Besides, Buffers, Times};
use super::bundle::{Bundle, Bundles, source};
use super::choices::Choice;
use super::graph::{Graph, Origin};
use super::parts::Parts;
use super::recipe::is_state;
use super::sketch::Ground;
use super::time::Time;
use crate::program::{Id, OpId, Phase, Program, ValueId};

/// What happens to what a class of the forward pass makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// It is there until it is read for the last time.
    Kept,
    /// It is made once more for the backward pass.
    Again,
    /// It is there for nobody who makes something again, and for the backward pass only where that reads it.
    Gone,
}

/// When the values of each bundle are in memory. Time is told in values that are written to it.
#[derive(Clone, Debug)]
pub(super) struct Lives {
    /// Of every class, of every bundle of it.
    pub(super) classes: Vec<Vec<Life>>,
    /// The modes that each class may have; first the one that it has where nothing is made again.
    pub(super) modes: Vec<Vec<Mode>>,
    /// Whether it was said of any class that it is made again.
    is_any_told: bool,
    pub(super) steps: usize,
    /// When the loop over microbatches has ended.
    pub(super) loop_end: usize,
    /// Of every class, what it decides about that lies on the host.
    held: Vec<Vec<What>>,
    /// When the backward pass begins.
    pub(super) middle: usize,
}

/// The values of one bundle.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// What is there in all modes.
    always: Vec<Stay>,
    /// What the backward pass reads, or may need to make something else again.
    late: Vec<LateStay>,
}

/// Bytes over a stretch of time.
#[derive(Clone, Copy, Debug)]
struct Stay {
    what: What,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct LateStay {
    what: What,
    made: usize,
    /// After the last reader of the forward pass.
    early_end: usize,
    /// When it is made again, at the earliest.
    again: usize,
    /// After the last reader, in the backward pass or of what is made again.
    end: usize,
    /// After the last reader of the backward pass, where there is one.
    read_end: Option<usize>,
    /// It goes to memory only where it is kept.
    is_passing: bool,
    /// Others than the backward pass read it, so that it is kept where the rest is made again.
    is_shared: bool,
}

/// A value by what tells its size.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A result of an op of the bundle.
    Result {
        op: usize,
        result: usize,
        value: ValueId,
    },
    Operand {
        op: usize,
        operand: usize,
        value: ValueId,
    },
    /// So many times as much as the first result of an op of the bundle.
    Beside {
        op: usize,
        value: ValueId,
        share: f64,
    },
}

impl Lives {
    /// Perhaps state lies on the host.
    pub(super) fn new(ground: &Ground<'_>, time: &Time, classes: &Classes, graph: &Graph, is_held: bool) -> Lives {
        let Ground { program, bundles, buffers, .. } = ground;
        let times = buffers.times(time.microbatches);
        let layer_late = vec![usize::MAX; bundles.list.len()];
        let is_looped = |bundle: &Bundle| bundle.ops.iter().any(|&op| time.trips(op) > 1);
        let last_looped = bundles.list.iter().rfind(|bundle| is_looped(bundle)).and_then(|bundle| bundle.ops.last());
        let loop_end = last_looped.map_or(0, |&op| times.end(op));
        let first_late = bundles.list.iter().find(|bundle| bundle.phase == Phase::Backward);
        let middle = first_late.map_or(0, |bundle| times.start(bundle.ops[0]));
        let mut finder = Finder { ground, program, time, bundles, classes, buffers, times, layer_late, loop_end };
        finder.find_layers();
        let mut lives: Vec<Vec<Life>> =
            classes.members.iter().map(|members| vec![Life::default(); members.len()]).collect();
        let mut modes: Vec<Vec<Mode>> = Vec::with_capacity(classes.members.len());
        for (class, members) in classes.members.iter().enumerate() {
            let mut is_late = false;
            let mut may_go = false;
            let mut may_make_again = false;
            for (index, &bundle) in members.iter().enumerate() {
                let life = finder.life(bundle);
                is_late |= !life.late.is_empty();
                may_go |= life.late.iter().any(|stay| stay.read_end.is_none());
                may_make_again |= life.late.iter().any(|stay| !stay.is_shared);
                lives[class][index] = life;
            }
            let is_told = members.iter().all(|&bundle| ground.rewriting.is_again(bundle));
            modes.push(match (is_late, may_make_again) {
                (false, _) => vec![Mode::Kept],
                (true, false) if may_go => vec![Mode::Gone, Mode::Kept],
                (true, false) => vec![Mode::Kept],
                (true, true) if is_told && may_go => vec![Mode::Gone, Mode::Again],
                (true, true) if is_told => vec![Mode::Again],
                (true, true) if may_go => vec![Mode::Gone, Mode::Kept, Mode::Again],
                (true, true) => vec![Mode::Kept, Mode::Again],
            });
        }
        let held = vec![Vec::new(); classes.members.len()];
        let is_any_told = ground.rewriting.is_any_again();
        let mut lives = Lives { classes: lives, modes, is_any_told, steps: times.steps, loop_end, middle, held };
        lives.add_arguments(ground, classes, graph, is_held);
        lives.add_sums(ground, time, classes, graph);
        lives
    }

    /// The modes that a class may have where nothing is made again but what was said, which then finds what it reads.
    pub(super) fn modes_told(&self, class: usize) -> &[Mode] {
        let modes = &self.modes[class];
        let is_told = !modes.contains(&Mode::Kept);
        let count = if is_told { modes.len() } else { modes.iter().filter(|mode| **mode != Mode::Again).count() };
        &modes[..if self.is_any_told { count } else { 1 }]
    }

    /// Arguments are there all the time, in the place of their next values.
    fn add_arguments(&mut self, ground: &Ground<'_>, classes: &Classes, graph: &Graph, is_held: bool) {
        let Ground { program, bundles, base, .. } = ground;
        let steps = self.steps;
        let mut member_of = vec![0; bundles.list.len()];
        for members in &classes.members {
            members.iter().enumerate().for_each(|(index, &bundle)| member_of[bundle] = index);
        }
        for (index, &argument) in program.body().arguments.iter().enumerate() {
            let next = base.anatomy.next[index].map(|result| source(program, program.body().results[result]));
            let (what, class) = match graph.origins[argument.index()] {
                Some(Origin::Stored { class, op, result }) => (What::Result { op, result, value: argument }, class),
                Some(Origin::Read { class, op, operand }) => (What::Operand { op, operand, value: argument }, class),
                Some(Origin::Made { .. }) | None => continue,
            };
            if is_held && is_state(&base.anatomy, index) {
                self.held[class].push(what);
                continue;
            }
            // What is stored as it is read is counted where it is decided how.
            let flow = graph.flow_of[argument.index()][0];
            if flow.is_some_and(|flow| graph.flows[flow as usize].is_stored) {
                continue;
            }
            let bundle = next.and_then(|next| bundles.maker(program, next));
            let member = bundle.filter(|&bundle| classes.of[bundle] == class).map_or(0, |bundle| member_of[bundle]);
            self.classes[class][member].always.push(Stay { what, start: 0, end: steps });
        }
    }

    /// Sums over microbatches are there in all trips: as parts of sums over devices too, unless these are reduced in
    /// every trip.
    fn add_sums(&mut self, ground: &Ground<'_>, time: &Time, classes: &Classes, graph: &Graph) {
        let Ground { program, bundles, buffers, .. } = ground;
        let times = buffers.times(time.microbatches);
        for (class, members) in classes.members.iter().enumerate() {
            for (index, &bundle) in members.iter().enumerate() {
                for (op, &id) in bundles.list[bundle].ops.iter().enumerate().filter(|(_, id)| time.trips(**id) > 1) {
                    for (result, &value) in program.ops[id].results.iter().enumerate() {
                        if time.is_tiled(value) {
                            continue;
                        }
                        let flow = graph.flow_of[value.index()].iter().flatten().next();
                        let reader = flow.and_then(|&flow| graph.flows[flow as usize].readers.first());
                        let (class, index, what) = match reader.filter(|_| graph.is_eager) {
                            Some(reader) => {
                                let what = What::Operand { op: reader.op, operand: reader.operand, value };
                                (reader.class, 0, what)
                            }
                            None => (class, index, What::Result { op, result, value }),
                        };
                        let read = buffers.of(value).last().map_or(0, |&last| times.end(last));
                        let end = self.loop_end.max(read);
                        self.classes[class][index].always.push(Stay { what, start: 0, end });
                    }
                }
            }
        }
    }

    /// Adds the bytes of a class under a choice and mode to those of each step, by differences.
    pub(super) fn add(&self, parts: &Parts<'_>, class: usize, choice: &Choice, mode: Mode, changes: &mut [i64]) {
        for life in &self.classes[class] {
            life.each(parts, choice, mode, &mut |bytes, start, end| {
                changes[start] += bytes as i64;
                changes[end] -= bytes as i64;
            });
        }
    }

    /// The bytes that a class under a choice has on the host.
    pub(super) fn held_bytes(&self, parts: &Parts<'_>, class: usize, choice: &Choice) -> u64 {
        self.held[class].iter().map(|what| what.bytes(parts, choice)).sum()
    }

    /// The bytes of a class under a choice and mode at some times.
    pub(super) fn at(&self, parts: &Parts<'_>, class: usize, choice: &Choice, mode: Mode, times: &[usize]) -> Vec<u64> {
        let mut bytes = vec![0; times.len()];
        for life in &self.classes[class] {
            life.each(parts, choice, mode, &mut |amount, start, end| {
                let (first, last) =
                    (times.partition_point(|&time| time < start), times.partition_point(|&time| time < end));
                bytes[first..last.max(first)].iter_mut().for_each(|sum| *sum += amount);
            });
        }
        bytes
    }
}

impl Life {
    /// Tells the bytes of every value, and from when until when they are there.
    pub(super) fn each(&self, parts: &Parts<'_>, choice: &Choice, mode: Mode, add: &mut dyn FnMut(u64, usize, usize)) {
        for stay in &self.always {
            add(stay.what.bytes(parts, choice), stay.start, stay.end);
        }
        for stay in &self.late {
            let bytes = stay.what.bytes(parts, choice);
            let is_again = mode == Mode::Again && !stay.is_shared;
            let kept_end = match mode {
                Mode::Gone => stay.read_end.unwrap_or_default(),
                Mode::Again if is_again => 0,
                Mode::Kept | Mode::Again => stay.end,
            };
            let start = if stay.is_passing { stay.early_end } else { stay.made };
            add(bytes, start, kept_end.max(stay.early_end));
            if is_again && !stay.is_passing {
                add(bytes, stay.again, stay.end.max(stay.again + 1));
            }
        }
    }
}

impl What {
    fn bytes(self, parts: &Parts<'_>, choice: &Choice) -> u64 {
        match self {
            What::Result { op, result, value } => parts.bytes(value, choice.ops[op].lies[result]),
            What::Operand { op, operand, value } => parts.bytes(value, choice.ops[op].wanted[operand]),
            What::Beside { op, value, share } => (share * parts.bytes(value, choice.ops[op].lies[0]) as f64) as u64,
        }
    }
}

/// When values are read.
struct Finder<'f> {
    ground: &'f Ground<'f>,
    program: &'f Program,
    time: &'f Time,
    bundles: &'f Bundles,
    classes: &'f Classes,
    buffers: &'f Buffers,
    times: &'f Times,
    /// Of every bundle, the first time that the backward pass reads something of its layer.
    layer_late: Vec<usize>,
    loop_end: usize,
}

impl Finder<'_> {
    fn is_forward(&self, bundle: usize) -> bool {
        self.bundles.list[bundle].phase == Phase::Forward
    }

    fn results(&self, bundle: usize) -> impl Iterator<Item = (usize, usize, ValueId, OpId)> {
        let program = self.program;
        let ops = self.bundles.list[bundle].ops.iter().enumerate();
        ops.flat_map(move |(place, &op)| {
            program.ops[op].results.iter().enumerate().map(move |(result, &value)| (place, result, value, op))
        })
    }

    fn readers(&self, value: ValueId, is_forward: bool) -> impl Iterator<Item = OpId> {
        let is_so =
            move |reader: &OpId| self.bundle(*reader).is_some_and(|bundle| self.is_forward(bundle) == is_forward);
        self.buffers.of(value).iter().copied().filter(is_so)
    }

    fn late_readers(&self, value: ValueId) -> impl Iterator<Item = OpId> {
        self.readers(value, false)
    }

    fn backward_readers(&self, value: ValueId) -> impl Iterator<Item = OpId> {
        self.late_readers(value).filter(|&reader| self.ground.base.anatomy.phase(reader) == Phase::Backward)
    }

    fn early_readers(&self, value: ValueId) -> impl Iterator<Item = OpId> {
        self.readers(value, true)
    }

    fn bundle(&self, op: OpId) -> Option<usize> {
        self.bundles.of(op)
    }

    fn find_layers(&mut self) {
        let mut first: BTreeMap<Together, usize> = BTreeMap::new();
        for bundle in 0..self.bundles.list.len() {
            if self.is_forward(bundle) {
                // What is kept anyway asks for nothing, nor do updates, as of running averages, which may come early.
                let own = self.results(bundle).filter(|&(_, _, value, _)| !self.ground.is_shared(self.classes, value));
                let readers = own.flat_map(|(_, _, value, _)| self.backward_readers(value));
                let late = readers.map(|reader| self.times.start(reader)).min();
                let entry = first.entry(self.together(bundle)).or_insert(usize::MAX);
                *entry = (*entry).min(late.unwrap_or(usize::MAX));
            }
        }
        for bundle in 0..self.bundles.list.len() {
            if self.is_forward(bundle) {
                self.layer_late[bundle] = first[&self.together(bundle)];
            }
        }
    }

    /// What a bundle is made again with.
    fn together(&self, bundle: usize) -> Together {
        let ops = &self.bundles.list[bundle].ops;
        self.ground.together(self.classes, bundle, ops[ops.len() - 1])
    }

    fn life(&self, bundle: usize) -> Life {
        let Finder { time, buffers, times, .. } = *self;
        let mut life = Life::default();
        let is_forward = self.is_forward(bundle);
        for (op, result, value, id) in self.results(bundle) {
            if let Some(Besides { share, until }) = buffers.besides(id).filter(|_| result == 0 && is_forward) {
                let (made, end, again) = (times.start(id), times.end(until), self.layer_late[bundle]);
                let what = What::Beside { op, value, share };
                let early_end = made + 1;
                // Where the backward pass reads nothing of its layer, it is not made again for anybody.
                let (read_end, is_passing, is_shared) = (Some(end), false, again == usize::MAX);
                life.late.push(LateStay { what, made, early_end, again, end, read_end, is_passing, is_shared });
            }
            let is_passing = buffers.is_passing(value);
            let Some(end) = buffers.of(value).iter().map(|&reader| times.end(reader)).max() else { continue };
            let what = What::Result { op, result, value };
            let made = times.start(id);
            if !is_forward && is_passing {
                continue;
            }
            // Sums over microbatches are there longer.
            if time.trips(id) > 1 && !time.is_tiled(value) {
                continue;
            }
            if !is_forward {
                life.always.push(Stay { what, start: made, end });
                continue;
            }
            // What is made before the loop is there in all of it.
            if time.microbatches > 1 && time.trips(id) == 1 {
                life.always.push(Stay { what, start: 0, end: end.max(self.loop_end) });
                continue;
            }
            let early_end = self.early_readers(value).map(|reader| times.end(reader)).max().unwrap_or(made + 1);
            let read_end = self.late_readers(value).map(|reader| times.end(reader)).max();
            // What reads it within the bundle is made again together with it.
            let others =
                self.early_readers(value).filter_map(|reader| self.bundle(reader)).filter(|&other| other != bundle);
            let needed = others.map(|reader| self.layer_late[reader]).filter(|&late| late != usize::MAX).max();
            let Some(end) = read_end.max(needed.map(|late| late + 1)) else {
                if is_passing {
                    continue;
                }
                life.always.push(Stay { what, start: made, end: early_end });
                continue;
            };
            let again = self.layer_late[bundle];
            let is_shared = again == usize::MAX || self.ground.is_shared(self.classes, value);
            life.late.push(LateStay { what, made, early_end, again, end, read_end, is_passing, is_shared });
        }
        life
    }
}

//! Which classes of bundles read what others make.

use std::collections::BTreeMap;

use super::alike::Classes;
use super::bundle::{Bundles, source};
use super::choices::Choice;
use super::moves::Place;
use super::sketch::Frame;
use super::time::Time;
use crate::lower::Haste;
use crate::program::{ArgumentClass, DType, Id, Op, OpId, Program, ValueId, is_heavy};
use crate::shard::Layout;

/// Values that pass between classes, all of a kind told once.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) flows: Vec<Flow>,
    /// How each argument and each value of a bundle comes to be, `None` for numbers and what is made anew.
    pub(super) origins: Vec<Option<Origin>>,
    /// The flow that each value is in, in the forward pass and after it.
    pub(super) flow_of: Vec<[Option<u32>; 2]>,
    /// Weights are gathered, and gradients reduced, in every trip.
    pub(super) is_eager: bool,
}

/// A value that some read, mostly in the same pass: it is brought to them once.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) origin: Origin,
    pub(super) readers: Vec<Reader>,
    /// One of the values, and how many there are.
    pub(super) value: ValueId,
    pub(super) count: usize,
    /// How often each is brought there.
    pub(super) times: usize,
    pub(super) kind: Kind,
    /// Who reads it makes it of this type, which is narrower, and does nothing else with it.
    pub(super) narrow: Option<DType>,
    /// It is brought there in the forward pass.
    pub(super) is_forward: bool,
    /// Nothing runs beside it: it is brought there before or after a loop over microbatches, or the engine waits for all
    /// that it moves.
    pub(super) is_alone: bool,
    /// It is brought there before such a loop, and kept until its end, or when the step before ends, and kept.
    pub(super) is_early: bool,
    /// The latter: it is stored as it is read.
    pub(super) is_stored: bool,
    /// It is a gradient that engines bring together with others.
    pub(super) is_combined: bool,
    /// It is read in the forward pass too, where parts of sums are added up.
    pub(super) is_finished: bool,
}

impl Flow {
    /// Whether somebody waits for it on its way.
    pub(super) fn haste(&self, kind: Kind) -> Haste {
        match kind {
            Kind::Gradient if self.is_combined => Haste::Combined,
            Kind::Weight if self.is_early => Haste::Combined,
            Kind::Activation | Kind::Gradient | Kind::Weight => Haste::Awaited,
        }
    }
}

/// What a value that is moved is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Activation,
    Gradient,
    Weight,
}

impl Kind {
    /// What it is for once it was brought somewhere for all its readers: what gradients need then is wanted at once.
    pub(super) fn onward(self) -> Kind {
        match self {
            Kind::Gradient => Kind::Activation,
            Kind::Activation | Kind::Weight => self,
        }
    }
}

/// Where a value comes from, by what decides how it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The result of an op.
    Made { class: usize, op: usize, result: usize },
    /// An argument that lies as its next value does, which the op makes.
    Stored { class: usize, op: usize, result: usize },
    /// An argument that lies as the op wants it.
    Read { class: usize, op: usize, operand: usize },
}

/// An operand of an op of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reader {
    pub(super) class: usize,
    pub(super) op: usize,
    pub(super) operand: usize,
}

impl Origin {
    pub(super) fn class(self) -> usize {
        match self {
            Origin::Made { class, .. } | Origin::Stored { class, .. } | Origin::Read { class, .. } => class,
        }
    }

    /// How the value lies under a choice of its class.
    pub(super) fn place(self, choice: &Choice) -> Place {
        match self {
            Origin::Made { op, result, .. } => choice.ops[op].made[result],
            Origin::Stored { op, result, .. } => choice.ops[op].lies[result],
            Origin::Read { op, operand, .. } => choice.ops[op].wanted[operand],
        }
    }
}

impl Reader {
    pub(super) fn place(self, choice: &Choice) -> Place {
        choice.ops[self.op].wanted[self.operand]
    }
}

impl Graph {
    pub(super) fn new(layout: &Layout<'_>, bundles: &Bundles, classes: &Classes, time: &Time, frame: &Frame) -> Graph {
        let Frame { is_eager, is_stored, .. } = *frame;
        let program = layout.program;
        let reads = reads(program, bundles, classes);
        let origins = origins(layout, bundles, classes, &reads);
        let mut numbers: BTreeMap<(Origin, Vec<Reader>, usize, Kind), usize> = BTreeMap::new();
        let mut flows: Vec<Flow> = Vec::new();
        let mut flow_of = vec![[None; 2]; program.values.len()];
        for value in program.values.ids() {
            let Some(origin) = origins[value.index()] else { continue };
            let kind = kind(layout, value, &reads[value.index()]);
            let in_loop = |read: &Read| time.trips(read.by) > 1;
            // What is brought before a loop, or when the step before ends, is there for both passes.
            let is_before_loop = time.microbatches > 1 && !is_eager && reads[value.index()].iter().any(in_loop);
            let is_before_step = is_stored && matches!(origin, Origin::Stored { .. });
            let is_early = kind == Kind::Weight && !time.is_tiled(value) && (is_before_loop || is_before_step);
            let passes: &[Option<bool>] = if is_early { &[None] } else { &[Some(true), Some(false)] };
            for &pass in passes {
                let in_pass = |read: &&Read| pass.is_none_or(|forward| layout.anatomy.is_forward(read.by) == forward);
                let readers = || reads[value.index()].iter().filter(in_pass);
                let mut list: Vec<Reader> = readers().map(|read| read.reader).collect();
                list.sort_unstable();
                list.dedup();
                if list.is_empty() {
                    continue;
                }
                let in_loop = readers().any(in_loop) || program.producer(value).is_some_and(|op| time.trips(op) > 1);
                let is_repeated = time.is_tiled(value) || is_eager && in_loop;
                // Before a loop nothing runs that it could hide behind.
                let is_before = kind == Kind::Weight && pass != Some(false) && !is_eager;
                let times = if is_repeated { time.microbatches } else { 1 };
                let number = *numbers.entry((origin, list.clone(), times, kind)).or_insert(flows.len());
                if number == flows.len() {
                    flows.push(Flow {
                        origin,
                        readers: list,
                        value,
                        count: 0,
                        times,
                        kind,
                        narrow: if is_early { None } else { narrow(program, value, readers()) },
                        is_forward: pass == Some(true),
                        is_alone: (in_loop || is_before) && !is_repeated && time.microbatches > 1,
                        is_early,
                        is_combined: layout.anatomy.is_gradient(value),
                        is_stored: is_early && is_before_step,
                        is_finished: pass == Some(false) && flow_of[value.index()][0].is_some(),
                    });
                }
                flows[number].count += 1;
                let [forward, backward] = &mut flow_of[value.index()];
                if pass != Some(false) {
                    *forward = Some(number as u32);
                }
                if pass != Some(true) {
                    *backward = Some(number as u32);
                }
            }
        }
        Graph { flows, origins, flow_of, is_eager }
    }
}

/// Somebody who reads a value.
#[derive(Clone, Copy, Debug)]
struct Read {
    by: OpId,
    reader: Reader,
}

/// The type that all who read a value make of it, where it is narrower.
fn narrow<'r>(program: &Program, value: ValueId, mut reads: impl Iterator<Item = &'r Read>) -> Option<DType> {
    let made = |read: &Read| match program.ops[read.by].op {
        Op::Convert { dtype } if dtype.bits() < program.ty(value).dtype.bits() => Some(dtype),
        _ => None,
    };
    let first = made(reads.next()?)?;
    reads.all(|read| made(read) == Some(first)).then_some(first)
}

/// For every value who reads it outside of the bundle that makes it.
fn reads(program: &Program, bundles: &Bundles, classes: &Classes) -> Vec<Vec<Read>> {
    let mut reads: Vec<Vec<Read>> = vec![Vec::new(); program.values.len()];
    for (number, bundle) in bundles.list.iter().enumerate() {
        for (place, &op) in bundle.ops.iter().enumerate() {
            for (operand, &value) in program.ops[op].operands.iter().enumerate() {
                let value = source(program, value);
                if program.ty(value).elements() > 1 && bundles.maker(program, value) != Some(number) {
                    let reader = Reader { class: classes.of[number], op: place, operand };
                    reads[value.index()].push(Read { by: op, reader });
                }
            }
        }
    }
    reads
}

fn origins(layout: &Layout<'_>, bundles: &Bundles, classes: &Classes, reads: &[Vec<Read>]) -> Vec<Option<Origin>> {
    let program = layout.program;
    let mut origins = vec![None; program.values.len()];
    for (number, bundle) in bundles.list.iter().enumerate() {
        for (op, &id) in bundle.ops.iter().enumerate() {
            for (result, &value) in program.ops[id].results.iter().enumerate() {
                origins[value.index()] = Some(Origin::Made { class: classes.of[number], op, result });
            }
        }
    }
    for (index, &argument) in program.body().arguments.iter().enumerate() {
        let next = layout.anatomy.next[index].map(|result| source(program, program.body().results[result]));
        let made = next.and_then(|next| origins[next.index()]);
        origins[argument.index()] = match made {
            Some(Origin::Made { class, op, result }) => Some(Origin::Stored { class, op, result }),
            _ => reads[argument.index()].first().map(|read| {
                let Reader { class, op, operand } = read.reader;
                Origin::Read { class, op, operand }
            }),
        };
    }
    origins
}

fn kind(layout: &Layout<'_>, value: ValueId, reads: &[Read]) -> Kind {
    let argument = layout.anatomy.origins[value.index()];
    // What updates move within themselves is wanted at once, and so is what products read.
    let is_product = |read: &Read| is_heavy(&layout.program.ops[read.by].op);
    match argument.map(|argument| layout.anatomy.classes[argument]) {
        Some(ArgumentClass::Parameter | ArgumentClass::State) => Kind::Weight,
        _ if layout.anatomy.is_gradient(value) && !reads.iter().any(is_product) => Kind::Gradient,
        _ => Kind::Activation,
    }
}

//! Lists of instructions: the order of passes with all that is sent, received, added up and freed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::place::Key;
use super::schedule::{Counts, Schedule, Work, passes};
use super::wire::Wiring;
use super::{Instruction, PieceKind, Role};
use crate::program::Program;

/// What every stage does, in order.
pub(super) fn lists(program: &Program, wiring: &Wiring, schedule: Schedule, counts: Counts) -> Vec<Vec<Instruction>> {
    let orders: Vec<Vec<Run>> = (0..counts.stages).map(|stage| order(wiring, schedule, stage, counts)).collect();
    let mut channels = channels(wiring, &orders);
    let lists = orders.iter().enumerate().map(|(stage, runs)| {
        let list = list(wiring, runs, &mut channels, stage);
        with_frees(program, wiring, &list)
    });
    lists.collect()
}

/// A piece at work.
#[derive(Clone, Copy, Debug)]
struct Run {
    piece: usize,
    microbatch: Option<usize>,
}

/// A buffer, for the microbatch where there is one for each.
type Slot = (usize, Option<usize>);

fn slot(wiring: &Wiring, buffer: usize, microbatch: Option<usize>) -> Slot {
    (buffer, microbatch.filter(|_| wiring.buffers[buffer].each_microbatch))
}

fn order(wiring: &Wiring, schedule: Schedule, stage: usize, counts: Counts) -> Vec<Run> {
    let own = |kind: PieceKind| {
        let is_own = move |(_, key): &(usize, &Key)| key.chunk % counts.stages == stage && key.kind == kind;
        wiring.keys.iter().enumerate().filter(is_own)
    };
    let mut runs: Vec<Run> = own(PieceKind::Prepare).map(|(piece, _)| Run { piece, microbatch: None }).collect();
    for pass in passes(schedule, stage, counts) {
        let kind = match pass.work {
            Work::Forward => PieceKind::Forward,
            Work::Backward => PieceKind::Backward,
            Work::Weights => PieceKind::Weights,
        };
        let piece = own(kind).find(|(_, key)| key.chunk == pass.chunk);
        runs.extend(piece.map(|(piece, _)| Run { piece, microbatch: Some(pass.microbatch) }));
    }
    let mut updates: Vec<(usize, usize, usize)> =
        own(PieceKind::Update).map(|(piece, key)| (key.turn, key.chunk, piece)).collect();
    updates.sort_unstable();
    runs.extend(updates.into_iter().map(|(_, _, piece)| Run { piece, microbatch: None }));
    runs
}

/// What goes from a stage to another, in order: the slots there.
type Channels = BTreeMap<(usize, usize), VecDeque<Slot>>;

fn channels(wiring: &Wiring, orders: &[Vec<Run>]) -> Channels {
    let mut channels = Channels::new();
    for (stage, runs) in orders.iter().enumerate() {
        for run in runs {
            for (_, into) in sends(wiring, *run) {
                let to = wiring.buffers[into].stage;
                channels.entry((stage, to)).or_default().push_back(slot(wiring, into, run.microbatch));
            }
        }
    }
    channels
}

/// What is sent after a run, and into which buffers.
fn sends(wiring: &Wiring, run: Run) -> impl Iterator<Item = (usize, usize)> {
    let writes = wiring.pieces[run.piece].writes.iter();
    writes.flat_map(|&buffer| wiring.sent.get(&buffer).into_iter().flatten().map(move |&into| (buffer, into)))
}

fn list(wiring: &Wiring, runs: &[Run], channels: &mut Channels, stage: usize) -> Vec<Instruction> {
    let mut sources: BTreeMap<usize, usize> = BTreeMap::new();
    for (&buffer, intos) in &wiring.sent {
        intos.iter().for_each(|&into| _ = sources.insert(into, wiring.buffers[buffer].stage));
    }
    let mut received: BTreeSet<Slot> = BTreeSet::new();
    let mut list = Vec::new();
    for &run in runs {
        for &buffer in &wiring.pieces[run.piece].reads {
            let Some(&from) = sources.get(&buffer) else { continue };
            let wanted = slot(wiring, buffer, run.microbatch);
            // What was sent before comes before, so that both ends of a channel agree on the order.
            while !received.contains(&wanted)
                && let Some((buffer, microbatch)) = channels.get_mut(&(from, stage)).and_then(VecDeque::pop_front)
            {
                received.insert((buffer, microbatch));
                list.push(Instruction::Receive { buffer, microbatch, from });
            }
        }
        list.push(Instruction::Run { piece: run.piece, microbatch: run.microbatch });
        for (buffer, into) in sends(wiring, run) {
            let (buffer, microbatch) = slot(wiring, buffer, run.microbatch);
            list.push(Instruction::Send { buffer, microbatch, to: wiring.buffers[into].stage, into });
        }
        for &from in &wiring.pieces[run.piece].writes {
            if let Some(&into) = wiring.sums.get(&from) {
                list.push(Instruction::Accumulate { from, into, microbatch: run.microbatch });
            }
        }
    }
    list
}

/// Buffers are freed after their last use. Results stay, and so do arguments that the caller keeps.
fn with_frees(program: &Program, wiring: &Wiring, list: &[Instruction]) -> Vec<Instruction> {
    let is_kept = |buffer: usize| match wiring.buffers[buffer].role {
        Role::Argument(index) => {
            let argument = &program.arguments[index];
            let is_result = wiring.results.iter().flatten().any(|stored| stored.buffer == buffer);
            is_result || !argument.donated && argument.alias.is_none()
        }
        Role::Result(_) | Role::Number => true,
        Role::Activation | Role::Received | Role::Gradient | Role::Made => false,
    };
    let mut seen: BTreeSet<Slot> = BTreeSet::new();
    let mut reversed = Vec::new();
    for &instruction in list.iter().rev() {
        for (buffer, microbatch) in slots(wiring, instruction) {
            if seen.insert((buffer, microbatch)) && !is_kept(buffer) {
                reversed.push(Instruction::Free { buffer, microbatch });
            }
        }
        reversed.push(instruction);
    }
    reversed.reverse();
    reversed
}

/// The slots that an instruction reads or writes.
fn slots(wiring: &Wiring, instruction: Instruction) -> Vec<Slot> {
    match instruction {
        Instruction::Run { piece, microbatch } => {
            let piece = &wiring.pieces[piece];
            piece.reads.iter().chain(&piece.writes).map(|&buffer| slot(wiring, buffer, microbatch)).collect()
        }
        Instruction::Send { buffer, microbatch, .. } | Instruction::Receive { buffer, microbatch, .. } => {
            vec![(buffer, microbatch)]
        }
        Instruction::Accumulate { from, into, microbatch } => vec![(from, microbatch), (into, None)],
        Instruction::Free { .. } => Vec::new(),
    }
}

//! The buffers of stages, and what goes from one to another.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::draft::{Draft, Made, Source};
use super::ground::Grounds;
use super::place::Key;
use super::write::Written;
use super::{Buffer, Piece, Role, Stored};
use crate::program::{DType, Program, Type, ValueId};
use crate::shard::Sharding;

/// Pieces with their buffers.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    pub(super) keys: Vec<Key>,
    pub(super) pieces: Vec<Piece>,
    pub(super) buffers: Vec<Buffer>,
    /// For each buffer, the buffers of other stages that it is sent to.
    pub(super) sent: BTreeMap<usize, Vec<usize>>,
    /// For each buffer of a microbatch's part, the sum that it is added to.
    pub(super) sums: BTreeMap<usize, usize>,
    pub(super) arguments: Vec<Vec<Stored>>,
    pub(super) results: Vec<Vec<Stored>>,
}

pub(super) fn wire(
    grounds: &Grounds<'_>,
    drafts: &BTreeMap<Key, Draft>,
    written: &BTreeMap<Key, Written>,
    results: &[Made],
) -> Wiring {
    let program = grounds.layouts[0].program;
    let mut wirer = Wirer {
        program,
        grounds,
        wiring: Wiring { arguments: vec![Vec::new(); program.arguments.len()], ..Wiring::default() },
        gives: FxHashMap::default(),
        received: BTreeMap::new(),
        numbers: vec![None; grounds.stages()],
    };
    for (&key, draft) in drafts {
        wirer.add_gives(key, draft);
    }
    for (&key, draft) in drafts {
        wirer.add_piece(key, draft, drafts, &written[&key]);
    }
    wirer.add_results(drafts, results);
    wirer.wiring
}

struct Wirer<'l, 'p> {
    program: &'p Program,
    grounds: &'l Grounds<'p>,
    wiring: Wiring,
    /// The buffers that pieces write to.
    gives: FxHashMap<Key, Vec<usize>>,
    /// The buffers on stages that others are sent to.
    received: BTreeMap<(usize, usize), usize>,
    /// The buffers of the number of the microbatch.
    numbers: Vec<Option<usize>>,
}

impl Wirer<'_, '_> {
    fn add(&mut self, stage: usize, value: ValueId, sharding: &Sharding, each_microbatch: bool, role: Role) -> usize {
        let ty = sharding.local_type(&self.grounds.layout(stage).mesh, self.program.ty(value));
        let name = buffer_name(self.program, value);
        self.wiring.buffers.push(Buffer { name, stage, ty, each_microbatch, role });
        self.wiring.buffers.len() - 1
    }

    fn add_gives(&mut self, key: Key, draft: &Draft) {
        let role = if key.is_inside() { Role::Activation } else { Role::Made };
        let stage = self.grounds.stage(key.chunk);
        let buffers =
            draft.gives.list.iter().map(|(value, sharding)| self.add(stage, *value, sharding, key.is_inside(), role));
        let buffers = buffers.collect();
        self.gives.insert(key, buffers);
    }

    fn given_by(&self, drafts: &BTreeMap<Key, Draft>, key: Key, value: ValueId, sharding: &Sharding) -> Option<usize> {
        let place = drafts.get(&key)?.gives.place(value, sharding)?;
        Some(self.gives[&key][place])
    }

    fn add_piece(&mut self, key: Key, draft: &Draft, drafts: &BTreeMap<Key, Draft>, written: &Written) {
        let stage = self.grounds.stage(key.chunk);
        let mut reads = Vec::new();
        for &read in &written.reads {
            let (value, sharding) = &draft.given.list[read];
            reads.push(match &draft.sources[read] {
                &Source::Argument { index, is_tile } => self.argument(stage, index, *value, sharding, is_tile),
                Source::Piece(from) => {
                    // Whoever reads was promised it when the pieces were drafted.
                    let buffer = self.given_by(drafts, *from, *value, sharding).unwrap_or_default();
                    self.on_stage(stage, buffer)
                }
                Source::Sum { piece, given } => {
                    let part = self.given_by(drafts, *piece, *value, given).unwrap_or_default();
                    self.sum(stage, part, *value, sharding)
                }
            });
        }
        if written.reads_number {
            reads.push(self.number(stage));
        }
        let writes = self.gives[&key].clone();
        let program = written.program.clone();
        self.wiring.keys.push(key);
        self.wiring.pieces.push(Piece { chunk: key.chunk, kind: key.kind, program, reads, writes });
    }

    fn argument(&mut self, stage: usize, index: usize, value: ValueId, sharding: &Sharding, is_tile: bool) -> usize {
        let is_known =
            |stored: &&Stored| self.wiring.buffers[stored.buffer].stage == stage && stored.sharding == *sharding;
        if let Some(stored) = self.wiring.arguments[index].iter().find(is_known) {
            return stored.buffer;
        }
        let buffer = self.add(stage, value, sharding, is_tile, Role::Argument(index));
        self.wiring.arguments[index].push(Stored { buffer, sharding: sharding.clone() });
        buffer
    }

    /// A buffer as a stage has it: its own, or the one that it is sent to.
    fn on_stage(&mut self, stage: usize, buffer: usize) -> usize {
        if self.wiring.buffers[buffer].stage == stage {
            return buffer;
        }
        if let Some(&known) = self.received.get(&(buffer, stage)) {
            return known;
        }
        let copy = Buffer { stage, role: Role::Received, ..self.wiring.buffers[buffer].clone() };
        self.wiring.buffers.push(copy);
        let into = self.wiring.buffers.len() - 1;
        self.received.insert((buffer, stage), into);
        self.wiring.sent.entry(buffer).or_default().push(into);
        into
    }

    fn sum(&mut self, stage: usize, part: usize, value: ValueId, sharding: &Sharding) -> usize {
        if let Some(&known) = self.wiring.sums.get(&part) {
            return known;
        }
        let sum = self.add(stage, value, sharding, false, Role::Gradient);
        self.wiring.sums.insert(part, sum);
        sum
    }

    fn number(&mut self, stage: usize) -> usize {
        if let Some(known) = self.numbers[stage] {
            return known;
        }
        let ty = Type::scalar(DType::I32);
        let name = "microbatch".to_owned();
        self.wiring.buffers.push(Buffer { name, stage, ty, each_microbatch: true, role: Role::Number });
        *self.numbers[stage].insert(self.wiring.buffers.len() - 1)
    }

    fn add_results(&mut self, drafts: &BTreeMap<Key, Draft>, results: &[Made]) {
        let program = self.program;
        for (index, made) in results.iter().enumerate() {
            let value = program.body().results[index];
            let stored = match made {
                Made::Argument(argument) => self.passed_on(*argument, value),
                Made::In(pieces) => {
                    let stored = |(key, sharding): &(Key, Sharding)| {
                        let buffer = self.given_by(drafts, *key, value, sharding)?;
                        Some(Stored { buffer, sharding: sharding.clone() })
                    };
                    pieces.iter().filter_map(stored).collect()
                }
            };
            for &Stored { buffer, .. } in &stored {
                let role = &mut self.wiring.buffers[buffer].role;
                if let Role::Activation | Role::Made = role {
                    *role = Role::Result(index);
                }
            }
            self.wiring.results.push(stored);
        }
        for (index, &value) in program.body().arguments.iter().enumerate() {
            if self.wiring.arguments[index].is_empty() {
                self.argument(0, index, value, &self.grounds.layout(0).stored(value), false);
            }
        }
    }

    /// Where an argument is that is a result as it is.
    fn passed_on(&mut self, index: usize, value: ValueId) -> Vec<Stored> {
        let is_whole = |stored: &&Stored| !self.wiring.buffers[stored.buffer].each_microbatch;
        let whole: Vec<Stored> = self.wiring.arguments[index].iter().filter(is_whole).cloned().collect();
        if !whole.is_empty() {
            return whole;
        }
        let sharding = self.grounds.layout(0).stored(value);
        let buffer = self.argument(0, index, value, &sharding, false);
        vec![Stored { buffer, sharding }]
    }
}

/// The name of an argument, or the scope and the number of what it holds.
fn buffer_name(program: &Program, value: ValueId) -> String {
    let argument = program.body().arguments.iter().position(|&argument| argument == value);
    let name = argument.map(|index| program.arguments[index].name.clone()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| {
        let scope =
            program.producer(value).map(|op| program.locations[program.ops[op].location].scope_parts().join("/"));
        match scope.filter(|scope| !scope.is_empty()) {
            Some(scope) => format!("{scope} {value}"),
            None => value.to_string(),
        }
    })
}

//! Whether the instructions of all stages run to their end and make what they should.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Instruction, Pipeline, Role};

/// Runs all lists against each other without computing anything. The error says which stage cannot go on, or
/// what is used that is not there.
pub fn check(pipeline: &Pipeline) -> Result<(), String> {
    check_types(pipeline)?;
    let mut checker = Checker {
        pipeline,
        there: vec![BTreeSet::new(); pipeline.stages.len()],
        made: vec![BTreeSet::new(); pipeline.stages.len()],
        channels: BTreeMap::new(),
    };
    checker.fill_arguments();
    let mut next = vec![0; pipeline.stages.len()];
    loop {
        let mut is_stuck = true;
        for (stage, list) in pipeline.stages.iter().enumerate() {
            while let Some(&instruction) = list.get(next[stage]) {
                let place = next[stage];
                let is_done = checker.step(stage, instruction);
                if !is_done.map_err(|message| format!("stage {stage}, instruction {place}: {message}"))? {
                    break;
                }
                next[stage] += 1;
                is_stuck = false;
            }
        }
        if is_stuck {
            break;
        }
    }
    for (stage, (&next, list)) in next.iter().zip(&pipeline.stages).enumerate() {
        if next < list.len() {
            return Err(format!("stage {stage} waits forever at instruction {next}: {:?}", list[next]));
        }
    }
    checker.end()
}

/// A buffer, for the microbatch where there is one for each.
type Slot = (usize, Option<usize>);

struct Checker<'p> {
    pipeline: &'p Pipeline,
    /// Of every stage, what is in memory.
    there: Vec<BTreeSet<Slot>>,
    /// Of every stage, what was ever written.
    made: Vec<BTreeSet<Slot>>,
    /// What is on its way from a stage to another.
    channels: BTreeMap<(usize, usize), VecDeque<Slot>>,
}

impl Checker<'_> {
    fn fill_arguments(&mut self) {
        for (index, buffer) in self.pipeline.buffers.iter().enumerate() {
            if let Role::Argument(_) | Role::Number = buffer.role {
                let slots = self.slots(index);
                self.there[buffer.stage].extend(slots);
            }
        }
    }

    fn slots(&self, buffer: usize) -> Vec<Slot> {
        match self.pipeline.buffers[buffer].each_microbatch {
            true => (0..self.pipeline.microbatches).map(|microbatch| (buffer, Some(microbatch))).collect(),
            false => vec![(buffer, None)],
        }
    }

    fn slot(&self, buffer: usize, microbatch: Option<usize>) -> Slot {
        (buffer, microbatch.filter(|_| self.pipeline.buffers[buffer].each_microbatch))
    }

    /// Does one thing, or gives false where it has to wait.
    fn step(&mut self, stage: usize, instruction: Instruction) -> Result<bool, String> {
        match instruction {
            Instruction::Run { piece, microbatch } => {
                let piece = &self.pipeline.pieces[piece];
                for &buffer in &piece.reads {
                    self.read(stage, self.slot(buffer, microbatch))?;
                }
                for &buffer in &piece.writes {
                    self.write(stage, self.slot(buffer, microbatch))?;
                }
            }
            Instruction::Send { buffer, microbatch, to, into } => {
                self.read(stage, (buffer, microbatch))?;
                self.channels.entry((stage, to)).or_default().push_back((into, microbatch));
            }
            Instruction::Receive { buffer, microbatch, from } => {
                let Some(sent) = self.channels.get_mut(&(from, stage)).and_then(VecDeque::pop_front) else {
                    return Ok(false);
                };
                if sent != (buffer, microbatch) {
                    return Err(format!(
                        "{sent:?} comes from stage {from} where {:?} is awaited",
                        (buffer, microbatch)
                    ));
                }
                self.write(stage, sent)?;
            }
            Instruction::Accumulate { from, into, microbatch } => {
                self.read(stage, (from, microbatch))?;
                self.made[stage].insert((into, None));
                self.there[stage].insert((into, None));
            }
            Instruction::Free { buffer, microbatch } => {
                self.read(stage, (buffer, microbatch))?;
                self.there[stage].remove(&(buffer, microbatch));
            }
        }
        Ok(true)
    }

    fn read(&self, stage: usize, slot: Slot) -> Result<(), String> {
        let name = &self.pipeline.buffers[slot.0].name;
        if self.there[stage].contains(&slot) {
            return Ok(());
        }
        let why = if self.made[stage].contains(&slot) { "is used after it was freed" } else { "is used but not made" };
        Err(format!("`{name}` {slot:?} {why}"))
    }

    fn write(&mut self, stage: usize, slot: Slot) -> Result<(), String> {
        let buffer = &self.pipeline.buffers[slot.0];
        if buffer.stage != stage || !self.made[stage].insert(slot) {
            return Err(format!("`{}` {slot:?} of stage {} is written again or elsewhere", buffer.name, buffer.stage));
        }
        self.there[stage].insert(slot);
        Ok(())
    }

    /// All that was sent was received, and all results are there.
    fn end(&self) -> Result<(), String> {
        for ((from, to), waiting) in &self.channels {
            if let Some((buffer, _)) = waiting.front() {
                let name = &self.pipeline.buffers[*buffer].name;
                return Err(format!("`{name}` is sent from stage {from} to stage {to} and never received"));
            }
        }
        for (index, copies) in self.pipeline.results.iter().enumerate() {
            let is_there = |slot: &Slot| self.there[self.pipeline.buffers[slot.0].stage].contains(slot);
            if copies.is_empty()
                || !copies.iter().flat_map(|stored| self.slots(stored.buffer)).all(|slot| is_there(&slot))
            {
                return Err(format!("result {index} is not made"));
            }
        }
        Ok(())
    }
}

/// Programs fit the buffers that they read and write, and buffers those they are sent to or added to.
fn check_types(pipeline: &Pipeline) -> Result<(), String> {
    let ty = |buffer: usize| &pipeline.buffers[buffer].ty;
    for (index, piece) in pipeline.pieces.iter().enumerate() {
        let body = piece.program.body();
        let sides = [(&body.arguments, &piece.reads), (&body.results, &piece.writes)];
        for (values, buffers) in sides {
            let fits = values.iter().zip(buffers).all(|(&value, &buffer)| piece.program.ty(value) == ty(buffer));
            if !fits || values.len() != buffers.len() {
                return Err(format!("the program of piece {index} does not fit its buffers"));
            }
        }
    }
    for instruction in pipeline.stages.iter().flatten() {
        let pair = match *instruction {
            Instruction::Send { buffer, into, .. } => Some((buffer, into)),
            Instruction::Accumulate { from, into, .. } => Some((from, into)),
            Instruction::Run { .. } | Instruction::Receive { .. } | Instruction::Free { .. } => None,
        };
        if let Some((from, into)) = pair.filter(|&(from, into)| ty(from) != ty(into)) {
            return Err(format!("buffer {from} is `{}` and buffer {into} is `{}`", ty(from), ty(into)));
        }
    }
    Ok(())
}
